"""Decide which rank each trace belongs to: by its manifest, else by the trace, its file name, or the order given."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysprof.errors import NotComparableError, TraceError, UsageError
from nsysprof.files.folder_state import require_whole
from nsysprof.files.plain_file import read_plain_text
from nsysprof.notes import Note, make_note
from nsysprof.trace.inputs.bundle_file import CONTENTS
from nsysprof.trace.inputs.resolve_input import FILES, PACKED, REPORTS, own_trace

if TYPE_CHECKING:
    import pandas as pd

    from nsysprof.results.rank_results import RankRow


_MANIFEST = "manifest.json"
# No link carries more (bytes/s).
_FASTEST_LINK = 1e15
_RANK_NAME = re.compile(r"(?<![a-zA-Z])rank[ _.=-]*(\d{1,7})", re.IGNORECASE)
_MOST_NAMED = 10
# Who launched a job numbered its ranks.
_LAUNCHERS = ("manifest", "environment", "NVTX")
# The ranks of a job share their kernels: at least this share of the time of all kernels is of kernels of several ranks.
_LEAST_COMMON = 0.2
_MOST_LISTED = 8


def find_sources(inputs: Sequence[Path], nsys: Path | None) -> list[RankSource]:
    """Return the traces behind the user's inputs: captures of several ranks, folders of traces, single traces.

    Raises TraceError for an input that does not exist, a folder without traces, and a manifest without any.
    """
    sources: list[RankSource] = []
    for path in inputs:
        if not path.exists():
            raise TraceError(f"{path} does not exist.", "Check the path.")
        sources += _in_folder(path) if path.is_dir() else [RankSource(0, path)]
    return [replace(source, position=position, nsys=nsys) for position, source in enumerate(sources)]


def _in_folder(folder: Path) -> list[RankSource]:
    require_whole(folder)
    ranks = read_manifest_ranks(folder)
    if ranks:
        return ranks
    if own_trace(folder) is not None:
        return [RankSource(0, folder)]
    try:
        paths = sorted((path for path in folder.iterdir() if path.is_file()), key=_natural)
    except OSError as error:
        raise TraceError(f"{folder} cannot be read: {error.strerror}.", "Check the path.") from error
    traces = [path for path in paths if path.name.endswith(FILES)]
    if not traces and any(path.suffix == ".parquet" for path in paths):
        return [RankSource(0, folder)]
    traces = traces or [path for path in paths if path.suffix in REPORTS]
    if not traces:
        raise TraceError(
            f"{folder} contains no trace.", "Give a capture folder, a folder of .sqlite files, or the files."
        )
    return [RankSource(0, path) for path in traces]


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """Return a sort key that puts rank2 before rank10."""
    parts = re.split(r"(\d+)", path.name)
    return [(0, int(part)) if part.isdigit() and len(part) < 20 else (1, part) for part in parts]


def read_manifest_ranks(folder: Path) -> list[RankSource]:
    """Return the ranks that a manifest or a bundle lists; an empty list where there is no such list.

    A path that leads out of the folder is ignored. The trace may have been compressed since, as in an unzipped bundle.
    A rank whose trace is missing becomes a source that does not exist, so that the result has a row with the reason.
    """
    manifest = _read(folder / _MANIFEST)
    for data in (_read(folder / CONTENTS), manifest):
        listed = data.get("ranks") if isinstance(data, dict) else None
        if isinstance(listed, list):
            link = _measured_link(manifest)
            ranks = [_listed(folder, entry) for entry in listed if isinstance(entry, dict)]
            return [replace(rank, link_bytes_per_s=link) for rank in ranks]
    return []


def _read(path: Path) -> Any:
    """Return what a JSON file holds; None where it is not there or damaged."""
    try:
        return json.loads(read_plain_text(path))
    except (OSError, ValueError, RecursionError):
        return None


def _measured_link(manifest: Any) -> float | None:
    """Return what `capture --ceilings` measured of the link between two GPUs (bytes/s); None where it did not."""
    try:
        rate = manifest["environment"]["ceilings"]["link_bytes_per_s"]
    except (KeyError, TypeError):
        return None
    return float(rate) if isinstance(rate, int | float) and 0 < rate < _FASTEST_LINK else None


def _listed(folder: Path, entry: dict[str, Any]) -> RankSource:
    def number(name: str) -> int | None:
        value = entry.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**7 else None

    host = entry.get("host_token")
    rank = number("rank")
    texts = [text for text in (entry.get("trace"), entry.get("report")) if isinstance(text, str) and text]
    paths = [folder / f"{text}{suffix}" for text in texts for suffix in ("", *PACKED)]
    inside = [path for path in paths if path.resolve().is_relative_to(folder.resolve()) and path.is_file()]
    missing = folder / "ranks" / f"rank{rank or 0:05d}.sqlite"
    return RankSource(
        0, inside[0] if inside else missing, rank, number("world_size"),
        hashlib.sha256(host.encode("utf-8", "replace")).hexdigest()[:12] if isinstance(host, str) and host else None,
    )  # fmt: skip


def drop_copies(sources: Sequence[RankSource], *, by_order: bool) -> tuple[list[RankSource], list[Note]]:
    """Return the sources without exact copies of another trace of their rank, and notes about the copies.

    The rank is read from the manifest or the file name. Raises UsageError where two different traces claim one rank,
    before hours of work are spent on them.
    """
    if by_order:
        return list(sources), []
    kept: list[RankSource] = []
    notes = []
    of_rank: dict[int, RankSource] = {}
    for source in sources:
        rank = source.rank if source.rank is not None else rank_in_name(source.path)
        other = of_rank.setdefault(rank, source) if rank is not None else source
        if other is source:
            kept.append(source)
        elif _same_bytes(source.path, other.path):
            notes.append(make_note("copy-of-a-rank", copy=source.path, original=other.path))
        else:
            raise _two_of_one(rank or 0, str(other.path), str(source.path))
    return kept, notes


def _two_of_one(rank: int, first: str, second: str) -> UsageError:
    return UsageError(
        f"Rank {rank} has two traces: {first} and {second}.",
        "Give the traces of one job, each rank once; --by-order numbers ranks by the order given instead.",
    )


def _same_bytes(first: Path, second: Path) -> bool:
    try:
        if first.is_dir() or second.is_dir() or first.stat().st_size != second.stat().st_size:
            return first.resolve() == second.resolve()
        with first.open("rb") as one, second.open("rb") as two:
            digests = [hashlib.file_digest(stream, "sha256").digest() for stream in (one, two)]
        return digests[0] == digests[1]
    except OSError:
        return False


def rank_in_name(path: Path) -> int | None:
    """Return the number after `rank` in a file's name or, for the trace of a capture, in its folder's name."""
    numbers = _RANK_NAME.findall(path.name)
    return int(numbers[-1]) if numbers else None


def number_ranks(rows: Sequence[RankRow], paths: dict[int, Path], *, by_order: bool) -> dict[int, tuple[int, str]]:
    """Return, by position, each trace's rank and how it was determined.

    All traces are numbered in the same way: the best one that works for every trace. Raises UsageError where two traces
    then have the same rank.
    """
    if not by_order:
        known = [(row.position, row.rank, row.rank_from) for row in rows]
        if all(rank is not None for _, rank, _ in known):
            return _unique({p: (r, how) for p, r, how in known if r is not None}, rows)
        # A trace that cannot be read does not tell its rank, so its file name is used.
        named = {p: (r, how) if r is not None else (rank_in_name(paths[p]), "file name") for p, r, how in known}
        complete = {p: (r, how) for p, (r, how) in named.items() if r is not None}
        if len(complete) == len(rows):
            return _unique(complete, rows)
    return {row.position: (number, "order") for number, row in enumerate(rows)}


def _unique(ranks: dict[int, tuple[int, str]], rows: Sequence[RankRow]) -> dict[int, tuple[int, str]]:
    sources = {row.position: row.source for row in rows}
    seen: dict[int, int] = {}
    for position, (rank, _) in ranks.items():
        if rank in seen:
            raise _two_of_one(rank, sources[seen[rank]], sources[position])
        seen[rank] = position
    return ranks


def some(numbers: Sequence[int]) -> str:
    """Return a short list such as `3, 4 and 12 more`."""
    shown = ", ".join(map(str, numbers[:_MOST_NAMED]))
    return shown + (f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else "")


def refuse_unrelated(rows: Sequence[RankRow], kernels: pd.DataFrame, paths: Mapping[int, Path]) -> None:
    """Refuse traces that are no ranks of one job.

    kernels: the rows of kernels_over_ranks.csv.
    paths: the file of each trace by its position.

    Raises NotComparableError with the traces and the commands that fit.
    """
    reason = why_unrelated(rows, kernels)
    if not reason:
        return
    files = [str(paths[row.position]) for row in rows]
    names = [path.rpartition("/")[2] for path in files]
    listed = ", ".join(names[:_MOST_LISTED])
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    raise NotComparableError(
        f"These {len(rows)} traces are not the ranks of one job: {reason}. They are {listed}{more}.",
        f"Compare two of them: nsysprof compare {files[0]} {files[1]}. Look at one: nsysprof view {files[0]}. If they "
        "are a job, --by-order says so.",
    )


def why_unrelated(rows: Sequence[RankRow], kernels: pd.DataFrame) -> str:
    """Return why traces are no ranks of one job; "" where they may be.

    A number that a launcher gave to each rank is proof of a job.
    """
    read = [row for row in rows if row.is_read]
    if len(read) < 2 or all(row.rank_from in _LAUNCHERS for row in read):
        return ""
    working = [row for row in read if row.kernel_count]
    if working and len(working) < len(read):
        return "some of them have kernels, and others have none"
    with_collectives = sum(bool(row.comm_ns) for row in working)
    if 0 < with_collectives < len(working):
        return "some of them have collectives, and others have none"
    if len(working) > 1 and len(kernels):
        total_ns = int(kernels["total_ns"].sum())
        common_ns = int(kernels.loc[kernels["ranks"] > 1, "total_ns"].sum())
        if common_ns < _LEAST_COMMON * total_ns:
            return "they ran different kernels"
    return "they were recorded one after another" if _follow_each_other(read) else ""


def _follow_each_other(rows: Sequence[RankRow]) -> bool:
    """Return whether two of the traces, all of one host, have no moment in common."""
    spans = [
        (row.session_start_utc_ns + row.first_ns, row.session_start_utc_ns + row.last_ns)
        for row in rows
        if row.session_start_utc_ns is not None and row.first_ns is not None and row.last_ns is not None
    ]
    hosts = {row.host for row in rows}
    if len(spans) < len(rows) or len(hosts) != 1:
        return False
    return max(start for start, _ in spans) > min(end for _, end in spans)


@dataclass(frozen=True)
class RankSource:
    """One input of an analysis of many traces."""

    position: int
    path: Path
    # The rank in the capture's manifest; None where there is none.
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    # The nsys that turns a .nsys-rep into SQLite.
    nsys: Path | None = None
    # What a link between two GPUs of the machine carries (bytes/s), as the capture measured it; None where it did not.
    link_bytes_per_s: float | None = None
    # See open_trace. With one worker per processor, workers are a sixth faster without further threads.
    one_thread: bool = False
