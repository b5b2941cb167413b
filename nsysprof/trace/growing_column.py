"""Provide a column that grows in place, because joining many small arrays would hold a large table twice in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


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
