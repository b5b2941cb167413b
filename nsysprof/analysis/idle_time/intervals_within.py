"""Compute how much of some intervals lies within other intervals."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.arrays import find_places
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
    if len(start) == 0:
        none = np.zeros((2, codes, len(low)), dtype=np.int64)
        return none[0], none[1]
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
    total, numbers = np.zeros((2, codes, len(low)), dtype=np.int64)
    for each in (number for number in range(codes) if (code == number).any()):
        length, count = _sum_before(duration, code, each, places)
        total[each] = length[of_after] - length[of_first]
        # moments at which a piece is still going on
        total[each] -= np.where(code[at_high] == each, beyond[0], 0)
        total[each] += np.where(code[at_low] == each, beyond[1], 0)
        numbers[each] = np.maximum(count[of_begun] - count[of_ended], 0)
    return total, numbers


def _sum_before(duration: Ints, code: Ints, wanted: int, places: Int64s) -> tuple[Int64s, Int64s]:
    """Return length and number of the pieces of one code before each of the places, which are in order."""
    length, count = np.zeros((2, len(places)), dtype=np.int64)
    length_so_far = count_so_far = 0
    for begin in range(0, len(duration) + 1, _BLOCK):
        its = slice(*np.searchsorted(places, [begin, begin + _BLOCK]))
        mine = np.flatnonzero(code[begin : begin + _BLOCK] == wanted)
        reached = np.zeros(len(mine) + 1, dtype=np.int64)
        np.cumsum(duration[begin : begin + _BLOCK][mine], out=reached[1:])
        before = np.searchsorted(mine, places[its] - begin)
        length[its], count[its] = length_so_far + reached[before], count_so_far + before
        length_so_far, count_so_far = length_so_far + int(reached[-1]), count_so_far + len(mine)
    return length, count
