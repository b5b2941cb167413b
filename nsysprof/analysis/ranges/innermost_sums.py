"""Sum up kernels by the innermost range in which they were launched and by kind, without a table of them."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pandas as pd

from nsysprof.analysis.kernel_names.variant_names import Texts
from nsysprof.analysis.ranges.open_range import InnermostRanges
from nsysprof.trace.schema import Bools, Int64s, Ints, Tables

# How many kernels are summed up at a time.
_BLOCK = 1 << 18


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
