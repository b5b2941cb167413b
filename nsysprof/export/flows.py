"""Number the arrows (flows) from API calls to the work that they launched."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Int64s
from nsysprof.export.content import CHUNK_ROWS
from nsysprof.results.event_rows import WorkRows

_Ints = npt.NDArray[Any]
_Bools = npt.NDArray[np.bool_]


class Flows:
    """The arrow into the first work of a call has the call's number plus 1, so that nothing is stored for it.

    Further work of the same call, as a graph replay has it, gets the numbers after those of all calls.
    """

    def __init__(self, work: WorkRows) -> None:
        self._call, self._calls = work.call, len(work.calls)
        self._launches: _Bools = np.zeros(self._calls, dtype=np.bool_)
        self._work = work
        # How many arrows there are.
        self.count = 0
        for rows in self._parts():
            self._launches[self._call[rows]] = True
            self.count += len(rows)
        self._more_work, self._more_of = self._list_more()

    def _parts(self) -> Any:
        """Yield the numbers of the work that a call launched, some at a time and by start."""
        for low in range(0, len(self._work), CHUNK_ROWS):
            rows = self._work.numbers(low, low + CHUNK_ROWS)
            yield rows[self._call[rows] >= 0]

    def _list_more(self) -> tuple[_Ints, _Ints]:
        """Return the work that is not the first of its call, in order of its numbers, and its calls."""
        none = np.zeros(0, dtype=np.int32)
        if self.count == int(np.count_nonzero(self._launches)):
            return none, none
        first = np.full(self._calls, -1, dtype=np.int32)
        more = []
        for rows in self._parts():
            calls = self._call[rows]
            fresh = first[calls] < 0
            first[calls[fresh][::-1]] = rows[fresh][::-1]
            more.append(rows[first[calls] != rows])
        more_work = np.sort(np.concatenate(more))
        return more_work, self._call[more_work]

    def into(self, rows: _Ints) -> Int64s:
        """Return the number of the arrow into each of the rows of work; 0 for none."""
        arrows = self._call[rows].astype(np.int64) + 1
        if len(self._more_work):
            at = np.minimum(np.searchsorted(self._more_work, rows), len(self._more_work) - 1)
            is_more = self._more_work[at] == rows
            arrows[is_more] = self._calls + 1 + at[is_more]
        return arrows

    def out_of(self, calls: _Ints) -> Int64s:
        """Return the number of the first arrow out of each of the calls; 0 for none."""
        return np.where(self._launches[calls], calls.astype(np.int64) + 1, 0)

    def more_out_of(self, calls: _Ints) -> tuple[Int64s, Int64s]:
        """Return how many further arrows each of the calls has, and the numbers of all of them, call by call."""
        if len(self._more_work) == 0:
            return np.zeros(len(calls), dtype=np.int64), np.zeros(0, dtype=np.int64)
        low = np.searchsorted(self._more_calls, calls, "left")
        count = np.searchsorted(self._more_calls, calls, "right") - low
        place = np.repeat(low - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
        return count, self._calls + 1 + self._by_call[place].astype(np.int64)

    @cached_property
    def _by_call(self) -> _Ints:
        return np.argsort(self._more_of, kind="stable").astype(np.int32)

    @cached_property
    def _more_calls(self) -> _Ints:
        calls: _Ints = self._more_of[self._by_call]
        return calls
