"""Compute statistics of durations grouped by name, in the order that nsys stats uses."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.trace.schema import Bools, Int64s, Ints

_BLOCK = 1 << 20
_ROWS_AT_ONCE = 1 << 23
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
        parts = []
        for chosen in _portions(count):
            rows = slice(None) if chosen.all() else chosen[group]
            parts.append(_summarize(duration_ns[rows], group[rows]))
        table = pd.concat(parts)
    table = table.iloc[np.lexsort((first[table.index.to_numpy()], -table["total_ns"].to_numpy()))]
    return table if codes is None else table.set_axis(codes[table.index.to_numpy()])


def _summarize_absurd(duration_ns: Ints, group: Ints) -> pd.DataFrame:
    """Return the statistics where durations last years. Only damaged traces have these, and they need more bits."""
    grouped = pd.Series(duration_ns).groupby(group)
    table = grouped.agg(["count", "sum", "mean", "median", "min", "max", "std"]).fillna(0.0)
    return table.set_axis(list(_COLUMNS), axis=1)


def _portions(count: Int64s) -> list[Bools]:
    """Yield masks of groups to sort together, each with a bounded number of rows, so that copies stay small."""
    if int(count.sum()) <= _ROWS_AT_ONCE:
        return [np.ones(len(count), dtype=bool)]
    portion = np.where(count > 0, np.cumsum(count) // _ROWS_AT_ONCE, -1)
    return [portion == number for number in np.unique(portion[count > 0])]


def _summarize(duration_ns: Ints, group: Ints) -> pd.DataFrame:
    """Return statistics of the durations by group, in order of the groups."""
    bits = max(1, int(duration_ns.max()).bit_length())
    groups = int(group.max()) + 1
    # Group and duration are packed into one integer, so that one sort gives every group's median, minimum and maximum.
    # Group and duration are packed into one integer, so that one sort gives every group's median, minimum and maximum.
    # Where both fit in 32 bits, it takes half the time and half the memory.
    width = np.dtype(np.uint32 if (groups << bits) <= 2**32 else np.int64)
    keys: Ints = duration_ns.astype(width)
    for begin in range(0, len(keys), _BLOCK):
        block = slice(begin, begin + _BLOCK)
        keys[block] |= group[block].astype(width) << width.type(bits)
    keys.sort()
    inner = np.searchsorted(keys, np.arange(1, groups, dtype=width) << width.type(bits))
    edges = np.concatenate(([0], inner, [len(keys)]))
    keys &= width.type((1 << bits) - 1)
    filled = np.flatnonzero(edges[1:] > edges[:-1])
    low, high = edges[:-1][filled], edges[1:][filled]
    count = high - low
    total = np.add.reduceat(keys, low, dtype=np.int64)
    mean = total / count
    middle, other = keys[low + (count - 1) // 2].astype(np.int64), keys[low + count // 2].astype(np.int64)
    return pd.DataFrame(
        {
            "instances": count,
            "total_ns": total,
            "avg_ns": mean,
            "med_ns": middle + (other - middle) / 2,
            "min_ns": keys[low].astype(np.int64),
            "max_ns": keys[high - 1].astype(np.int64),
            "stddev_ns": np.sqrt(_squares(keys, low, high, mean) / np.maximum(count - 1, 1)),
        },
        index=filled,
    )


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
