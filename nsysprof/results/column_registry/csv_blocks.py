"""Render the rows of a large table as CSV, a block of them at a time, with no object for a number.

Every number has a field of fixed width, filled with NUL where it is shorter. The fields of a row that lie side by side
are one piece of bytes, and a text, which occurs in many rows, is quoted once. A block is its pieces joined, without the
NULs.
"""

from __future__ import annotations

import csv
import functools
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_BLOCK_ROWS = 1 << 15
# Four digits are looked up at once.
_DIGITS = 4
_GROUP = 10**_DIGITS
# The longest text of a double: -2.2250738585072014e-308.
_LONGEST_NUMBER = 24
# Below this, a whole double is written as its digits and ".0"; from 1e16 on it has an exponent.
_LARGEST_PLAIN = 1e15
# What may have to be quoted.
_SPECIAL = re.compile('[,"\r\n]')


@dataclass(frozen=True)
class TextCells:
    """A column of texts."""

    # The text of each row, as an index of `texts`.
    codes: Array
    # Every text, ready for a cell, and at the end "" for the rows whose code is -1.
    texts: Sequence[str]


@dataclass(frozen=True)
class NumberCells:
    """A column of integers, of doubles or of flags."""

    values: Array
    # Where a value is unknown; None where all are known.
    unknown: Array | None


Cells = TextCells | NumberCells


def render_blocks(columns: Sequence[Cells], rows: int) -> Iterator[bytes]:
    """Yield the lines of a table, as csv.writer would write them, in UTF-8."""
    ends = [b","] * (len(columns) - 1) + [b"\n"]
    quoted = [_quote(column, end) for column, end in zip(columns, ends, strict=True)]
    for first in range(0, rows, _BLOCK_ROWS):
        part = slice(first, min(first + _BLOCK_ROWS, rows))
        pieces: list[list[bytes]] = []
        fields: list[Array] = []
        for column, texts, end in zip(columns, quoted, ends, strict=True):
            if isinstance(column, NumberCells):
                fields += [_render(column, part), np.full((part.stop - first, 1), ord(end), np.uint8)]
                continue
            pieces += [*_join(fields), texts[column.codes[part]].tolist()]
            fields = []
        pieces += _join(fields)
        in_order: list[Any] = [None] * (len(pieces) * (part.stop - first))
        for at, piece in enumerate(pieces):
            in_order[at :: len(pieces)] = piece
        yield b"".join(in_order).translate(None, b"\0")


def _quote(column: Cells, end: bytes) -> Array:
    """Return the texts of a column as bytes that end with a separator, quoted where CSV needs it."""
    texts = column.texts if isinstance(column, TextCells) else ()
    found = np.empty(len(texts), dtype=object)
    found[:] = [(_quoted(text) if _SPECIAL.search(text) else text).encode("utf-8", "replace") + end for text in texts]
    return found


def _quoted(text: str) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow((text, 0))
    return line.getvalue()[: -len(",0\n")]


def _join(fields: Sequence[Array]) -> list[list[bytes]]:
    """Return the fields that lie side by side as one list of a piece for each row; no list where there are none."""
    if not fields:
        return []
    joined = np.concatenate(fields, axis=1)
    # The last byte is a separator, so that numpy takes no NUL away from an end.
    return [joined.view(f"S{joined.shape[1]}")[:, 0].tolist()]


def _render(column: NumberCells, part: slice) -> Array:
    """Return the cells of some rows as a matrix of bytes, with NULs for what a shorter cell leaves free."""
    values, unknown = column.values[part], None if column.unknown is None else column.unknown[part]
    if values.dtype.kind == "b":
        found = np.array([b"False", b"True"]).view(np.uint8).reshape(2, -1)[values.astype(np.intp)]
    elif values.dtype.kind == "f":
        found = _render_doubles(values, unknown)
    else:
        found = _render_integers(values)
    if unknown is not None:
        found[unknown] = 0
    return found


def _render_doubles(values: Array, unknown: Array | None) -> Array:
    """Return doubles with as many digits as are needed to read them back."""
    plain = (values == np.trunc(values)) & (np.abs(values) < _LARGEST_PLAIN) & ~((values == 0) & np.signbit(values))
    found = np.zeros((len(values), _LONGEST_NUMBER), np.uint8)
    digits = _render_integers(values[plain].astype(np.int64))
    width = digits.shape[1]
    found[plain, :width] = digits
    found[plain, width] = ord(".")
    found[plain, width + 1] = ord("0")
    others = ~plain if unknown is None else ~(plain | unknown)
    texts = np.array(list(map(repr, values[others].tolist())), dtype=f"S{_LONGEST_NUMBER}")
    found[others] = texts.view(np.uint8).reshape(-1, _LONGEST_NUMBER)
    return found


def _render_integers(values: Array) -> Array:
    """Return integers in digits, four at a time."""
    if not len(values):
        return np.zeros((0, _DIGITS), np.uint8)
    fields: list[Array] = []
    negative = values < 0
    left = values.astype(np.uint64)
    if negative.any():
        left = np.where(negative, np.uint64(0) - left, left)  # right for the least integer too
        fields.append(np.where(negative, np.uint8(ord("-")), np.uint8(0))[:, None])
    most = int(left.max())
    left = left.astype(np.uint32) if most < 1 << 32 else left
    groups: list[Array] = []
    table = _digit_groups()
    while True:
        is_last = most < _GROUP
        above, of_group = (None, left) if is_last else np.divmod(left, left.dtype.type(_GROUP))
        # Below a digit, zeros are written.
        at = of_group.astype(np.intp) if above is None else of_group.astype(np.intp) + _GROUP * (above > 0)
        first = 2 * _GROUP if groups else 0  # a leading group of 0 is not written, unless it is the only one
        groups.append(table[at + first].view(np.uint8).reshape(-1, _DIGITS))
        if above is None:
            return np.concatenate([*fields, *groups[::-1]], axis=1)
        left, most = above, most // _GROUP


@functools.cache
def _digit_groups() -> Array:
    """Return the four digits of 0 to 9999, as 32 bits each: the last group of a number, after NULs and after zeros.

    Then once more for the groups before it, whose 0 has no digit unless there is one before it.
    """
    numbers = np.arange(_GROUP)
    zeros = np.stack([numbers // 10**power % 10 + ord("0") for power in range(_DIGITS)[::-1]], axis=1).astype(np.uint8)
    nuls = zeros.copy()
    for power in range(1, _DIGITS):
        nuls[: 10**power, _DIGITS - 1 - power] = 0
    nothing = nuls.copy()
    nothing[0] = 0
    return np.concatenate([nuls, zeros, nothing, zeros]).view(np.uint32)[:, 0]
