"""Write and read CSV files, with one number format that loses nothing, and turn tables into lists of records.

Integers are written completely, and floating-point numbers with as many digits as are needed to read the same number
back. Unknown values are empty.

A large table is rendered a block of rows at a time, with no object for a number. Every number has a field of fixed
width, filled with NUL where it is shorter. The fields of a row that lie side by side are one piece of bytes, and a
text, which occurs in many rows, is quoted once. A block is its pieces joined, without the NULs.
"""

from __future__ import annotations

import csv
import functools
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.plain_text import plain_cell, plain_line
from nsysprof.results.column_registry.column import Dtype, FileColumn, TableFile

if TYPE_CHECKING:
    import pandas as pd

# Tables with at least so many rows are written in blocks.
_MANY_ROWS = 1000


def render_csv(table: pd.DataFrame, file: TableFile) -> bytes:
    """Return a table as CSV in UTF-8. Raises KeyError for a column that is not registered for the file."""
    return b"".join(render_csv_blocks(table, file))


def render_csv_blocks(table: pd.DataFrame, file: TableFile) -> Iterator[bytes]:
    """Yield a table as CSV in UTF-8, piece by piece. Raises KeyError as render_csv does."""
    known = file.by_name
    unknown = [name for name in table.columns if name not in known]
    if unknown:
        raise KeyError(f"{file.name} has no registered columns {', '.join(map(str, unknown))}")
    yield _render_lines([table.columns])
    if len(table) < _MANY_ROWS or len(table.columns) == 1:  # csv.writer quotes an empty text that is alone in its line
        cells = [_few_cells(table[name], known[name]) for name in table.columns]
        yield _render_lines(zip(*cells, strict=True))
    else:
        yield from render_blocks([_many_cells(table[name], known[name]) for name in table.columns], len(table))


