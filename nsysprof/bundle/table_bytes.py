"""Say at most how many bytes some tables of a trace can take, packed or not."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from pathlib import Path

from nsysprof.bundle.allow_list import STRINGS, base_name
from nsysprof.trace.open import open_trace, quote

# What SQLite stores with each row and each cell at most, besides the cell's value (bytes).
_PER_ROW, _PER_CELL = 20, 9


def most_bytes_of(trace: Path, tables: Collection[str], limit: int) -> int | None:
    """Return at most how many bytes the rows of the tables take (bytes), with all strings that they may use.

    None where these are more than the limit.

    trace: a trace that sanitize_trace has written.
    limit: what is still of use (bytes).
    """
    found = 0
    with open_trace(trace) as opened:
        for table, columns in opened.columns.items():
            if base_name(table) in tables or table == STRINGS:
                found += _most_bytes(opened.connection, table, columns, limit // _PER_ROW + 1)
                if found > limit:
                    return None
    return found


def _most_bytes(connection: sqlite3.Connection, table: str, columns: Collection[str], rows: int) -> int:
    """Return at most how many bytes the first rows of a table take."""
    cells = " + ".join(f"ifnull(length(CAST({quote(column)} AS BLOB)), 0)" for column in columns) or "0"
    sql = f"SELECT count(*), total({cells}) FROM (SELECT * FROM {quote(table)} LIMIT {rows})"
    count, values = connection.execute(sql).fetchone()
    return int(count) * (_PER_ROW + _PER_CELL * len(columns)) + int(values)
