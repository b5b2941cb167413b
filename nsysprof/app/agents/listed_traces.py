"""Find what an agent may ask about in a folder, by names that lead nowhere else."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nsysprof.app.inputs.compare_inputs import is_input, is_trace
from nsysprof.app.viewing.view_inputs import are_ranks
from nsysprof.ranks.identity import read_manifest_ranks
from nsysprof.results.power_samples import power_beside
from nsysprof.trace.inputs.bundle_file import is_bundle
from nsysprof.trace.inputs.resolve_input import own_trace

_MOST_TRACES, _MOST_DEPTH = 10_000, 4
# What a capture or a bench without a trace has for a comparison.
_LATENCIES = ("samples.json", "samples.json.xz", "results.csv")


class TraceKind(StrEnum):
    """What the tools can do with an entry of the list."""

    TRACE = "trace"
    # A folder with the traces of several ranks, for like_peers; each of them is listed too.
    RANKS = "ranks"
    # Measured latencies without a trace, for compare alone.
    LATENCY = "latency"


@dataclass(frozen=True)
class ListedTrace:
    """A trace of the folder, or a folder in it that stands for one."""

    path: Path
    kind: TraceKind

    def size(self) -> int:
        """Return the bytes of its files."""
        files = [self.path] if self.path.is_file() else [each for each in self.path.iterdir() if each.is_file()]
        return sum(each.stat().st_size for each in files)


def list_traces(top: Path) -> dict[str, ListedTrace]:
    """Return what a folder contains by name, which is its path below it. Links that lead out of it are left out."""
    found: dict[str, ListedTrace] = {}
    waiting = [(top, 0)]
    while waiting and len(found) < _MOST_TRACES:
        folder, depth = waiting.pop()
        for path in _visible(folder):
            if not Path(os.path.realpath(path)).is_relative_to(top):
                continue
            if path.is_dir():
                kind = _kind_of(path) if stays_inside(path, top) else None
                if kind is not None:
                    found[path.relative_to(top).as_posix()] = ListedTrace(path, kind)
                if kind in (None, TraceKind.RANKS) and depth < _MOST_DEPTH:
                    waiting.append((path, depth + 1))
            elif _is_trace_file(path) and stays_inside(path, top):
                found[path.relative_to(top).as_posix()] = ListedTrace(path, TraceKind.TRACE)
    return dict(sorted(found.items()))


def stays_inside(path: Path, top: Path) -> bool:
    """Return whether a file or folder lies in `top`, with all that is read with it, wherever its links lead.

    Whoever reads a folder follows its links, and those of the folders that they lead to: to a trace, a manifest, a
    snapshot, the traces of the ranks. A trace of a rank is read with the energy that lies beside it.

    top: without links in its own path.
    """
    waiting = [path] if path.is_dir() else [path, power_beside(path)]
    seen: set[Path] = set()
    while waiting:
        real = Path(os.path.realpath(waiting.pop()))
        if not real.is_relative_to(top):
            return False
        if real not in seen and real.is_dir():
            seen.add(real)
            with contextlib.suppress(PermissionError):  # nothing in it can be read
                waiting += real.iterdir()
    return True


def _visible(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    except OSError:
        return []


def _kind_of(folder: Path) -> TraceKind | None:
    """Return what a folder is as a whole; None for one that only contains other things."""
    try:
        files = [path for path in _visible(folder) if path.is_file()]
        if own_trace(folder) is not None or any(path.suffix == ".parquet" for path in files):
            return TraceKind.TRACE
        traces = [path for path in files if _is_trace_file(path)]
        if read_manifest_ranks(folder) or are_ranks(folder, traces):
            return TraceKind.RANKS
        if is_input(folder):
            has_latency = any(path.name in _LATENCIES for path in files)
            return TraceKind.TRACE if traces else TraceKind.LATENCY if has_latency else None
    except OSError:
        pass
    return None


def _is_trace_file(path: Path) -> bool:
    return path.is_file() and (is_trace(path) or is_bundle(path))
