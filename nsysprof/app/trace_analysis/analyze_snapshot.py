"""Analyze snapshots of torch's CUDA allocator: what owned the memory at the peak, and which lines changed it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysprof.analysis.overview.allocator_owners import RangeAt, find_fragmentation, list_allocator_owners
from nsysprof.analysis.overview.out_of_memory import explain_failure, find_out_of_memory
from nsysprof.app.progress import SILENT, Progress
from nsysprof.files.folder_state import ANALYSIS, COMPARISON
from nsysprof.files.result_folder import claim_folder
from nsysprof.notes import make_note
from nsysprof.report.document import Report
from nsysprof.report.pages.memory import memory_report, write_memory, write_memory_comparison
from nsysprof.results.allocator_memory import AllocatorMemory, MemoryComparison
from nsysprof.torchprof.allocator_history import read_allocator_history


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
    from nsysprof.analysis.comparison.compare_owners import compare_owners

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
