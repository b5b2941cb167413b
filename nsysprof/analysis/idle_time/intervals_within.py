"""Compute how much of some intervals lies within other intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.trace.schema import Int64s


def union_of_groups(group: Int64s, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the union of the intervals of each group as disjoint intervals (group, start, end), in that order."""
    order = np.lexsort((start, group))
    group, start, end = group[order], start[order], end[order]
    if len(group) == 0:
        return group, start, end
    base, width = int(start.min()), int(end.max()) - int(start.min()) + 1
    if width * (int(group[-1]) + 1) < 2**62:
        # The shift by group is larger than any time, so that the running maximum of one group never reaches the next.
        reached = np.maximum.accumulate(end - base + group * width) - group * width + base
    else:
        reached = pd.Series(end).groupby(group).cummax().to_numpy()
    fresh = np.ones(len(group), dtype=np.bool_)
    fresh[1:] = (group[1:] != group[:-1]) | (start[1:] > reached[:-1])
    begins = np.flatnonzero(fresh)
    last = np.append(begins[1:], len(group)) - 1
    return group[begins], start[begins], reached[last]


def measure(start: Int64s, end: Int64s, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """Return how much time of the pieces lies in each [low, high), and how many pieces do.

    start, end: the pieces [start, end), disjoint and in order.
    """
    before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(end - start)))

    def until(time: Int64s) -> Int64s:
        at = np.searchsorted(start, time, "right")
        inside = np.maximum(at - 1, 0)
        open_part = np.where(at > 0, np.maximum(end[inside] - np.maximum(time, start[inside]), 0), 0)
        total: Int64s = before[at] - open_part
        return total

    count = np.searchsorted(start, high, "left") - np.searchsorted(end, low, "right")
    return until(high) - until(low), np.maximum(count, 0)
