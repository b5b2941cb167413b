"""Find the innermost range that is open on a thread at a given time."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.range_names import name_families
from nsysprof.analysis.kernel_names.variant_names import Texts
from nsysprof.arrays import different, find_places, rows_by_key
from nsysprof.trace.schema import PID_MASK, Bools, Int64s, Ints, Rows, Tables

# How many kernels are summed up at a time.
_BLOCK = 1 << 18


def innermost_ranges(ranges: pd.DataFrame, tid: Int64s, time: Int64s) -> Texts:
    """Return the name of the innermost range that is open on each thread at each time.

    Counted ranges (step0, step1) have the name of their family (step#). If the thread has no open range, it is one of
    another thread of the same process, because what autograd launches belongs to the range that waits for it.
    """
    code, names = innermost_codes(ranges, tid, time)
    found: Texts = names[code]
    return found


def innermost_codes(ranges: pd.DataFrame, tid: Int64s, time: Int64s, *, fold: bool = True) -> tuple[Int64s, Texts]:
    """Return what innermost_ranges does as numbers of names, and the names. The last name is empty, for no range.

    fold: whether counted ranges have the name of their family.
    """
    found = np.full(len(time), -1, dtype=np.int64)
    if len(ranges) == 0:
        return found, np.array([""], dtype=object)
    own = ranges[ranges["domain"] == ""] if (ranges["domain"] == "").any() else ranges
    listed = own["name"].tolist()
    code, families = pd.factorize(np.array(name_families(listed) if fold else listed, dtype=object))
    start, end = own["start_ns"].to_numpy(np.int64), own["end_ns"].to_numpy(np.int64)
    owner = own["global_tid"].to_numpy(np.int64)
    its_ranges = dict(rows_by_key(pd.Series(owner)))
    for thread, mine in rows_by_key(pd.Series(tid)):
        if (its := its_ranges.get(thread)) is not None:
            found[mine] = _open_at(start[its], end[its], code[its], time[mine])
    missing = np.flatnonzero(found < 0)
    for process, mine in rows_by_key(pd.Series(tid[missing] & PID_MASK), missing):
        others = np.flatnonzero((owner & PID_MASK) == process)
        found[mine] = _open_at(start[others], end[others], code[others], time[mine])
    return found, np.append(np.asarray(families, dtype=object), "")


class InnermostRanges:
    """Returns what innermost_codes does for millions of times, which the caller hands over a part at a time.

    The innermost range changes only where one begins or ends, so it is found once for each of these moments.
    """

    def __init__(self, ranges: pd.DataFrame) -> None:
        """Take the ranges that the attribution made."""
        own = ranges[ranges["domain"] == ""] if (ranges["domain"] == "").any() else ranges
        code, families = pd.factorize(np.array(name_families(own["name"].tolist()), dtype=object))
        # The names by code. The last one is empty, for no range.
        self.names: Texts = np.append(np.asarray(families, dtype=object), "")
        self._code = code.astype(np.int32)
        self._start, self._end = own["start_ns"].to_numpy(np.int64), own["end_ns"].to_numpy(np.int64)
        self._owner = own["global_tid"].to_numpy(np.int64)
        self._known: dict[tuple[str, int], tuple[Int64s, Rows]] = {}

    def codes(self, tid: int, time: Int64s) -> Rows:
        """Return for each of the times of a thread the code of the innermost range's name; -1 for none."""
        found = self._look_up("thread", tid, time)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            found[missing] = self._look_up("process", tid & PID_MASK, time[missing])
        return found

    def _look_up(self, scope: str, owner: int, time: Int64s) -> Rows:
        if (scope, owner) not in self._known:
            self._known[scope, owner] = self._changes(
                self._owner if scope == "thread" else self._owner & PID_MASK, owner
            )
        moments, codes = self._known[scope, owner]
        found: Rows = codes[find_places(moments, time, "right")]
        return found

    def _changes(self, owners: Int64s, owner: int) -> tuple[Int64s, Rows]:
        """Return when the innermost range of an owner changes, and its code before the first moment and from each."""
        its = np.flatnonzero(owners == owner)
        start, end = self._start[its], self._end[its]
        moments = different(np.concatenate((start, end)))
        codes = np.full(len(moments) + 1, -1, dtype=np.int32)
        codes[1:] = _open_at(start, end, self._code[its], moments)
        return moments, codes


def open_ranges(ranges: pd.DataFrame, tid: Int64s, time: Int64s) -> Int64s:
    """Return the row of the innermost range that is open on each thread at each time, or -1.

    Other threads do not count.
    """
    found = np.full(len(time), -1, dtype=np.int64)
    start, end = ranges["start_ns"].to_numpy(np.int64), ranges["end_ns"].to_numpy(np.int64)
    its_ranges = dict(rows_by_key(pd.Series(ranges["global_tid"].to_numpy(np.int64))))
    for thread, mine in rows_by_key(pd.Series(tid)):
        if (its := its_ranges.get(thread)) is not None:
            found[mine] = _open_at(start[its], end[its], np.asarray(its, dtype=np.int64), time[mine])
    return found


def _open_at(start: Int64s, end: Int64s, code: Ints, time: Int64s) -> Ints:
    """Return the code of the range that began last among those open at each time, or -1."""
    if len(start) == 0 or len(time) == 0:
        return np.full(len(time), -1, dtype=np.int64)
    # What ends before the first time, or starts after the last one, is never open.
    near = (end > time.min()) & (start <= time.max())
    start, end, code = start[near], end[near], code[near]
    if len(start) == 0:
        return np.full(len(time), -1, dtype=np.int64)
    order = np.argsort(start, kind="stable")
    end = end[order]
    before = _previous_that_ends_later(end)
    at = np.searchsorted(start[order], time, "right") - 1
    # Ranges between this one and the earlier one that ends later have ended when this one ends.
    closed = np.flatnonzero((at >= 0) & (end[np.maximum(at, 0)] <= time))
    while len(closed):
        at[closed] = before[at[closed]]
        closed = closed[(at[closed] >= 0) & (end[np.maximum(at[closed], 0)] <= time[closed])]
    found: Ints = np.where(at >= 0, code[order][np.maximum(at, 0)], -1)
    return found


def _previous_that_ends_later(end: Int64s) -> Int64s:
    """Return for each range, in order of start, the last one before it that ends later, or -1."""
    if bool((end[1:] >= end[:-1]).all()):  # no range is nested in another
        return np.full(len(end), -1, dtype=np.int64)
    found, ends = [-1] * len(end), end.tolist()
    stack: list[int] = []
    for position, moment in enumerate(ends):
        while stack and ends[stack[-1]] <= moment:
            stack.pop()
        if stack:
            found[position] = stack[-1]
        stack.append(position)
    return np.array(found, dtype=np.int64)


class InnermostSums:
    """The sums of each range and kind: arrays with a row for each range, and a column for each kind."""

    def __init__(self, tables: Tables, ranges: pd.DataFrame, known: Bools, kinds: int) -> None:
        """Begin without kernels.

        ranges: the instances that the attribution made.
        known: which kernels are left out.
        kinds: how many kinds there are.
        """
        self._tables, self._ranges, self._known = tables, ranges, known if known.any() else None
        self._kinds, self._seen = kinds, 0

    @cached_property
    def _open(self) -> InnermostRanges | None:
        return InnermostRanges(self._ranges) if len(self._ranges) and self._tables.calls is not None else None

    @cached_property
    def names(self) -> Texts:
        """Return the names of the ranges by number. The last one is empty, for no range."""
        return np.array([""], dtype=object) if self._open is None else self._open.names

    @cached_property
    def calls(self) -> Int64s:
        """Return the number of calls."""
        return np.zeros((len(self.names), self._kinds), dtype=np.int64)

    @cached_property
    def kernels(self) -> Int64s:
        """Return the number of kernels."""
        return np.zeros_like(self.calls)

    @cached_property
    def total_ns(self) -> Int64s:
        """Return the time of the kernels (ns)."""
        return np.zeros_like(self.calls)

    @cached_property
    def first(self) -> Int64s:
        """Return how many kernels were added before the first one."""
        return np.full_like(self.calls, np.iinfo(np.int64).max)

    @cached_property
    def _threads(self) -> tuple[Int64s, Ints]:
        """Return the threads that called, and the number of each variant's thread."""
        assert self._tables.calls is not None
        threads, number = np.unique(self._tables.calls.tid_of, return_inverse=True)
        return threads, number.astype(np.int32)

    def add_variants(self, kind: Ints, is_call: Bools) -> None:
        """Add all kernels whose variant has a kind.

        kind, is_call: as add takes them, for each variant of work; no kind is -1.
        """
        work = self._tables.work
        for low in range(0, work.kernels, _BLOCK) if (kind >= 0).any() else ():
            variant = work.variant[low : min(low + _BLOCK, work.kernels)]
            kinds = kind[variant]
            its = np.flatnonzero(kinds >= 0)
            self._add(its + low, kinds[its], is_call[variant[its]])

    def add(self, rows: Ints, kind: Ints, is_call: Bools) -> None:
        """Add kernels: their rows of work, their kinds, and whether each is one call (or else a part of one)."""
        for low in range(0, len(rows), _BLOCK):
            part = slice(low, low + _BLOCK)
            self._add(rows[part], kind[part], is_call[part])

    def _add(self, rows: Ints, kind: Ints, is_call: Bools) -> None:
        if self._known is not None:
            kept = ~self._known[rows]
            rows, kind, is_call = rows[kept], kind[kept], is_call[kept]
        place = self._range_of(rows) * self._kinds + kind
        np.add.at(self.kernels.reshape(-1), place, 1)
        np.add.at(self.calls.reshape(-1), place[is_call], 1)
        np.add.at(self.total_ns.reshape(-1), place, self._tables.work.duration_ns[rows].astype(np.int64))
        np.minimum.at(self.first.reshape(-1), place, np.arange(self._seen, self._seen + len(rows)))
        self._seen += len(rows)

    def _range_of(self, rows: Ints) -> Int64s:
        """Return the number of the innermost range in which each kernel was launched."""
        found = np.full(len(rows), len(self.names) - 1, dtype=np.int64)
        calls, call = self._tables.calls, self._tables.launch[rows]
        if self._open is None or calls is None:
            return found
        known = np.flatnonzero(call >= 0)
        call = call[known]
        threads, number = self._threads
        thread = number[calls.variant[call]]
        for each in np.flatnonzero(np.bincount(thread)).tolist():
            mine = np.flatnonzero(thread == each)
            code = self._open.codes(int(threads[each]), calls.start_ns[call[mine]])
            found[known[mine]] = np.where(code >= 0, code, len(self.names) - 1)
        return found