def _render_lines(lines: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode("utf-8", "replace")


def empty_table(file: TableFile) -> pd.DataFrame:
    """Return a table without rows that has the columns of a file."""
    return pd.DataFrame(columns=list(file.names))


def format_cell(value: Any) -> str:
    """Return one cell as text: the same number format as render_csv, for writers without a DataFrame."""
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return ""
    return repr(value) if isinstance(value, float) else plain_cell(value) if isinstance(value, str) else str(value)


def set_dtypes(table: pd.DataFrame, file: TableFile) -> pd.DataFrame:
    """Return a table of texts (as read from CSV) with the registered types. What is not a number becomes NA.

    An empty text in a nullable column stays an empty text. Raises ValueError for a fraction in a column of integers.
    """
    typed = table.copy()
    for name in table.columns:
        column = file.by_name.get(str(name))
        if column is None:
            continue
        if column.dtype is Dtype.TEXT:
            texts = table[name].astype("string")
            typed[name] = texts.fillna("") if column.nullable else texts
        elif column.dtype is Dtype.FLAG:
            typed[name] = table[name].map({"True": True, "False": False}).astype("boolean")
        else:
            typed[name] = _numbers(pd.to_numeric(table[name], errors="coerce"), column)
    return typed


def pandas_dtype(column: FileColumn) -> Any:
    """Return the nullable pandas type for the cells of a column."""
    return {Dtype.TEXT: "string", Dtype.INTEGER: "Int64", Dtype.NUMBER: "Float64", Dtype.FLAG: "boolean"}[column.dtype]


def _few_cells(cells: pd.Series, column: FileColumn) -> list[Any]:
    """Return the cells of a short column as csv.writer writes them, None for unknown."""
    if column.dtype is Dtype.TEXT:
        return [plain_cell(cell) if isinstance(cell, str) else _known(cell) for cell in cells.tolist()]
    numbers = _plain_numbers(cells, column)
    values: list[Any] = numbers.values.tolist()
    if numbers.unknown is None:
        return values
    return [None if unknown else value for value, unknown in zip(values, numbers.unknown.tolist(), strict=True)]


def _many_cells(cells: pd.Series, column: FileColumn) -> Cells:
    """Return the cells of a long column for render_blocks."""
    if column.dtype is not Dtype.TEXT:
        return _plain_numbers(cells, column)
    # A name occurs in many rows, and is made plain once.
    codes, unique = pd.factorize(cells)
    texts = (plain_cell(cell) if isinstance(cell, str) else plain_line(str(cell)) for cell in unique)
    return TextCells(codes, [*texts, ""])


def _known(cell: Any) -> Any:
    """Return what is not a text in a column of texts as one: None where it is unknown."""
    return None if pd.isna(cell) else plain_line(str(cell))


def _plain_numbers(cells: pd.Series, column: FileColumn) -> NumberCells:
    """Return numbers or flags without pandas. Raises ValueError for a fraction in a column of integers."""
    kind = cells.dtype.kind if isinstance(cells.dtype, np.dtype) else ""
    if kind and kind in {Dtype.INTEGER: "iu", Dtype.NUMBER: "f", Dtype.FLAG: "b"}[column.dtype]:
        values = cells.to_numpy()
        unknown = np.isnan(values) if kind == "f" else None
        return NumberCells(values, unknown if unknown is not None and unknown.any() else None)
    typed = cells.astype("boolean") if column.dtype is Dtype.FLAG else _numbers(cells, column)
    numpy_dtype = {Dtype.INTEGER: np.int64, Dtype.NUMBER: np.float64, Dtype.FLAG: np.bool_}[column.dtype]
    unknown = typed.isna().to_numpy(dtype=bool)
    return NumberCells(typed.to_numpy(dtype=numpy_dtype, na_value=numpy_dtype(0)), unknown if unknown.any() else None)


def _numbers(cells: pd.Series, column: FileColumn) -> pd.Series:
    """Raise ValueError for a fraction in a column of integers: pandas would cut it off silently."""
    if column.dtype is Dtype.INTEGER and not pd.api.types.is_integer_dtype(cells):
        values = cells.astype("Float64")
        if (values % 1 != 0).any():
            raise ValueError(f"the column {column.name} must be whole and holds a fraction")
    return cells.astype(pandas_dtype(column))


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
    lines = np.empty(len(texts), dtype=object)
    lines[:] = [(_quoted(text) if _SPECIAL.search(text) else text).encode("utf-8", "replace") + end for text in texts]
    return lines


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
        characters = np.array([b"False", b"True"]).view(np.uint8).reshape(2, -1)[values.astype(np.intp)]
    elif values.dtype.kind == "f":
        characters = _render_doubles(values, unknown)
    else:
        characters = _render_integers(values)
    if unknown is not None:
        characters[unknown] = 0
    return characters


def _render_doubles(values: Array, unknown: Array | None) -> Array:
    """Return doubles with as many digits as are needed to read them back."""
    plain = (values == np.trunc(values)) & (np.abs(values) < _LARGEST_PLAIN) & ~((values == 0) & np.signbit(values))
    characters = np.zeros((len(values), _LONGEST_NUMBER), np.uint8)
    digits = _render_integers(values[plain].astype(np.int64))
    width = digits.shape[1]
    characters[plain, :width] = digits
    characters[plain, width] = ord(".")
    characters[plain, width + 1] = ord("0")
    others = ~plain if unknown is None else ~(plain | unknown)
    texts = np.array(list(map(repr, values[others].tolist())), dtype=f"S{_LONGEST_NUMBER}")
    characters[others] = texts.view(np.uint8).reshape(-1, _LONGEST_NUMBER)
    return characters


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


def to_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries of plain Python values, None where a cell is unknown."""
    columns = {str(name): [_plain(cell) for cell in table[name]] for name in table.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(cell: Any) -> Any:
    """Return a cell as a value that JSON can hold. NA and NaN differ from themselves, or cannot be compared."""
    if cell is None or cell is pd.NA or cell != cell:  # noqa: PLR0124 - NaN
        return None
    return cell.item() if hasattr(cell, "item") else cell
