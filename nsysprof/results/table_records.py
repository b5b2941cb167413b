"""Turn tables into JSON data without loss: every number keeps all of its digits, and unknown is null."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def to_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table as dictionaries of plain Python values, None where a cell is unknown."""
    columns = {str(name): [_plain(cell) for cell in table[name]] for name in table.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _plain(cell: Any) -> Any:
    """Return a cell as a value that JSON can hold. NA and NaN differ from themselves, or cannot be compared."""
    import pandas as pd

    if cell is None or cell is pd.NA or cell != cell:  # noqa: PLR0124 - NaN
        return None
    return cell.item() if hasattr(cell, "item") else cell
