"""Analyze snapshots of torch's allocator: what owned the memory at the peak, and which ranges and lines changed it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.comparison.compare_owners import compare_owners
from nsysprof.analysis.overview.allocator_owners import (
    RangeAt,
    explain_failure,
    find_fragmentation,
    find_out_of_memory,
    list_allocator_owners,
)
from nsysprof.analysis.ranges.open_range import innermost_codes
from nsysprof.app.progress import SILENT, Progress
from nsysprof.capture.user_program.program_hook import find_recorded
from nsysprof.files.folder_state import ANALYSIS, COMPARISON
from nsysprof.files.result_folder import claim_folder
from nsysprof.notes import make_note
from nsysprof.report.document import Report
from nsysprof.report.pages.memory import memory_report, write_memory, write_memory_comparison
from nsysprof.results.allocator_memory import AllocatorMemory, MemoryComparison, find_failures
from nsysprof.results.analysis import Analysis
from nsysprof.results.findings import OUT_OF_MEMORY
from nsysprof.torchprof.allocator_history import read_allocator_history
from nsysprof.torchprof.operator_facts import EVALUATED, read_range_text
from nsysprof.trace.open import open_trace
from nsysprof.trace.recorded import read_session
from nsysprof.trace.table_readers.layer_ranges import split_layers
from nsysprof.trace.tables import read_ranges, read_strings


def read_memory(
    path: Path,
    range_at: RangeAt | None = None,
    layer_at: RangeAt | None = None,
    node_at: RangeAt | None = None,
    *,
    is_fatal: bool | None = None,
) -> AllocatorMemory:
    """Return what owned the memory in a snapshot, and what held it where the snapshot is of a failed allocation.

    range_at, layer_at, node_at: return the range, the layer, and autograd's node that were open at times (us since
        1970).
    is_fatal: whether the process ended because of the failure; None where it is not known.
    """
    history = read_allocator_history(path)
    used, device, owners, over_time = list_allocator_owners(history, range_at, layer_at, node_at)
    failure = explain_failure(history, layer_at=layer_at, is_fatal=is_fatal)
    failures = () if failure is None else (failure,)
    notes = []
    if not any(use.event_count for use in used):
        notes.append(make_note("no-allocator-history"))
    return AllocatorMemory(
        path_name=path.name,
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        bytes=path.stat().st_size,
        devices=used,
        device_id=device,
        owners=owners,
        over_time=over_time,
        findings=(*find_out_of_memory(failures), *find_fragmentation(used)),
        notes=(*notes, *(note for failure in failures for note in failure.notes)),
        out_of_memory=failures,
    )


def analyze_snapshot(request: SnapshotRequest, progress: Progress = SILENT) -> SnapshotResult:
    """Read one snapshot, and write its tables, its figure and a report."""
    with claim_folder(request.out, ANALYSIS, force=request.force) as claimed:
        progress.say(f"read {request.source.name}")
        memory = read_memory(request.source)
        files = write_memory(memory, claimed.path, figures=request.figures)
        claimed.commit()
    return SnapshotResult(memory, request.out, claimed.final(files))


def compare_snapshots(request: CompareSnapshotsRequest, progress: Progress = SILENT) -> CompareSnapshotsResult:
    """Compare the owners of two peaks, and write the folder if the request names one."""
    sides = []
    for path in (request.baseline, request.candidate):
        progress.say(f"read {path.name}")
        sides.append(read_memory(path))
    found = compare_owners(*sides)
    if request.out is not None:
        with claim_folder(request.out, COMPARISON, force=request.force) as claimed:
            write_memory_comparison(found, claimed.path)
            claimed.commit()
    return CompareSnapshotsResult(found, request.out)


@dataclass(frozen=True)
class SnapshotRequest:
    """A snapshot to analyze, and where to write the result."""

    source: Path
    out: Path
    force: bool = False
    figures: bool = True


@dataclass(frozen=True)
class SnapshotResult:
    """What owned the memory, and the files that were written."""

    memory: AllocatorMemory
    folder: Path
    files: tuple[Path, ...]

    @property
    def report(self) -> Report:
        """Return what `analyze` prints."""
        return memory_report(self.memory)

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints, without the folder."""
        return self.memory.to_json()


@dataclass(frozen=True)
class CompareSnapshotsRequest:
    """Two snapshots to compare.

    out: a folder to write; None for none.
    """

    baseline: Path
    candidate: Path
    out: Path | None = None
    force: bool = False


@dataclass(frozen=True)
class CompareSnapshotsResult:
    """The comparison, and the folder that was written."""

    comparison: MemoryComparison
    folder: Path | None


