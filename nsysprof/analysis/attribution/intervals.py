"""Compute unions of intervals: they give the busy time, in which overlapping work counts once.

Compute how much of some intervals lies within other intervals.
"""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from nsysprof.arrays import find_places
from nsysprof.trace.schema import GRAPH, Bools, Int64s, Ints, Rows, Work

_BLOCK = 1 << 20
# Keys count as nearly sorted where fewer than one in this many is smaller than the key before it.
_DISORDER = 16


def union_ns(start_ns: Int64s, duration_ns: Ints, group: Ints) -> Int64s:
    """Return the length of the union of each group's intervals (ns), one entry per group 0 ... n-1.

    Starts and ends are sorted separately. Nothing runs between the k-th end and the next start exactly if that start is
    later, because then k intervals have begun and k have ended. So the union is the whole span without these gaps, and
    a start need not know which end belongs to it.
    """
    if len(start_ns) == 0:
        return np.zeros(0, dtype=np.int64)
    groups = int(group.max()) + 1
    if groups == 1 and (length := _union_in_order(start_ns, duration_ns)) is not None:
        return np.array([length], dtype=np.int64)
    base = int(start_ns.min())
    ends = start_ns + duration_ns
    bits = max(1, (int(ends.max()) - base).bit_length())
    if groups.bit_length() + bits > 62:
        order = np.argsort(group, kind="stable")
        edges = np.searchsorted(group[order], np.arange(groups + 1))
        parts = (order[a:b] for a, b in itertools.pairwise(edges))
        return np.array([_union_of_one(start_ns[part], ends[part]) for part in parts], dtype=np.int64)
    starts = _sorted_keys(start_ns.copy(), group, groups, base, bits)
    ends = _sorted_keys(ends, group, groups, base, bits)
    edges = np.searchsorted(starts, np.arange(groups + 1, dtype=np.int64) << bits)
    filled = np.flatnonzero(edges[1:] > edges[:-1])
    low, high = edges[:-1][filled], edges[1:][filled]
    # Keys of one group differ by nanoseconds, whichever group it is.
    span = ends[high - 1] - starts[low]
    gaps = starts
    gaps[1:] -= ends[:-1]
    gaps[low] = 0  # the time between two groups is not a gap of either
    np.maximum(gaps, 0, out=gaps)
    total = np.zeros(groups, dtype=np.int64)
    total[filled] = span - np.add.reduceat(gaps, low)
    return total


def _union_in_order(start_ns: Int64s, duration_ns: Ints) -> int | None:
    """Return the length of the union (ns) of intervals in order of start, with a few after them that are not.

    That is how work is recorded: kernels in order, then copies and fills. It takes no memory. None for any other order.
    """
    in_order = _length_in_order(start_ns)
    late = start_ns[in_order:]
    if len(late) > len(start_ns) // _DISORDER:
        return None
    order = np.argsort(late, kind="stable")
    late, late_ns = late[order], duration_ns[in_order:][order]
    first = int(start_ns[0]) if len(late) == 0 else min(int(start_ns[0]), int(late[0]))
    reached, idle, taken = first, 0, 0
    for low in range(0, in_order, _BLOCK):
        part = slice(low, min(low + _BLOCK, in_order))
        start, duration = start_ns[part], duration_ns[part]
        upto = int(np.searchsorted(late, start[-1], "right")) if part.stop < in_order else len(late)
        if upto > taken:
            start = np.concatenate((start, late[taken:upto]))
            duration = np.concatenate((duration, late_ns[taken:upto]))
            order = np.argsort(start, kind="stable")
            start, duration, taken = start[order], duration[order], upto
        end = start + duration
        before = np.empty_like(end)
        before[0] = reached
        np.maximum(np.maximum.accumulate(end), reached, out=end)
        before[1:] = end[:-1]
        idle += int(np.maximum(start - before, 0).sum())
        reached = int(end[-1])
    return reached - first - idle


def _length_in_order(values: Int64s) -> int:
    """Return how many values there are before the first that is smaller than the one before it."""
    for low in range(0, len(values), _BLOCK):
        part = values[low : low + _BLOCK + 1]
        descents = part[1:] < part[:-1]
        if descents.any():
            return low + int(np.argmax(descents)) + 1
    return len(values)


