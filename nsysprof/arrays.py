"""Define array types, and functions on arrays: merge spans, group rows by key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

Int64s = npt.NDArray[np.int64]
Integer = TypeVar("Integer", bound=np.integer)
Floats = npt.NDArray[np.float64]
_BLOCK = 1 << 18
# A series has a trend where the medians of this many equal parts all fall or all rise, and at least by this share in
# all and in its second half. Fewer values show none.
_TREND_PARTS, _LEAST_TREND_SHARE, _LEAST_TREND = 8, 0.15, 32


def find_trend(values: Int64s) -> tuple[float, float] | None:
    """Return the medians of the first and the last eighth of a series that falls or rises from begin to end.

    Return None for other series: those that settle after a beginning, are alike, or change back and forth.
    """
    if len(values) < _LEAST_TREND:
        return None
    medians = np.array([float(np.median(part)) for part in np.array_split(values, _TREND_PARTS)])
    steps = np.diff(medians)
    first, middle, last = medians[0], medians[_TREND_PARTS // 2], medians[-1]
    changes = (abs(last - first) / max(last, first, 1.0), abs(last - middle) / max(last, middle, 1.0))
    is_even = bool((steps < 0).all() or (steps > 0).all())
    return (first, last) if is_even and min(changes) >= _LEAST_TREND_SHARE else None


def rows_by_key(keys: pd.Series, rows: Int64s | None = None) -> list[tuple[Any, Int64s]]:
    """Return pairs (key, its rows) in order of key. Rows without a key are in no group.

    rows: the row of each key; None means 0, 1, 2 and so on.
    """
    codes, unique = pd.factorize(keys, sort=True)
    if len(unique) == 1 and bool((codes == 0).all()):
        return [(unique[0], np.arange(len(codes)) if rows is None else rows)]
    # Numbers with few bits are sorted by counting, which is faster than comparing.
    codes = codes.astype(np.int16 if len(unique) < 1 << 15 else np.int64)
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(unique) + 1))
    ordered = order if rows is None else rows[order]
    return [(key, ordered[edges[number] : edges[number + 1]]) for number, key in enumerate(unique)]


def different(values: npt.NDArray[Integer]) -> npt.NDArray[Integer]:
    """Return the different values in order.

    np.unique hashes large arrays first. That takes eight times as long as this where most values differ.
    """
    ordered = np.sort(values)
    fresh = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    found: npt.NDArray[Integer] = ordered[fresh]
    return found


def find_places(
    values: npt.NDArray[Any], wanted: npt.NDArray[np.integer], side: Literal["left", "right"] = "left"
) -> Int64s:
    """Return np.searchsorted(values, wanted, side), for wanted values in any order.

    They are looked up in order, so that the next one lies near the last one and in the processor's cache. That takes a
    seventh of the time where there are many of both.
    """
    if bool((wanted[1:] >= wanted[:-1]).all()):
        return np.searchsorted(values, wanted, side)
    order = np.argsort(wanted)
    found = np.empty(len(wanted), dtype=np.int64)
    found[order] = np.searchsorted(values, wanted[order], side)
    return found


def find_rows(chosen: npt.NDArray[np.bool_], code: npt.NDArray[np.integer]) -> npt.NDArray[np.int32]:
    """Return the rows whose code is chosen, in 32 bits. It takes no more memory than the result.

    chosen: for each code, whether its rows are wanted.
    code: the code of each row, from 0 on.
    """
    if chosen.all():
        return np.arange(len(code), dtype=np.int32)
    blocks = range(0, len(code), _BLOCK)
    rows = np.empty(sum(int(np.count_nonzero(chosen[code[low : low + _BLOCK]])) for low in blocks), dtype=np.int32)
    filled = 0
    for low in blocks:
        its = np.flatnonzero(chosen[code[low : low + _BLOCK]])
        np.add(its, low, out=rows[filled : (filled := filled + len(its))], casting="unsafe")
    return rows


def rows_by_code(code: npt.NDArray[np.integer], codes: int) -> list[npt.NDArray[np.int32]]:
    """Return the rows of each code 0 ... codes-1, in order and in 32 bits. It takes no more memory than the result."""
    edges = np.append(0, np.cumsum(count_codes(code, codes)))
    rows, filled = np.empty(len(code), dtype=np.int32), edges[:-1].copy()
    for low in range(0, len(code), _BLOCK):
        part = code[low : low + _BLOCK]
        counts = np.bincount(part, minlength=codes)
        places = np.arange(len(part)) + np.repeat(filled - np.cumsum(counts) + counts, counts)
        rows[places] = low + np.argsort(part, kind="stable")
        filled += counts
    return np.split(rows, edges[1:-1])


def count_codes(code: npt.NDArray[np.integer], codes: int) -> Int64s:
    """Return how often each code 0 ... codes-1 occurs.

    np.bincount alone would copy narrow codes to 64 bits, which takes eight times their memory.
    """
    found = np.zeros(codes, dtype=np.int64)
    for low in range(0, len(code), _BLOCK):
        found += np.bincount(code[low : low + _BLOCK], minlength=codes)
    return found


def merge_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the spans (start, end) in order. Those that overlap or touch are joined into one."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


class GrowingColumn:
    """Values that are appended batch by batch and become one array. Wider values widen the column."""

    def __init__(self, values: npt.NDArray[Any], expected: int = 0) -> None:
        """Begin with `values`, which then belong to the column, and reserve room for `expected` more.

        Unused room costs nothing, because the system provides a page of memory only when it is first written.
        """
        self._values, self._length = values, len(values)
        if expected:
            self._values = np.empty(len(values) + expected, dtype=values.dtype)
            self._values[: len(values)] = values

    def __len__(self) -> int:
        return self._length

    @property
    def dtype(self) -> np.dtype[Any]:
        """Return the type of the values so far."""
        return self._values.dtype

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add `values` at the end."""
        dtype = np.promote_types(self._values.dtype, values.dtype)
        if dtype != self._values.dtype:
            self._values = self._values.astype(dtype)
        needed = self._length + len(values)
        if needed > len(self._values):
            self._values.resize(max(needed, 1024, len(self._values) * 9 // 8), refcheck=False)
        self._values[self._length : needed] = values
        self._length = needed

    def make_room(self, more: int) -> npt.NDArray[Any]:
        """Make room for `more` values, and return the array in which they come after the present ones.

        The array must not be kept beyond the next call.
        """
        needed = self._length + more
        if needed > len(self._values):
            self._values.resize(max(needed, len(self._values) * 9 // 8), refcheck=False)
        return self._values

    def take_in(self, length: int) -> None:
        """Count the values as the column's that were written where there was room, so that it has `length`."""
        self._length = length

    def widen(self, dtype: npt.DTypeLike) -> None:
        """Hold the values in another type from now on."""
        wide = np.empty(len(self._values), dtype=dtype)
        wide[: self._length] = self._values[: self._length]
        self._values = wide

    def finish(self) -> npt.NDArray[Any]:
        """Return the values. The column must not be used afterwards."""
        self._values.resize(self._length, refcheck=False)  # in place: the allocator frees the rest
        return self._values
