"""Find the gaps of each device: when nothing ran between its first and last work, and which work ended each gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.results.findings.causes import DeviceIdle
from nsysprof.trace.schema import MIGRATION, Int64s, Rows, Work


@dataclass(frozen=True)
class DeviceSpan:
    """When a device began and ended its work, and how long it was idle between."""

    device_id: int
    # When the device's first work began.
    first_ns: int
    whole: DeviceIdle


@dataclass(frozen=True)
class Gaps:
    """The gaps of one device, in order of time. They are kept as rows of work: there are as many as kernels."""

    span: DeviceSpan
    work: Work
    # The row of work that ended each gap, and the work that ran last before it.
    ender: Rows
    before: Rows

    def __len__(self) -> int:
        return len(self.ender)

    def starts_ns(self, some: slice) -> Int64s:
        """Return when some of the gaps began (ns)."""
        return self.work.ends_ns(self.before[some])

    def ends_ns(self, some: slice) -> Int64s:
        """Return when some of the gaps ended (ns)."""
        starts: Int64s = self.work.start_ns[self.ender[some]]
        return starts


def find_gaps(work: Work) -> list[Gaps]:
    """Return the gaps of each device, by its number.

    Migrations of unified memory belong to no stream and fill no gap.
    """
    counted = work.kind_of != MIGRATION
    devices = np.unique(work.device_of[counted])
    found = []
    for device in devices.tolist():
        chosen = counted & (work.device_of == device)
        rows = (
            np.arange(len(work), dtype=np.int32)
            if chosen.all()
            else np.flatnonzero(chosen[work.variant]).astype(np.int32)
        )
        if len(rows):
            found.append(_gaps_of(work, int(device), rows))
    return found


def _gaps_of(work: Work, device: int, rows: Rows) -> Gaps:
    start = work.start_ns[rows] if len(rows) < len(work) else work.start_ns
    if not bool((start[1:] >= start[:-1]).all()):
        order = np.argsort(start, kind="stable").astype(np.int32)
        rows, start = rows[order], start[order]
    reached = start + work.duration_ns[rows]
    np.maximum.accumulate(reached, out=reached)
    # The work that ended last: it is where `reached` last grew.
    fresh = np.ones(len(rows), dtype=np.bool_)
    fresh[1:] = reached[1:] > reached[:-1]
    after = (np.flatnonzero(start[1:] > reached[:-1]) + 1).astype(np.int32)
    length = start[after]
    length -= reached[after - 1]
    span, idle = int(reached[-1] - start[0]), int(length.sum())
    first = int(start[0])
    del reached, length, start
    last = np.where(fresh, np.arange(len(rows), dtype=np.int32), np.int32(0))
    before = rows[np.maximum.accumulate(last, out=last)[after - 1]]
    whole = DeviceIdle(device, span, span - idle, idle)
    return Gaps(DeviceSpan(device, first, whole), work, rows[after], before)