def _sorted_keys(keys: Int64s, group: Ints, groups: int, base: int, bits: int) -> Int64s:
    """Return (group, time since base) packed into one integer each, sorted.

    keys: the times; this array is overwritten.
    """
    keys -= base
    for low in range(0, len(keys) if groups > 1 else 0, _BLOCK):
        keys[low : low + _BLOCK] |= group[low : low + _BLOCK].astype(np.int64) << bits
    descents = int(np.count_nonzero(keys[1:] < keys[:-1]))
    if descents:
        # Work is recorded nearly in order. Merging sorted runs then takes a tenth of the time, but twice the time
        # otherwise.
        keys.sort(kind="stable" if descents < len(keys) // _DISORDER else None)
    return keys


def _union_of_one(start_ns: Int64s, end_ns: Int64s) -> int:
    if len(start_ns) == 0:
        return 0
    start, end = np.sort(start_ns), np.sort(end_ns)
    gaps = np.maximum(start[1:] - end[:-1], 0).sum()
    return int(end[-1]) - int(start[0]) - int(gaps)


def kernels_and_graphs(work: Work) -> tuple[Ints, Ints]:
    """Return the duration (ns) and the variant of every kernel and of every graph that was recorded as a whole."""
    kernels = slice(0, work.kernels)
    graphs = work.kernels + np.flatnonzero(work.kinds(slice(work.kernels, None)) == GRAPH)
    if len(graphs) == 0:
        return work.duration_ns[kernels], work.variant[kernels]
    rows = np.concatenate((np.arange(work.kernels), graphs))
    return work.duration_ns[rows], work.variant[rows]


def begin_alone(start: Int64s, duration: Ints, order: Rows | None = None) -> Bools:
    """Return which pieces of work, in order of start, begin while nothing runs.

    order: the pieces in order of start; None where they are.
    """
    fresh = np.zeros(len(start), dtype=np.bool_)
    reached = np.iinfo(np.int64).min
    for low in range(0, len(start), _BLOCK):
        part = slice(low, low + _BLOCK) if order is None else order[low : low + _BLOCK]
        its_start = start[part]
        end = its_start + duration[part]
        np.maximum.accumulate(end, out=end)
        np.maximum(end, reached, out=end)
        fresh[low] = int(its_start[0]) >= reached
        fresh[low + 1 : low + _BLOCK] = its_start[1:] >= end[:-1]
        reached = int(end[-1])
    return fresh


def overlapping(start: Int64s, duration: Ints) -> Bools:
    """Return which intervals, in order of start, overlap another one."""
    overlaps = ~begin_alone(start, duration)
    overlaps[:-1] |= overlaps[1:]
    return overlaps


_BATCH = 1 << 18
# Intervals are measured in so many parts at most, none smaller than this: each part reads all pieces.
_PART, _MOST_PARTS = 1 << 19, 8


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
    if len(start) == 0:
        none = np.zeros((2, len(low)), dtype=np.int64)
        return none[0], none[1]
    before = np.zeros(len(start) + 1, dtype=np.int64)
    np.subtract(end, start, out=before[1:])
    np.cumsum(before, out=before)

    def until(time: Int64s) -> Int64s:
        at = find_places(start, time, "right")
        inside = np.maximum(at - 1, 0)
        open_part = np.where(at > 0, np.maximum(end[inside] - np.maximum(time, start[inside]), 0), 0)
        total: Int64s = before[at] - open_part
        return total

    count = find_places(start, high) - find_places(end, low, "right")
    return until(high) - until(low), np.maximum(count, 0)


def measure_by_code(
    start: Int64s, duration: Ints, code: Ints, codes: int, low: Int64s, high: Int64s
) -> tuple[Int64s, Int64s]:
    """Return the same as `measure` for the pieces of each code: two arrays (codes, intervals).

    start, duration: the pieces, none of them empty, disjoint and in order.
    code: of each piece, from 0 to codes - 1.
    """
    total, numbers = np.zeros((2, codes, len(low)), dtype=np.int64)
    # In parts: on the way to the result, an interval takes ten times as much memory as in it.
    size = max(_PART, -(-len(low) // _MOST_PARTS))
    for begin in range(0, len(low) if len(start) else 0, size):
        its = slice(begin, begin + size)
        _add_by_code(start, duration, code, low[its], high[its], total[:, its], numbers[:, its])
    return total, numbers


def _add_by_code(
    start: Int64s, duration: Ints, code: Ints, low: Int64s, high: Int64s, total: Int64s, numbers: Int64s
) -> None:
    """Write what measure_by_code returns into `total` and `numbers`, which are zero."""
    first, after = find_places(start, low, "right"), find_places(start, high, "right")
    # Pieces are in order: only the last that began may go on, or begin just then.
    at_low, at_high = np.maximum(first - 1, 0), np.maximum(after - 1, 0)
    begun = after - ((after > 0) & (start[at_high] == high))
    ended = first - ((first > 0) & (start[at_low] + duration[at_low] > low))
    places, number = np.unique(np.concatenate((first, after, begun, ended)), return_inverse=True)
    of_first, of_after, of_begun, of_ended = np.split(number.reshape(-1), 4)
    beyond = []
    for time, at, inside in ((high, after, at_high), (low, first, at_low)):
        begin = start[inside]
        beyond.append(np.where(at > 0, np.maximum(begin + duration[inside] - np.maximum(time, begin), 0), 0))
    for each in (number for number in range(len(total)) if (code == number).any()):
        length, count = _sum_before(duration, code, each, places)
        total[each] = length[of_after] - length[of_first]
        # moments at which a piece is still going on
        total[each] -= np.where(code[at_high] == each, beyond[0], 0)
        total[each] += np.where(code[at_low] == each, beyond[1], 0)
        numbers[each] = np.maximum(count[of_begun] - count[of_ended], 0)


def _sum_before(duration: Ints, code: Ints, wanted: int, places: Int64s) -> tuple[Int64s, Int64s]:
    """Return length and number of the pieces of one code before each of the places, which are in order."""
    length, count = np.zeros((2, len(places)), dtype=np.int64)
    length_so_far = count_so_far = 0
    for begin in range(0, len(duration) + 1, _BATCH):
        its = slice(*np.searchsorted(places, [begin, begin + _BATCH]))
        mine = np.flatnonzero(code[begin : begin + _BATCH] == wanted)
        reached = np.zeros(len(mine) + 1, dtype=np.int64)
        np.cumsum(duration[begin : begin + _BATCH][mine], out=reached[1:])
        before = np.searchsorted(mine, places[its] - begin)
        length[its], count[its] = length_so_far + reached[before], count_so_far + before
        length_so_far, count_so_far = length_so_far + int(reached[-1]), count_so_far + len(mine)
    return length, count
