"""Turn intervals into begins and ends of properly nested slices, which is all that a viewer's track can show."""

from __future__ import annotations

import heapq

import numpy as np

from nsysprof.arrays import Int64s


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
