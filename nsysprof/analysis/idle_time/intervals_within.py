"""Compute how much of some intervals lies within other intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.trace.schema import Int64s, Ints

_BLOCK = 1 << 20


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


def measure_by_code(
    start: Int64s, end: Int64s, code: Ints, codes: int, low: Int64s, high: Int64s
) -> tuple[Int64s, Int64s]:
    """Return the same as `measure` for the pieces of each code, in one pass: two arrays (codes, intervals).

    code: of each piece, from 0 to codes - 1.
    """
    if len(start) == 0:
        none = np.zeros((2, codes, len(low)), dtype=np.int64)
        return none[0], none[1]
    first, after = np.searchsorted(start, low, "right"), np.searchsorted(start, high, "right")
    begun, ended = np.searchsorted(start, high, "left"), np.searchsorted(end, low, "right")
    places, number = np.unique(np.concatenate((first, after, begun, ended)), return_inverse=True)
    of_first, of_after, of_begun, of_ended = np.split(number.reshape(-1), 4)
    length, count = _sum_before(start, end, code, codes, places)
    total = length[:, of_after] - length[:, of_first]
    for sign, time, at in ((-1, high, after), (1, low, first)):
        inside = np.maximum(at - 1, 0)
        beyond = np.where(at > 0, np.maximum(end[inside] - np.maximum(time, start[inside]), 0), 0)
        cut = np.flatnonzero(beyond)  # moments at which a piece is still going on
        total[code[inside[cut]], cut] += sign * beyond[cut]
    return total, np.maximum(count[:, of_begun] - count[:, of_ended], 0)


def _sum_before(start: Int64s, end: Int64s, code: Ints, codes: int, places: Int64s) -> tuple[Int64s, Int64s]:
    """Return length and number of the pieces of each code before each of the places, which are in order."""
    length, count = np.zeros((2, codes, len(places)), dtype=np.int64)
    so_far = np.zeros((2, codes), dtype=np.int64)
    for begin in range(0, len(start) + 1, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        its = slice(*np.searchsorted(places, [begin, begin + _BLOCK]))
        at = places[its] - begin
        of_piece, took = code[part], end[part] - start[part]
        length[:, its], count[:, its] = so_far[0, :, None], so_far[1, :, None]
        for each in np.flatnonzero(np.bincount(of_piece, minlength=codes)).tolist():
            mine = of_piece == each
            for column, values, sums in ((0, np.where(mine, took, 0), length), (1, mine, count)):
                reached = np.cumsum(values, dtype=np.int64)
                sums[each, its] += np.where(at > 0, reached[np.maximum(at - 1, 0)], 0)
                so_far[column, each] += reached[-1]
    return length, count
