"""Compute statistics of durations grouped by name, in the order that nsys stats uses."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.arrays import different
from nsysprof.native.load import can_take, loop
from nsysprof.trace.schema import Int64s, Ints, Rows

_BLOCK = 1 << 20
_ROWS_AT_ONCE = 1 << 23
# Compiled code has a line of results for each of this many groups, and fills this many lines at a time.
_MOST_LINES, _LINES_AT_ONCE = 1 << 20, 1 << 14
# So many of the bits of a duration are multiplied at a time, so that sums of products fit in 64 bits.
_LIMB = 16
# More bits of a group and a duration together do not fit in one number.
_MOST_BITS = 62
_COLUMNS = ("instances", "total_ns", "avg_ns", "med_ns", "min_ns", "max_ns", "stddev_ns")
# The durations of some groups, group by group and in order of duration; how many each group has; and the first group.
_Ordered = tuple[Ints, Int64s, int]


@dataclass(frozen=True)
class OwnedDurations:
    """Durations of different names that belong to owners, which may share them."""

    # The owner of each stretch of places, and its first and last place: low <= place < high. The stretches of an owner
    # lie together and do not overlap.
    owner: Int64s
    low: Int64s
    high: Int64s
    # The row of each place; None where these are the same.
    rows: Rows | None
    # The duration of each row, and its code, from 0 on.
    duration_ns: Ints
    code: Ints
    # The name of each code, from 0 on, or -1 to leave its rows out; and how many names there are.
    name_of: Ints
    names: int

    def summarize(self) -> Iterator[pd.DataFrame] | None:
        """Yield the statistics of each owner and name, with both as columns `owner` and `name`, some owners at a time.

        The owners are in the given order, and the names of one in order of their first place. None where compiled code
        is not to be had, or cannot do it.
        """
        places = self.high - self.low
        run = loop("summarize")
        if run is None or not can_take(self.duration_ns, self.code):
            return None
        if self.names > _MOST_LINES or _bits(self.duration_ns) + self.names.bit_length() > _MOST_BITS:
            return None
        fresh = np.flatnonzero(np.diff(self.owner, prepend=-1))
        most = int(np.add.reduceat(places, fresh).max())
        return self._run(run, np.empty(most, dtype=self.duration_ns.dtype))

    def _run(self, run: Any, room: Ints) -> Iterator[pd.DataFrame]:
        """Yield what `summarize` does.

        room: as many durations as one owner has at most.
        """
        rows = np.zeros(0, dtype=np.int32) if self.rows is None else self.rows
        name_of, at = self.name_of.astype(np.int64), np.zeros(1, dtype=np.int64)
        scratch = [np.zeros(self.names, dtype=np.int64), np.empty(self.names, np.int64), np.empty(2048, np.int64)]
        lines = np.empty((max(self.names, _LINES_AT_ONCE), 10), dtype=np.int64)
        while at[0] < len(self.owner):
            filled = run(
                self.owner, self.low, self.high, len(self.owner), at, rows, self.duration_ns, self.code, name_of,
                len(name_of), self.names, *scratch, room, lines.ravel(), len(lines),
            )  # fmt: skip
            if filled < 0:
                raise ValueError("the arrays of durations do not fit each other")
            if filled:
                yield _tabulate_lines(lines[:filled])


def summarize_durations(duration_ns: Ints, code: Ints, group_of: Ints | None = None) -> pd.DataFrame:
    """Return statistics of durations by group, with the largest total first.

    The columns are instances, total_ns, avg_ns, med_ns, min_ns, max_ns and stddev_ns (sample standard deviation; 0 for
    a single duration). The index holds the groups that occur. Groups with equal totals keep the order of the input.

    duration_ns: the durations, none negative.
    code: the code of each duration, from 0 on.
    group_of: the group of each code, from 0 on; None where codes are groups.
    """
    if len(duration_ns) == 0:
        return pd.DataFrame({column: np.zeros(0, np.int64) for column in _COLUMNS}, index=np.zeros(0, np.int64))
    if group_of is None:
        top = int(code.max())
        # There are more codes than rows: a table of all codes would be larger than the input.
        if top > 4 * len(code) + _BLOCK:
            codes, code = np.unique(code, return_inverse=True)
            table = summarize_durations(duration_ns, code)
            return table.set_axis(codes[table.index.to_numpy()])
        group_of = np.arange(top + 1) if top < _MOST_LINES else None
    if group_of is not None:
        none, every = np.zeros(1, dtype=np.int64), np.full(1, len(code))
        groups = int(group_of.max(initial=0)) + 1
        found = OwnedDurations(none, none, every, None, duration_ns, code, group_of, groups).summarize()
        if found is not None:
            table = next(found).set_index("name")[list(_COLUMNS)].rename_axis(None)
            return table.iloc[np.argsort(-table["total_ns"].to_numpy(), kind="stable")]
        code = group_of[code]
    return _summarize_plainly(duration_ns, code)


def _summarize_plainly(duration_ns: Ints, group: Ints) -> pd.DataFrame:
    """Return what summarize_durations does, without compiled code."""
    groups = int(group.max()) + 1
    count, bits = _count(group, groups), _bits(duration_ns)
    if bits + groups.bit_length() > _MOST_BITS:
        table = _summarize_absurd(duration_ns, group)
    else:
        table = pd.concat([_summarize(*part) for part in _order_by_sorting(duration_ns, group, count, bits)])
    total = table["total_ns"].to_numpy()
    # The order of the input is looked at only where totals are equal.
    ties = len(different(total)) < len(total)
    first = _first_rows(group, groups)[table.index.to_numpy()] if ties else total
    return table.iloc[np.lexsort((first, -total))]


def _bits(duration_ns: Ints) -> int:
    """Return how many bits the longest duration has."""
    return max(1, int(duration_ns.max(initial=0)).bit_length())


def _tabulate_lines(lines: Int64s) -> pd.DataFrame:
    """Return the table of what compiled code found: owner, name, and what `describe` in loops.c says."""
    owner, name, size, total, least, most, middle, other, high, low = lines.T.copy()
    squares = [(up << 64) + down for up, down in zip(high.view("u8").tolist(), low.view("u8").tolist(), strict=True)]
    table = _tabulate(size, total, (middle, other), (least, most), squares)
    return table.assign(owner=owner, name=name)


def _tabulate(
    size: Int64s, total: Int64s, middle: tuple[Int64s, Int64s], ends: tuple[Int64s, Int64s], squares: list[int]
) -> pd.DataFrame:
    """Return the statistics of groups.

    middle: both durations in the middle of each group.
    ends: the least and the most.
    squares: the sum of the squares of each group's durations.
    """
    deviation = [
        math.sqrt((count * square - its_total**2) / (count * (count - 1))) if count > 1 else 0.0
        for count, its_total, square in zip(size.tolist(), total.tolist(), squares, strict=True)
    ]
    return pd.DataFrame(
        {
            "instances": size, "total_ns": total, "avg_ns": total / size,
            "med_ns": middle[0] + (middle[1] - middle[0]) / 2, "min_ns": ends[0], "max_ns": ends[1],
            "stddev_ns": np.array(deviation, dtype=np.float64),
        }
    )  # fmt: skip


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
    size, total = high - low, np.add.reduceat(keys, low, dtype=np.int64)
    places = (low + (size - 1) // 2, low + size // 2, low, high - 1)
    middle, other, least, most = (keys[place].astype(np.int64) for place in places)
    table = _tabulate(size, total, (middle, other), (least, most), _sum_squares(keys, low))
    return table.set_axis(some + first)


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


def _sum_squares(values: Ints, low: Int64s) -> list[int]:
    """Return the exact sum of the squares of each group. The groups begin at `low`."""
    squares = [0] * len(low)
    limbs = range(0, _bits(values), _LIMB)
    for one, other in itertools.combinations_with_replacement(limbs, 2):
        product = (values >> one & (1 << _LIMB) - 1).astype(np.int64)
        product *= (values >> other & (1 << _LIMB) - 1).astype(np.int64)
        shift = one + other + (one != other)
        sums = np.add.reduceat(product, low).tolist()
        squares = [square + (addend << shift) for square, addend in zip(squares, sums, strict=True)]
    return squares


def sum_by(group: Ints, value: Ints, groups: int) -> Int64s:
    """Return the exact sum of the values of each group 0 ... groups-1."""
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, value.astype(np.int64))
    return total
