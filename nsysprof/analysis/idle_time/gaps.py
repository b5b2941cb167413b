"""Find the gaps of each device: when nothing ran between its first and last work, and which work ended each gap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.arrays import GrowingColumn
from nsysprof.results.findings import DeviceIdle
from nsysprof.trace.schema import MIGRATION, Int64s, Rows, Work

_BLOCK = 1 << 16


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
    # The length of the longest gap (ns).
    longest_ns: int

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
        if len(rows := work.rows_by_start(chosen)):
            found.append(_gaps_of(work, int(device), rows))
    return found


def _gaps_of(work: Work, device: int, rows: Rows) -> Gaps:
    first = reached = int(work.start_ns[rows[0]])
    latest, idle, longest = rows[0], 0, 0  # the work that ended last so far
    ender, before_gap = (GrowingColumn(np.empty(0, np.int32), len(rows)) for _ in range(2))
    for low in range(0, len(rows), _BLOCK):
        its_rows = rows[low : low + _BLOCK]
        its_start = work.start_ns[its_rows]
        end = its_start + work.duration_ns[its_rows]
        before = np.empty_like(end)
        np.maximum(np.maximum.accumulate(end), reached, out=end)
        before[0], before[1:] = reached, end[:-1]
        # The work that ended last is where `end` last grew.
        last = np.maximum.accumulate(np.where(end > before, np.arange(len(end)), -1))
        after = np.flatnonzero(its_start > before)
        length = its_start[after] - before[after]
        idle, longest = idle + int(length.sum()), max(longest, int(length.max(initial=0)))
        ended = last[after - 1]
        ended[after == 0] = -1
        ender.append(its_rows[after])
        before_gap.append(np.where(ended >= 0, its_rows[ended], latest))
        reached, latest = int(end[-1]), its_rows[last[-1]] if last[-1] >= 0 else latest
    span = reached - first
    whole = DeviceIdle(device, span, span - idle, idle)
    return Gaps(DeviceSpan(device, first, whole), work, ender.finish(), before_gap.finish(), longest)
