"""Turn intervals into the begins and ends of properly nested slices, the only thing that a viewer's track can show."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np

from nsysprof.arrays import Int64s

_CHUNK = 1 << 16


def sort_for_nesting(start: Int64s, end: Int64s) -> Int64s:
    """Return the order in which an enclosing interval comes before those that it encloses."""
    return np.lexsort((-end, start))


def walk(start: Int64s, end: Int64s, left_over: list[int]) -> Iterator[tuple[int, int]]:
    """Yield (time, row) where a slice begins and (time, -1) where the innermost one ends, in order of time.

    A viewer would end a slice too early that overlaps an open one without being enclosed by it. Such rows are added to
    `left_over`, for another track.

    start, end: times (ns) in the order of sort_for_nesting.
    """
    stack: list[int] = []
    for low in range(0, len(start), _CHUNK):
        pairs = zip(start[low : low + _CHUNK].tolist(), end[low : low + _CHUNK].tolist(), strict=True)
        for row, (begin, finish) in enumerate(pairs, start=low):
            while stack and stack[-1] <= begin:
                yield stack.pop(), -1
            if stack and finish > stack[-1]:
                left_over.append(row)
                continue
            stack.append(finish)
            yield begin, row
    while stack:
        yield stack.pop(), -1


def disjoint_lanes(start: Int64s, end: Int64s) -> Int64s:
    """Return a lane for each interval, so that no two intervals of a lane overlap.

    This is fast even for many intervals that all overlap, where `walk` needs one pass per lane.

    start, end: times (ns) in order of start.
    """
    lanes = np.zeros(len(start), dtype=np.int64)
    free: list[tuple[int, int]] = []
    for row, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        lane = heapq.heappop(free)[1] if free and free[0][0] <= begin else len(free)
        heapq.heappush(free, (finish, lane))
        lanes[row] = lane
    return lanes
