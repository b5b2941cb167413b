"""Find the columns of a table that hold texts. SQLite lets any column hold any text."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence


def text_columns(connection: sqlite3.Connection, table: str, columns: Sequence[str]) -> list[str]:
    """Return the columns in which any row has a text or a blob, after one read of a table that has none, or two.

    A separate query for each column would read the table as often as there are columns, and most columns have no text.

    table, columns: quoted for SQL.
    """
    if not columns:
        return []
    # A text is greater than every number, and a blob is greater than every text. Most tables have neither, which takes
    # half the time to find out. The sign removes the column's affinity.
    any_text = " OR ".join(f"+{column} >= ''" for column in columns)
    if connection.execute(f"SELECT 1 FROM {table} WHERE {any_text} LIMIT 1").fetchone() is None:
        return []
    asked = ", ".join(f"typeof(max({column})) IN ('text', 'blob')" for column in columns)
    found = connection.execute(f"SELECT {asked} FROM {table}").fetchone()
    return [column for column, has_text in zip(columns, found, strict=True) if has_text]
