"""Number the distinct tuples of several columns, so that repeating ids take only one or two bytes per row."""

from __future__ import annotations

import numpy as np

from nsysprof.trace.schema import Int64s, Ints
from nsysprof.trace.sqlite.sqlite_cells import encode


class TupleEncoder:
    """Encodes tuples of integers as 0, 1, 2, ... in order of appearance; `rows` is the table of the tuples.

    compiled: whether to use the compiled hash table, until a file appears whose tuples were made to collide in it.
    """

    def __init__(self, width: int, *, compiled: bool) -> None:
        self._width = width
        # Tuples as bytes: Python hashes bytes with a secret key, but tuples of integers without one.
        self._known: dict[bytes, int] = {}
        self._compiled = compiled
        self._count = 0
        self._rows = np.zeros((64 if compiled else 0, width), dtype=np.int64)
        self._slots = np.full(256, -1, dtype=np.int64)

    @property
    def rows(self) -> Int64s:
        """Return the tuple of each code, as int64 (tuples, width)."""
        if self._compiled:
            return self._rows[: self._count].copy()
        return np.frombuffer(b"".join(self._known), dtype=np.int64).reshape(-1, self._width).copy()

    def encode(self, *columns: Int64s) -> Ints:
        """Return the code of each row of `columns`, in the narrowest type that holds all codes so far."""
        values = np.stack(columns)
        codes = self._encode_compiled(values) if self._compiled else None
        if codes is None:
            codes = self._encode_by_dictionary(values)
        return codes.astype(np.uint8 if self._count <= 2**8 else np.int16 if self._count <= 2**15 else np.int32)

    def _encode_by_dictionary(self, values: Int64s) -> Int64s:
        known = self._known
        codes = np.array([known.setdefault(row, len(known)) for row in _as_bytes(values.T)], np.int64)
        self._count = len(known)
        return codes

    def _encode_compiled(self, values: Int64s) -> Int64s | None:
        """Return the codes; where the hash table fails, return None and keep the known tuples in the dictionary."""
        codes = np.empty(values.shape[1], dtype=np.int64)
        done, self._count = encode(values, 0, self._slots, self._rows, self._count, codes)
        while 0 <= done < values.shape[1] and self.grow():
            done, self._count = encode(values, done, self._slots, self._rows, self._count, codes)
        if done == values.shape[1]:
            return codes
        self.leave_hash_table()
        return None

    @property
    def hash_table(self) -> tuple[Int64s, Int64s, int]:
        """Return the slots and rows of the compiled hash table, and how many rows are used."""
        return self._slots, self._rows, self._count

    def count_rows(self, count: int) -> None:
        """Take in the tuples that compiled code added to the hash table, so that `count` rows are used."""
        self._count = count

    def leave_hash_table(self) -> None:
        """Use the dictionary from now on, because too many tuples have one hash."""
        self._compiled = False
        self._known = {row: code for code, row in enumerate(_as_bytes(self._rows[: self._count]))}

    def grow(self) -> bool:
        """Make room for four times as many tuples, and return whether the known ones found their places in it."""
        old = self._rows[: self._count]
        rows = np.zeros((4 * len(self._rows), self._width), dtype=np.int64)
        slots = np.full(4 * len(rows), -1, dtype=np.int64)
        done, _ = encode(np.ascontiguousarray(old.T), 0, slots, rows, 0, np.empty(len(old), dtype=np.int64))
        if done < 0:
            return False
        self._rows, self._slots = rows, slots
        return True


def _as_bytes(rows: Int64s) -> list[bytes]:
    """Return each row of an array (n, width) as bytes."""
    row_bytes: list[bytes] = np.ascontiguousarray(rows).view(f"V{8 * rows.shape[1]}").ravel().tolist()
    return row_bytes
