"""Write and read CSV files, with one number format that loses nothing.

Integers are written completely, and floating-point numbers with as many digits as are needed to read the same number
back. Unknown values are empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsysprof.plain_text import plain_cell
from nsysprof.results.column_registry.column import Dtype, FileColumn, TableFile

if TYPE_CHECKING:
    import pandas as pd


def render_csv(table: pd.DataFrame, file: TableFile) -> bytes:
    """Return a table as CSV in UTF-8. Raises KeyError for a column that is not registered for the file."""
    import pandas as pd

    known = file.by_name
    unknown = [name for name in table.columns if name not in known]
    if unknown:
        raise KeyError(f"{file.name} has no registered columns {', '.join(map(str, unknown))}")
    if not len(table):  # many tables have no rows in most traces
        return (",".join(map(str, table.columns)) + "\n").encode()
    cells = {name: _cells_to_write(table[name], known[name]) for name in table.columns}
    text: str = pd.DataFrame(cells, index=table.index).to_csv(index=False, lineterminator="\n")
    return text.encode("utf-8", "replace")


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


def _cells_to_write(cells: pd.Series, column: FileColumn) -> pd.Series:
    import numpy as np
    import pandas as pd

    if column.dtype is Dtype.TEXT:
        # A name occurs in many rows, and is made plain once.
        codes, unique = pd.factorize(cells)
        safe = [plain_cell(cell) if isinstance(cell, str) else cell for cell in unique]
        texts = np.array([*safe, None], dtype=object)
        return pd.Series(texts[codes], index=cells.index, dtype=object)
    if column.dtype is Dtype.INTEGER and isinstance(cells.dtype, np.dtype) and cells.dtype.kind in "iu":
        return cells  # nothing to check, and nothing unknown
    return cells.astype("boolean") if column.dtype is Dtype.FLAG else _numbers(cells, column)


def _numbers(cells: pd.Series, column: FileColumn) -> pd.Series:
    """Raise ValueError for a fraction in a column of integers: pandas would cut it off silently."""
    import pandas as pd

    if column.dtype is Dtype.INTEGER and not pd.api.types.is_integer_dtype(cells):
        values = cells.astype("Float64")
        if (values % 1 != 0).any():
            raise ValueError(f"the column {column.name} must be whole and holds a fraction")
    return cells.astype(pandas_dtype(column))
