"""Hold the events of a trace as arrays, from which tables of some events at a time are made.

Ten million kernels take 200 MB like this, and 800 MB as a table whose rows repeat what many of them share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.arrays import Int64s

_Ints = npt.NDArray[np.integer]
_Rows = npt.NDArray[np.int32]
# How many events are handled at a time, so that what is made of them takes some megabytes.
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class CallRows:
    """The CUDA API calls of a trace, numbered as in the file.

    start_ns, duration_ns: when a call began, and how long it took.
    variant: the row of `variants` that has the rest: name, global_tid.
    order: the numbers of the calls by start; None where they are in this order already.
    """

    start_ns: Int64s
    duration_ns: _Ints
    variant: _Ints
    variants: pd.DataFrame
    order: _Rows | None = None

    def __len__(self) -> int:
        return len(self.start_ns)

    def numbers(self, low: int = 0, high: int | None = None) -> _Ints | slice:
        """Return the numbers of the calls from the place `low` to the place `high` by start."""
        return slice(low, high) if self.order is None else self.order[low:high]

    def times(self, low: int = 0, high: int | None = None) -> tuple[Int64s, Int64s]:
        """Return starts and ends (ns) from the place `low` to the place `high` by start."""
        rows = self.numbers(low, high)
        start = self.start_ns[rows]
        return start, start + self.duration_ns[rows]

    def variants_at(self, low: int = 0, high: int | None = None) -> _Ints:
        """Return the rows of `variants` from the place `low` to the place `high` by start."""
        return self.variant[self.numbers(low, high)]

    def places(self, numbers: _Ints) -> _Rows:
        """Return the places by start of calls; -1 stays -1."""
        places: _Rows = numbers.astype(np.int32) if self.order is None else self._place[numbers]
        return places

    @cached_property
    def _place(self) -> _Rows:
        assert self.order is not None
        place = np.full(len(self) + 1, -1, dtype=np.int32)  # the last entry is for -1
        place[self.order] = np.arange(len(self), dtype=np.int32)
        return place

    def table(self, low: int = 0, high: int | None = None) -> pd.DataFrame:
        """Return the calls from the place `low` to the place `high` by start, with the columns of Timeline.api."""
        rows = self.numbers(low, high)
        start, variant = self.start_ns[rows], self.variant[rows]
        columns = {"start_ns": start, "end_ns": start + self.duration_ns[rows], **_shared(self.variants, variant)}
        return pd.DataFrame(columns, copy=False)  # they are made for this table


@dataclass(frozen=True)
class KernelGrids:
    """The grid and block of kernels, for a page that shows them.

    start_ns, end_ns: when each kernel ran; two that ran at the same time have the same grid, or are not here.
    place: the place of its text in `texts`, whose first stands for an unknown one.
    """

    start_ns: Int64s
    end_ns: Int64s
    place: _Ints
    texts: tuple[str, ...]

    def places(self, start_ns: Int64s, end_ns: Int64s) -> Int64s:
        """Return the places in `texts` of kernels; 0 where a grid is unknown."""
        known = pd.DataFrame({"start": self.start_ns, "end": self.end_ns, "place": self.place}, copy=False)
        wanted = pd.DataFrame({"start": start_ns, "end": end_ns}, copy=False)
        return wanted.merge(known, how="left", on=["start", "end"])["place"].fillna(0).to_numpy(np.int64)


@dataclass(frozen=True)
class WorkRows:
    """The work of the GPUs without migrations, numbered as in the file.

    start_ns, duration_ns: when it began, and how long it took.
    variant: the row of `variants` of each kernel; rows after the kernels have theirs in late_variant.
    variants: kind, name, short_name, category, device_id, context_id, stream_id, stream, global_pid.
    kernels: how many rows are kernels, which come first.
    late_variant, late_bytes, late_host: the row of `variants`, the size and the memory on the host's side (see Work) of
        the rows after the kernels.
    call: the number of the call that launched it, or -1.
    caused_by: the innermost range that adopted or captured it, or -1; None for none at all.
    calls: the calls.
    order: the numbers of the work by start, without migrations; None where all rows are in this order already.
    """

    start_ns: Int64s
    duration_ns: _Ints
    variant: _Ints
    variants: pd.DataFrame
    kernels: int
    late_variant: _Ints
    late_bytes: Int64s
    late_host: _Ints
    call: _Rows
    caused_by: _Rows | None
    calls: CallRows
    order: _Rows | None = None

    def __len__(self) -> int:
        return len(self.start_ns) if self.order is None else len(self.order)

    def numbers(self, low: int = 0, high: int | None = None) -> _Ints:
        """Return the numbers of the work from the place `low` to the place `high` by start."""
        if self.order is not None:
            return self.order[low:high]
        return np.arange(low, len(self) if high is None else min(high, len(self)), dtype=np.int32)

    def variants_of(self, numbers: _Ints) -> _Ints:
        """Return the rows of `variants` of some work."""
        variants: _Ints = self.variant[numbers]
        late = np.flatnonzero(numbers >= self.kernels)
        if len(late):
            variants = variants.astype(np.int32)
            variants[late] = self.late_variant[numbers[late] - self.kernels]
        return variants

    def times(self, low: int = 0, high: int | None = None) -> tuple[Int64s, Int64s]:
        """Return starts and ends (ns) from the place `low` to the place `high` by start."""
        rows = self.numbers(low, high)
        start = self.start_ns[rows]
        return start, start + self.duration_ns[rows]

    def variants_at(self, low: int = 0, high: int | None = None) -> _Ints:
        """Return the rows of `variants` from the place `low` to the place `high` by start."""
        return self.variants_of(self.numbers(low, high))

    def bytes_of(self, numbers: _Ints) -> Int64s:
        """Return the sizes of some work; 0 for kernels."""
        sizes = np.zeros(len(numbers), dtype=np.int64)
        late = np.flatnonzero(numbers >= self.kernels)
        sizes[late] = self.late_bytes[numbers[late] - self.kernels]
        return sizes

    def host_of(self, numbers: _Ints) -> _Ints:
        """Return the memory on the host's side of some copies: 0 pageable, 1 pinned, -1 unknown or none."""
        host = np.full(len(numbers), -1, dtype=np.int8)
        late = np.flatnonzero(numbers >= self.kernels)
        host[late] = self.late_host[numbers[late] - self.kernels]
        return host

    def table(self, low: int = 0, high: int | None = None) -> pd.DataFrame:
        """Return the work from the place `low` to the place `high` by start, with the columns of Timeline.gpu."""
        rows = self.numbers(low, high)
        shared = _shared(self.variants, self.variants_of(rows))
        start = self.start_ns[rows]
        caused_by = np.full(len(rows), -1, dtype=np.int32) if self.caused_by is None else self.caused_by[rows]
        columns: dict[str, Any] = {"start_ns": start, "end_ns": start + self.duration_ns[rows]}
        columns |= {name: shared.pop(name) for name in ("kind", "name", "short_name", "category")}
        columns |= {"bytes": self.bytes_of(rows), "call": self.calls.places(self.call[rows]), "caused_by": caused_by}
        return pd.DataFrame({**columns, **shared}, copy=False)  # the columns are made for this table


def _shared(variants: pd.DataFrame, variant: _Ints) -> dict[str, Any]:
    """Return the columns of `variants` for each of the events."""
    columns: dict[str, Any] = {}
    rows = variant.astype(np.intp)  # numpy would convert narrow numbers again for each column
    for name, column in variants.items():
        if isinstance(column.dtype, pd.CategoricalDtype):
            codes = column.cat.codes.to_numpy()[rows]
            columns[str(name)] = pd.Categorical.from_codes(codes, dtype=column.dtype, validate=False)
        else:
            columns[str(name)] = column.to_numpy()[rows]
    return columns


def pieces(rows: CallRows | WorkRows) -> Iterator[tuple[int, int]]:
    """Yield the places (low, high) of pieces of the events, in order of start."""
    for low in range(0, len(rows), _AT_ONCE):
        yield low, min(low + _AT_ONCE, len(rows))
