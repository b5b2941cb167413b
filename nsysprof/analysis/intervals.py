"""Unions of intervals: the difference between total (sum) and busy (union) time."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def union_ns(start_ns: Ints, end_ns: Ints, group: Ints) -> Ints:
    """Length of the union of the intervals of each group; `group` is 0 ... n-1 and the result has n entries.

    One pass over all groups: intervals are sorted by group and start, every group is shifted past the one before, and
    what a running maximum of the ends does not cover yet is new.
    """
    if len(start_ns) == 0:
        return np.zeros(0, dtype=np.int64)
    groups = int(group.max()) + 1
    order = np.lexsort((start_ns, group))
    start, end, owner = start_ns[order], np.maximum(end_ns, start_ns)[order], group[order]
    base = int(start.min())
    span = int(end.max()) - base + 1
    if groups * span < 2**62:
        shift = owner * span - base
        start, end = start + shift, end + shift
        covered = np.maximum.accumulate(end)
        before = np.concatenate((start[:1], covered[:-1]))
        new = np.maximum(0, end - np.maximum(start, before))
        total = np.zeros(groups, dtype=np.int64)
        np.add.at(total, owner, new)
        return total
    edges = np.searchsorted(owner, np.arange(groups + 1))
    parts = [union_ns(start[a:b], end[a:b], np.zeros(b - a, np.int64)) for a, b in itertools.pairwise(edges)]
    return np.array([int(part[0]) if len(part) else 0 for part in parts], dtype=np.int64)
