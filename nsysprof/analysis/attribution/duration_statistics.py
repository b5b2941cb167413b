"""Compute statistics of durations grouped by name, in the order that nsys stats uses."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pandas as pd

from nsysprof.arrays import different
from nsysprof.trace.schema import Int64s, Ints

_BLOCK = 1 << 20
_ROWS_AT_ONCE = 1 << 23
# The most pairs of a group and a duration that are counted: 32 MiB of counts. So many rows at a time stay in the
# processor's cache.
_MOST_COUNTED, _COUNTED_AT_ONCE = 1 << 23, 1 << 16
_COLUMNS = ("instances", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns")
# The durations of some groups, group by group and in order of duration; how many each group has; and the first group.
_Ordered = tuple[Ints, Int64s, int]


def summarize_durations(duration_ns: Ints, group: Ints) -> pd.DataFrame:
    """Return statistics of durations by group, with the largest total first.

    The columns are instances, total_ns, avg_ns, med_ns, min_ns, max_ns and stddev_ns (sample standard deviation; 0 for
    a single duration). The index holds the groups that occur. Groups with equal totals keep the order of the input.

    duration_ns: the durations, none negative.
    group: the group of each duration, as a code from 0 on.
    """
    if len(duration_ns) == 0:
        return pd.DataFrame({column: np.zeros(0, np.int64) for column in _COLUMNS}, index=np.zeros(0, np.int64))
    top = int(group.max())
    codes = None
    # There are more codes than rows: a table of all codes would be larger than the input.
    if top > 4 * len(group) + _BLOCK:
        codes, group = np.unique(group, return_inverse=True)
        top = len(codes) - 1
    count = _count(group, top + 1)
    bits = max(1, int(duration_ns.max()).bit_length())
    if bits + top.bit_length() > 62:
        table = _summarize_absurd(duration_ns, group)
    else:
        ordered = _order_by_counting if (top + 1) << bits <= min(len(group), _MOST_COUNTED) else _order_by_sorting
        table = pd.concat([_summarize(*each) for each in ordered(duration_ns, group, count, bits)])
    total = table["total_ns"].to_numpy()
    # The order of the input is looked at only where totals are equal.
    ties = len(different(total)) < len(total)
    first = _first_rows(group, top + 1)[table.index.to_numpy()] if ties else total
    table = table.iloc[np.lexsort((first, -total))]
    return table if codes is None else table.set_axis(codes[table.index.to_numpy()])


def _summarize_absurd(duration_ns: Ints, group: Ints) -> pd.DataFrame:
    """Return the statistics where durations last years. Only damaged traces have these, and they need more bits."""
    grouped = pd.Series(duration_ns).groupby(group)
    table = grouped.agg(["count", "sum", "mean", "median", "min", "max", "std"]).fillna(0.0)
    return table.set_axis(list(_COLUMNS), axis=1)


def _portions(count: Int64s) -> list[tuple[int, int]]:
    """Return the first group and the end of portions of groups to sort together.

    Each has a bounded number of rows or is one group, so that what is sorted stays small.
    """
    if int(count.sum()) <= _ROWS_AT_ONCE:
        return [(0, len(count))]
    filled = np.flatnonzero(count)
    number = np.cumsum(count[filled]) // _ROWS_AT_ONCE
    first = filled[np.flatnonzero(np.diff(number, prepend=-1))]
    return list(itertools.pairwise([*first.tolist(), len(count)]))


def _order_by_counting(duration_ns: Ints, group: Ints, count: Int64s, bits: int) -> Iterator[_Ordered]:
    """Yield the durations in order by counting how often each occurs in each group, in one pass over the rows."""
    times = np.zeros(len(count) << bits, dtype=np.int32)
    for begin in range(0, len(group), _COUNTED_AT_ONCE):
        keys = group[begin : begin + _COUNTED_AT_ONCE].astype(np.int64)
        keys <<= bits
        keys |= duration_ns[begin : begin + _COUNTED_AT_ONCE]
        np.add.at(times, keys, np.int32(1))
    for first, end in _portions(count):
        its_times = times[first << bits : end << bits]
        keys = np.flatnonzero(its_times)
        its_times = its_times[keys]
        keys &= (1 << bits) - 1
        yield np.repeat(keys.astype(np.uint32), its_times), count[first:end], first


def _order_by_sorting(duration_ns: Ints, group: Ints, count: Int64s, bits: int) -> Iterator[_Ordered]:
    """Yield the durations in order by sorting.

    Group and duration are packed into one integer, so that one sort orders all groups. Where both fit in 32 bits, it
    takes half the time and half the memory.
    """
    for first, end in _portions(count):
        width = np.dtype(np.uint32 if (end - first) << bits <= 2**32 else np.int64)
        keys: Ints = np.empty(int(count[first:end].sum()), dtype=width)
        filled = 0
        for begin in range(0, len(group), _BLOCK):
            its_ns, its_group = duration_ns[begin : begin + _BLOCK], group[begin : begin + _BLOCK]
            if len(keys) < len(group):
                mine = (its_group >= first) & (its_group < end)
                its_ns, its_group = its_ns[mine], its_group[mine]
            block = slice(filled, filled := filled + len(its_ns))
            np.subtract(its_group, first, out=keys[block], casting="unsafe")
            keys[block] <<= width.type(bits)
            keys[block] |= its_ns.astype(width, copy=False)
        keys.sort()
        keys &= width.type((1 << bits) - 1)
        yield keys, count[first:end], first


def _summarize(keys: Ints, count: Int64s, first: int) -> pd.DataFrame:
    """Return statistics of durations by group, in order of the groups. See _Ordered."""
    edges = np.concatenate(([0], np.cumsum(count)))
    some = np.flatnonzero(edges[1:] > edges[:-1])
    low, high = edges[:-1][some], edges[1:][some]
    size = high - low
    total = np.add.reduceat(keys, low, dtype=np.int64)
    mean = total / size
    middle, other = keys[low + (size - 1) // 2].astype(np.int64), keys[low + size // 2].astype(np.int64)
    return pd.DataFrame(
        {
            "instances": size,
            "total_ns": total,
            "avg_ns": mean,
            "med_ns": middle + (other - middle) / 2,
            "min_ns": keys[low].astype(np.int64),
            "max_ns": keys[high - 1].astype(np.int64),
            "stddev_ns": np.sqrt(_squares(keys, low, high, mean) / np.maximum(size - 1, 1)),
        },
        index=some + first,
    )


def _count(group: Ints, groups: int) -> Int64s:
    """Return how many rows each group has."""
    count = np.zeros(groups, dtype=np.int64)
    for low in range(0, len(group), _BLOCK):
        count += np.bincount(group[low : low + _BLOCK], minlength=groups)
    return count


def _first_rows(group: Ints, groups: int) -> Int64s:
    """Return the first row of each group; len(group) for a group without rows."""
    first = np.full(groups, len(group), dtype=np.int64)
    for low in reversed(range(0, len(group), _BLOCK)):
        block = group[low : low + _BLOCK]
        # rows are written in reverse, so the first row of each group is written last
        first[block[::-1]] = np.arange(low + len(block) - 1, low - 1, -1)
    return first


def _squares(values: Ints, low: Int64s, high: Int64s, mean: np.ndarray) -> np.ndarray:
    """Return the sum of squared deviations of values[low:high] per group, block by block to avoid a large copy."""
    squares = np.zeros(len(low))
    for begin in range(0, len(values), _BLOCK):
        end = min(begin + _BLOCK, len(values))
        first, last = np.searchsorted(high, begin, "right"), np.searchsorted(low, end, "left")
        start = np.maximum(low[first:last], begin) - begin
        stop = np.minimum(high[first:last], end) - begin
        deviation = values[begin:end] - np.repeat(mean[first:last], stop - start)
        deviation *= deviation
        squares[first:last] += np.add.reduceat(deviation, start)
    return squares


def sum_by(group: Ints, value: Ints, groups: int) -> Int64s:
    """Return the exact sum of the values of each group 0 ... groups-1."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, value.astype(np.int64))
    return total