def join_memory(analysis: Analysis, source: Path, trace: Path) -> Analysis:
    """Return the analysis with the owners of torch's memory, where the capture in `source` recorded them.

    trace: the SQLite file, which says when its clock began.
    """
    most = read_capture_memory(source, trace, analysis.timeline.nvtx)
    if most is None:
        return analysis
    return replace(analysis, memory_owners=most.owners, allocator=most, notes=(*analysis.notes, *most.notes))


def read_capture_memory(source: Path, trace: Path, ranges: pd.DataFrame) -> AllocatorMemory | None:
    """Return what owned torch's memory in the capture in `source`; None where it recorded no snapshot.

    Of several processes, the one that held most counts; of those that ended because memory ran out, if there are any.

    ranges: the instances of NVTX ranges.
    """
    if not source.is_dir():
        return None
    ended, failed = find_recorded(source, "memory"), find_failures(source)
    if not ended and not failed:
        return None
    start_ns, layers, nodes = _read_clock_and_layers(trace)

    def read(process: int, path: Path, *, is_fatal: bool | None = None) -> AllocatorMemory:
        if start_ns is None:
            return read_memory(path, is_fatal=is_fatal)
        range_at = _ranges_of(ranges, process, start_ns)
        layer_at, node_at = (
            None if table is None else _ranges_of(table, process, start_ns, fold=False) for table in (layers, nodes)
        )
        return read_memory(path, range_at, layer_at, node_at, is_fatal=is_fatal)

    of_failures = [read(process, path, is_fatal=process not in ended) for process, path in failed.items()]
    of_ends = [read(process, path) for process, path in ended.items()]
    fatal = [memory for memory in of_failures if any(failure.is_fatal for failure in memory.out_of_memory)]
    most = max(
        fatal or of_ends or of_failures,
        key=lambda memory: max((use.peak_bytes for use in memory.devices), default=0),
    )
    # What failed in other processes is said too.
    failures = sorted(
        (failure for memory in of_failures for failure in memory.out_of_memory),
        key=lambda failure: not failure.is_fatal,
    )
    others = [memory for memory in of_failures if memory is not most]
    findings = [item for memory in others for item in memory.findings if item.code == OUT_OF_MEMORY]
    return replace(most, out_of_memory=tuple(failures), findings=(*findings, *most.findings))


def _ranges_of(ranges: pd.DataFrame, process: int, start_ns: int, *, fold: bool = True) -> RangeAt:
    """Return a function that gives the range of a process that was open at a time (us since 1970).

    fold: whether counted ranges have the name of their family.
    """

    def range_at(time_us: npt.NDArray[np.int64]) -> Sequence[str]:
        own = ranges[((ranges["global_tid"].to_numpy(np.int64) >> 24) & 0xFFFFFF) == process]
        owner = own["global_tid"].to_numpy(np.int64)
        # The snapshot does not name a thread, so a range of any thread counts.
        tid = np.full(len(time_us), (int(owner[0]) >> 24) << 24 if len(own) else 0, dtype=np.int64)
        code, names = innermost_codes(own, tid, time_us * 1000 - start_ns, fold=fold)
        return [str(name) for name in names[code]]

    return range_at


def session_start_ns(trace: Path) -> int | None:
    """Return when the clock of a trace began (ns since 1970)."""
    with open_trace(trace) as opened:
        return read_session(opened).start_utc_ns


def _read_clock_and_layers(trace: Path) -> tuple[int | None, pd.DataFrame | None, pd.DataFrame | None]:
    """Return when the clock of a trace began (ns since 1970), and the ranges of modules and of autograd's nodes.

    Those of modules are named by pass and module; those of nodes, which torch's emit_nvtx makes, by the node.
    """
    with open_trace(trace) as opened:
        start_ns = read_session(opened).start_utc_ns
        ranges, layers = split_layers(read_ranges(opened, read_strings(opened)))
    nodes = _nodes_of(ranges)
    if layers is None:
        return start_ns, None, nodes
    named = layers["way"] + " of " + layers["layer"] + " (" + layers["kind"] + ")"
    names = named.where(layers["layer"] != "", "step of " + layers["kind"])
    return start_ns, layers.assign(name=names, domain=""), nodes


def _nodes_of(ranges: pd.DataFrame | None) -> pd.DataFrame | None:
    """Return the ranges in which autograd evaluated a node, named by the node; None without any."""
    if ranges is None or ranges.empty:
        return None
    number, names = pd.factorize(ranges["name"])
    texts = [read_range_text(name) if name.startswith(EVALUATED) else None for name in names]
    nodes = np.array([None if text is None else text.name.removeprefix(EVALUATED) for text in texts], dtype=object)
    named = ranges.assign(name=nodes[number], domain="")
    named = named[named["name"].notna() & (named["end_ns"] > named["start_ns"])]
    return None if named.empty else named
