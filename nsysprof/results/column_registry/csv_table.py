"""Write and read CSV files, with one number format that loses nothing.

Integers are written completely, and floating-point numbers with as many digits as are needed to read the same number
back. Unknown values are empty.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from nsysprof.plain_text import plain_cell, plain_line
from nsysprof.results.column_registry.column import Dtype, FileColumn, TableFile
from nsysprof.results.column_registry.csv_blocks import Cells, NumberCells, TextCells, render_blocks

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
    import pandas as pd

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
    import pandas as pd

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
    found = _plain_numbers(cells, column)
    values: list[Any] = found.values.tolist()
    if found.unknown is None:
        return values
    return [None if unknown else value for value, unknown in zip(values, found.unknown.tolist(), strict=True)]


def _many_cells(cells: pd.Series, column: FileColumn) -> Cells:
    """Return the cells of a long column for render_blocks."""
    import pandas as pd

    if column.dtype is not Dtype.TEXT:
        return _plain_numbers(cells, column)
    # A name occurs in many rows, and is made plain once.
    codes, unique = pd.factorize(cells)
    texts = (plain_cell(cell) if isinstance(cell, str) else plain_line(str(cell)) for cell in unique)
    return TextCells(codes, [*texts, ""])


def _known(cell: Any) -> Any:
    """Return what is not a text in a column of texts as one: None where it is unknown."""
    import pandas as pd

    return None if pd.isna(cell) else plain_line(str(cell))


def _plain_numbers(cells: pd.Series, column: FileColumn) -> NumberCells:
    """Return numbers or flags without pandas. Raises ValueError for a fraction in a column of integers."""
    import numpy as np

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
    import pandas as pd

    if column.dtype is Dtype.INTEGER and not pd.api.types.is_integer_dtype(cells):
        values = cells.astype("Float64")
        if (values % 1 != 0).any():
            raise ValueError(f"the column {column.name} must be whole and holds a fraction")
    return cells.astype(pandas_dtype(column))
