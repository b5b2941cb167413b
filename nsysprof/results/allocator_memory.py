"""Define what owned the memory of torch's allocator at its peak. Sizes are integer bytes as requested."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.notes import Note
from nsysprof.results.column_registry.csv_table import to_records

# The name of all owners that are not shown by name.
OTHERS = "(others)"
# Kinds of memory when an allocation failed, beside those that torchprof.failed_allocation lists.
ACTIVATIONS, UNKNOWN, CACHE, UNALLOCATED = "activations", "unknown", "cache", "fragmentation"


def find_failures(source: Path) -> dict[int, Path]:
    """Return the snapshot of the last allocation that failed, by the id of the process.

    source: a capture folder, or the trace of a rank, beside which they lie.
    """
    folder, stem = (source, "nsys") if source.is_dir() else (source.parent, source.name.partition(".")[0])
    name = re.compile(re.escape(stem) + r"\.memory-(\d{1,10})\.oom-(first|last)\.pickle")
    # In this order, the last failure replaces the first one.
    matches = ((path, name.fullmatch(path.name)) for path in sorted(folder.glob("*.memory-*.oom-*.pickle")))
    return {int(match[1]): path for path, match in matches if match is not None and path.is_file()}


def has_ended_for_memory(source: Path) -> bool:
    """Return whether a process whose allocation failed left no snapshot of its end. source: as of find_failures."""
    return any(
        not path.with_name(f"{path.name.partition('.oom-')[0]}.pickle").exists()
        for path in find_failures(source).values()
    )


@dataclass(frozen=True)
class DeviceUse:
    """The memory use of one device over the recorded history."""

    device_id: int
    # The most that was allocated at once, and what was allocated when the snapshot was taken (bytes).
    peak_bytes: int
    end_bytes: int
    # How much of the peak had been allocated before the recording began.
    before_bytes: int
    # The most that the allocator had reserved from the driver, and the most that was allocated meanwhile (bytes).
    reserved_peak_bytes: int
    used_of_reserved_bytes: int
    event_count: int
    oom_count: int


@dataclass(frozen=True)
class MemoryFinding:
    """Something to change about memory."""

    code: str
    device_id: int
    # How much could be given back (bytes).
    bytes: int
    # Its share of the memory that the allocator had reserved from the driver (percent).
    share_pct: float
    text: str
    next_step: str


@dataclass(frozen=True)
class HeldAtFailure:
    """What one line held for one purpose when an allocation failed.

    kind: parameters, buffers, gradients, optimizer-state; graph (results with a graph that Python holds); held (tensors
        without a graph that Python holds); activations (all else that is allocated); unknown where nobody looked.
    layer: the path of a module, where it is known.
    """

    kind: str
    layer: str | None
    owner: str
    block_count: int
    bytes: int


@dataclass(frozen=True)
class OutOfMemory:
    """An allocation that failed. None is unknown.

    by_kind, and what the driver and others had (`free_bytes`, `outside_bytes`), add up to the device where its size is
    known.
    """

    device_id: int
    asked_bytes: int
    # The line that asked, and its layer.
    asked_by: str
    layer: str | None
    process: int | None
    rank: int | None
    failure_count: int | None
    # Whether the process ended because of it.
    is_fatal: bool | None
    limit_bytes: int | None
    free_bytes: int
    # What is neither this process' allocator nor free: other processes, and CUDA itself.
    outside_bytes: int | None
    by_kind: Mapping[str, int]
    holdings: tuple[HeldAtFailure, ...]
    # What would have made room, and whether that alone would have been enough.
    remedies: tuple[MemoryRemedy, ...]
    notes: tuple[Note, ...] = ()
    # What happened, and who held the memory, as sentences.
    lines: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return all but the notes, which are among those of the analysis."""
        return {name: value for name, value in asdict(self).items() if name != "notes"}


@dataclass(frozen=True)
class MemoryRemedy:
    """What would have made room for a failed allocation. bytes: how much, at most."""

    kind: str
    bytes: int
    is_enough: bool
    text: str


@dataclass(frozen=True)
class OwnedInSlices:
    """Memory by owner in slices of time of the same length: what was held when most was held in the slice."""

    # The edges of the slices (us since the first event; numbers of events where the snapshot has no times).
    edges: npt.NDArray[np.int64]
    # The bytes: one row for each owner, one column for each slice.
    bytes: npt.NDArray[np.int64]

    @staticmethod
    def none() -> OwnedInSlices:
        """Return no slices, for a history without any allocation."""
        return OwnedInSlices(np.zeros(0, np.int64), np.zeros((0, 0), np.int64))


@dataclass(frozen=True)
class OwnedOverTime:
    """Memory by owner over time."""

    # The owners that held most at the peak, and one name for all others.
    owners: tuple[str, ...]
    is_time: bool
    # The whole history, which includes the peak.
    whole: OwnedInSlices
    # The rise to the peak and the fall after it; None where this is a large part of the whole.
    around_peak: OwnedInSlices | None = None


@dataclass(frozen=True)
class AllocatorMemory:
    """The result of analyzing one snapshot of torch's allocator."""

    # The name of the file, its SHA-256, and its size.
    path_name: str
    sha256: str
    bytes: int
    devices: tuple[DeviceUse, ...]
    # The device that `owners` is about: the one that held most; None where nothing was allocated.
    device_id: int | None
    # The columns of memory.csv; the rows add up to the device's peak.
    owners: pd.DataFrame
    over_time: OwnedOverTime
    findings: tuple[MemoryFinding, ...] = ()
    notes: tuple[Note, ...] = ()
    # The failed allocation at which the snapshot was taken, and those of other processes.
    out_of_memory: tuple[OutOfMemory, ...] = ()

    def use_json(self) -> dict[str, Any]:
        """Return which snapshot this is of, the memory use of each device, and the device that held most."""
        return {
            "snapshot": {"path_name": self.path_name, "sha256": self.sha256, "bytes": self.bytes},
            "devices": [asdict(device) for device in self.devices],
            "device_id": self.device_id,
            "out_of_memory": [failure.to_json() for failure in self.out_of_memory],
        }

    def to_json(self) -> dict[str, Any]:
        """Return what `analyze --json` prints for a snapshot."""
        return {
            "format_version": 1,
            **self.use_json(),
            "memory": to_records(self.owners),
            "findings": [asdict(finding) for finding in self.findings],
            "notes": [asdict(note) for note in self.notes],
        }


@dataclass(frozen=True)
class OwnerChange:
    """What one owner held at the peak on each side; None where it held nothing."""

    owner: str
    # If the candidate has the same function at another line, this is its owner there.
    now: str
    baseline_bytes: int | None
    candidate_bytes: int | None
    difference_bytes: int


@dataclass(frozen=True)
class MemoryComparison:
    """Two snapshots: their peaks and the lines that explain the difference, the largest first.

    The rows add up to the difference of the peaks.
    """

    baseline: str
    candidate: str
    baseline_peak_bytes: int
    candidate_peak_bytes: int
    changes: tuple[OwnerChange, ...]

    def to_json(self) -> dict[str, Any]:
        """Return what `compare --json` prints for two snapshots."""
        return {"format_version": 1, **asdict(self)}
