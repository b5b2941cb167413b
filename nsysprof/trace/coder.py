"""Numbers for tuples that repeat, so that a column of ids costs one or two bytes a row."""

from __future__ import annotations

import numpy as np

from nsysprof.trace.schema import Int64s, Ints


class Coder:
    """Codes tuples of integers 0, 1, 2 ... in order of appearance; `rows` is the table of the tuples."""

    def __init__(self, width: int, *, compiled: bool) -> None:
        self._width = width
        self._known: dict[tuple[int, ...], int] = {}
        self._compiled = compiled
        self._count = 0
        self._rows = np.zeros((64 if compiled else 0, width), dtype=np.int64)
        self._slots = np.full(256, -1, dtype=np.int64)

    @property
    def rows(self) -> Int64s:
        """int64 (tuples, width): the tuple of each code."""
        if self._compiled:
            return self._rows[: self._count].copy()
        return np.array(list(self._known), dtype=np.int64).reshape(-1, self._width)

    def encode(self, *columns: Int64s) -> Ints:
        """The code of each row of `columns`, in the narrowest type that holds all so far."""
        values = np.stack(columns)
        if self._compiled:
            codes = self._encode_compiled(values)
        else:
            known = self._known
            codes = np.array(
                [known.setdefault(row, len(known)) for row in zip(*values.tolist(), strict=True)], np.int64
            )
            self._count = len(known)
        return codes.astype(np.int16 if self._count < 2**15 else np.int32)

    def _encode_compiled(self, values: Int64s) -> Int64s:
        from nsysprof.trace.leaf_decoder import encode

        codes = np.empty(values.shape[1], dtype=np.int64)
        done, self._count = encode(values, 0, self._slots, self._rows, self._count, codes)
        while done < values.shape[1]:
            self._grow()
            done, self._count = encode(values, done, self._slots, self._rows, self._count, codes)
        return codes

    def _grow(self) -> None:
        from nsysprof.trace.leaf_decoder import encode

        old = self._rows[: self._count]
        self._rows = np.zeros((4 * len(self._rows), self._width), dtype=np.int64)
        self._slots = np.full(4 * len(self._rows), -1, dtype=np.int64)
        encode(np.ascontiguousarray(old.T), 0, self._slots, self._rows, 0, np.empty(len(old), dtype=np.int64))
