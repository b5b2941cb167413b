"""Compute statistics of durations grouped by name, in the order that nsys stats uses."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd

from nsysprof.trace.schema import Int64s, Ints

_BLOCK = 1 << 20
_ROWS_AT_ONCE = 1 << 23
# The largest key that is sorted by counting: 64 MiB of counts.
_MOST_COUNTED = 1 << 23
_COLUMNS = ("instances", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns")


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
    count, first = _count(group, top + 1)
    if int(duration_ns.max()).bit_length() + top.bit_length() > 62:
        table = _summarize_absurd(duration_ns, group)
    else:
        table = pd.concat([_summarize(duration_ns, group, count, *portion) for portion in _portions(count)])
    table = table.iloc[np.lexsort((first[table.index.to_numpy()], -table["total_ns"].to_numpy()))]
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


def _summarize(duration_ns: Ints, group: Ints, count: Int64s, first: int, end: int) -> pd.DataFrame:
    """Return statistics of the durations of the groups from `first` up to `end`, in order of the groups.

    count: how many rows each group has.
    """
    bits = max(1, int(duration_ns.max()).bit_length())
    groups = end - first
    # Group and duration are packed into one integer, so that one sort gives every group's median, minimum and maximum.
    # Where both fit in 32 bits, it takes half the time and half the memory.
    width = np.dtype(np.uint32 if (groups << bits) <= 2**32 else np.int64)
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
    keys = _sort(keys)
    inner = np.searchsorted(keys, np.arange(1, groups, dtype=width) << width.type(bits))
    edges = np.concatenate(([0], inner, [len(keys)]))
    keys &= width.type((1 << bits) - 1)
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


def _sort(keys: Ints) -> Ints:
    """Return the keys, none negative, in order. Keys that repeat are counted, which takes a third of the time."""
    most = int(keys.max())
    if most > min(len(keys), _MOST_COUNTED):
        keys.sort()
        return keys
    count = np.zeros(most + 1, dtype=np.int64)
    step = max(_BLOCK, 2 * len(count))
    for low in range(0, len(keys), step):
        count += np.bincount(keys[low : low + step], minlength=len(count))
    present = np.flatnonzero(count)
    return np.repeat(present.astype(keys.dtype), count[present])


def _count(group: Ints, groups: int) -> tuple[Int64s, Int64s]:
    """Return how many rows each group has, and its first row (len(group) for a group without rows)."""
    count = np.zeros(groups, dtype=np.int64)
    first = np.full(groups, len(group), dtype=np.int64)
    for low in reversed(range(0, len(group), _BLOCK)):
        block = group[low : low + _BLOCK]
        count += np.bincount(block, minlength=groups)
        # rows are written in reverse, so the first row of each group is written last
        first[block[::-1]] = np.arange(low + len(block) - 1, low - 1, -1)
    return count, first


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
