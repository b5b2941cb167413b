"""Write slices to a viewer's track as they come, without holding all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Int64s

_Ints = npt.NDArray[Any]
# Slices are held back until there are this many of them, because arrays of a few rows cost more than they save.
_LEAST_ROWS = 1 << 13
# After this many passes over overlapping slices, the rest is laid out at once.
_MOST_NESTING_TRACKS = 8

AddTrack = Callable[[], int]
# A function that is called with a track, times, and the row of each time: -1 where the innermost slice ends.
WriteSlices = Callable[[int, Int64s, Int64s], None]


class NestedTrack:
    """A track of slices that come in order of start. Those that overlap without nesting go to tracks of their own."""

    def __init__(self, add_track: AddTrack, write: WriteSlices) -> None:
        """Begin with one track.

        add_track: returns the number of a further track of the same name.
        """
        self._add_track, self._write = add_track, write
        self._tracks = [add_track()]
        self._held: list[tuple[Int64s, Int64s, _Ints]] = []
        self._count = 0
        self._open = 0

    def add(self, start_ns: Int64s, end_ns: Int64s, row: _Ints) -> None:
        """Add slices, which begin no earlier than those before them."""
        self._held.append((start_ns, end_ns, row))
        self._count += len(row)
        # Slices that are still open are looked at again only when there are as many new ones.
        if self._count >= max(_LEAST_ROWS, 2 * self._open):
            self._write_closed(is_last=False)

    def finish(self) -> None:
        """Write what is held back."""
        if self._count:
            self._write_closed(is_last=True)

    def _write_closed(self, *, is_last: bool) -> None:
        """Write the slices that no later slice can overlap."""
        start, end, row = (np.concatenate(parts) for parts in zip(*self._held, strict=True))
        order = sort_for_nesting(start, end)
        start, end, row = start[order], end[order], row[order]
        closed = len(start)
        if not is_last:
            ends = np.flatnonzero(start[1:] >= np.maximum.accumulate(end)[:-1])
            closed = int(ends[-1]) + 1 if len(ends) else 0
        if closed:
            self._place(start[:closed], end[:closed], row[:closed])
        self._held = [(start[closed:].copy(), end[closed:].copy(), row[closed:].copy())]
        self._count = self._open = len(start) - closed

    def _place(self, start: Int64s, end: Int64s, row: _Ints) -> None:
        for level in range(_MOST_NESTING_TRACKS):
            crossing = find_crossing(start, end)
            if len(crossing) == 0:
                self._fill(level, start, end, row)
                return
            self._fill(level, *(np.delete(column, crossing) for column in (start, end, row)))
            start, end, row = start[crossing], end[crossing], row[crossing]
        lanes = disjoint_lanes(start, end)
        for lane in range(int(lanes.max()) + 1):
            mine = lanes == lane
            self._fill(_MOST_NESTING_TRACKS + lane, start[mine], end[mine], row[mine])

    def _fill(self, number: int, start: Int64s, end: Int64s, row: _Ints) -> None:
        while len(self._tracks) <= number:
            self._tracks.append(self._add_track())
        time, which = begins_and_ends(start, end)
        self._write(self._tracks[number], time, np.where(which >= 0, row[which], -1))


def sort_for_nesting(start: Int64s, end: Int64s) -> Int64s:
    """Return the order in which an enclosing interval comes before those that it encloses."""
    ahead, later = slice(None, -1), slice(1, None)
    if bool(((start[ahead] < start[later]) | ((start[ahead] == start[later]) & (end[ahead] >= end[later]))).all()):
        return np.arange(len(start))
    return np.lexsort((-end, start))


def find_crossing(start: Int64s, end: Int64s) -> Int64s:
    """Return the rows that overlap an earlier one without being enclosed by it. They need another track.

    A viewer would end such a slice too early. Intervals that only nest within one other are skipped quickly.

    start, end: times (ns) in the order of sort_for_nesting.
    """
    if len(start) == 0:
        return np.zeros(0, dtype=np.int64)
    reached = np.maximum.accumulate(end)
    first = np.flatnonzero(np.append(True, start[1:] >= reached[:-1]))
    size = np.diff(np.append(first, len(start)))
    group = np.repeat(np.arange(len(first)), size)
    inner = np.ones(len(start), dtype=np.bool_)
    inner[first] = False
    # The plain form: one interval, and in it others side by side.
    plain = end <= end[first][group]
    plain[1:] &= (start[1:] >= end[:-1]) | ~inner[:-1]
    wrong = np.unique(group[inner & ~plain])
    crossing: list[int] = []
    for number in wrong.tolist():
        _find_in_group(start, end, int(first[number]), int(first[number] + size[number]), crossing)
    return np.array(crossing, dtype=np.int64)


def _find_in_group(start: Int64s, end: Int64s, low: int, high: int, crossing: list[int]) -> None:
    stack: list[int] = []
    for row, (begin, finish) in enumerate(zip(start[low:high].tolist(), end[low:high].tolist(), strict=True), low):
        while stack and stack[-1] <= begin:
            stack.pop()
        if stack and finish > stack[-1]:
            crossing.append(row)
        else:
            stack.append(finish)


def begins_and_ends(start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
    """Return times and rows in order: the row where a slice begins, and -1 where the innermost one ends.

    start, end: times (ns) in the order of sort_for_nesting, of intervals that do not cross.
    """
    count = len(start)
    ends = np.sort(end)
    # An end comes before a begin at the same time, apart from a slice without length, which ends after its own begin.
    before = np.searchsorted(ends, start, "right")
    empty = end == start
    if empty.any():
        times, rows = start[empty], np.flatnonzero(empty)
        earlier = np.searchsorted(rows, np.arange(count))
        before -= np.searchsorted(times, start, "right") - np.maximum(np.searchsorted(times, start, "left"), earlier)
    at = np.arange(count) + before
    row = np.full(2 * count, -1, dtype=np.int64)
    row[at] = np.arange(count)
    time = np.empty(2 * count, dtype=np.int64)
    time[at] = start
    time[row < 0] = ends
    return time, row


def disjoint_lanes(start: Int64s, end: Int64s) -> Int64s:
    """Return a lane for each interval, so that no two intervals of a lane overlap.

    This is fast even for many intervals that all overlap, where find_crossing needs one pass per lane.

    start, end: times (ns) in order of start.
    """
    lanes = np.zeros(len(start), dtype=np.int64)
    free: list[tuple[int, int]] = []
    for row, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        lane = heapq.heappop(free)[1] if free and free[0][0] <= begin else len(free)
        heapq.heappush(free, (finish, lane))
        lanes[row] = lane
    return lanes
