"""Intervals as the begins and ends of properly nested slices: a viewer's track can show nothing else."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
_CHUNK = 1 << 16


def sort_for_nesting(start: Int64s, end: Int64s) -> Int64s:
    """The order in which an enclosing interval comes before what it encloses."""
    return np.lexsort((-end, start))


def walk(start: Int64s, end: Int64s, left_over: list[int]) -> Iterator[tuple[int, int]]:
    """(time, row) where a slice begins and (time, -1) where the innermost one ends, in order of time.

    start, end: in the order of sort_for_nesting. A row that overlaps an open one without being enclosed by it would
    take that one's end for its own; it goes to `left_over`, for a track beside this one.
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
    """A lane for each interval, so that those of one lane do not overlap; in order of start.

    Any number of intervals that all overlap take a moment, while `walk` would go over them once a lane.
    """
    lanes = np.zeros(len(start), dtype=np.int64)
    free: list[tuple[int, int]] = []
    for row, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        lane = heapq.heappop(free)[1] if free and free[0][0] <= begin else len(free)
        heapq.heappush(free, (finish, lane))
        lanes[row] = lane
    return lanes
