"""Read columns of a table by probing what is there: names differ between nsys versions, and NULL is not zero."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence

import numpy as np
import pandas as pd

from nsysprof.notes import Note, Severity
from nsysprof.trace.open import Trace, quote
from nsysprof.trace.schema import NULL


def read_integers(
    trace: Trace, table: str, required: dict[str, str], optional: dict[str, str] | None = None
) -> pd.DataFrame | None:
    """The integer columns of `table`, renamed (nsys name -> our name), in file order; NULL where absent or null.

    None when the table is not there; a table that lacks a required column or is damaged is None with a note.
    """
    if not trace.has(table):
        return None
    present = {name.lower(): name for name in trace.columns[table]}
    missing = [name for name in required if name.lower() not in present]
    if missing:
        trace.notes.append(_note(table, f"lacks the columns {', '.join(missing)}"))
        return None
    wanted = {**required, **(optional or {})}
    parts = [_as_integer(quote(present[name.lower()])) if name.lower() in present else str(NULL) for name in wanted]
    try:
        cursor = trace.connection.execute(f"SELECT {', '.join(parts)} FROM {quote(table)}")
        flat = np.fromiter(itertools.chain.from_iterable(cursor), dtype=np.int64)
    except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError) as error:
        trace.notes.append(_note(table, f"is damaged ({error})"))
        return None
    matrix = flat.reshape(-1, len(wanted))
    return pd.DataFrame({ours: matrix[:, i] for i, ours in enumerate(wanted.values())})


def _as_integer(column: str) -> str:
    """SQL for a number as an integer, and for anything else NULL: SQLite would make 0 of any text."""
    return f"CASE WHEN typeof({column}) IN ('integer', 'real') THEN CAST({column} AS INTEGER) ELSE {NULL} END"


def read_rows(trace: Trace, table: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """The rows of a small table; absent columns are None, an absent or damaged table is empty (the latter noted)."""
    if not trace.has(table):
        return []
    present = {name.lower(): name for name in trace.columns[table]}
    parts = [quote(present[name.lower()]) if name.lower() in present else "NULL" for name in columns]
    try:
        return trace.connection.execute(f"SELECT {', '.join(parts)} FROM {quote(table)}").fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        trace.notes.append(_note(table, f"is damaged ({error})"))
        return []


def _note(table: str, what: str) -> Note:
    return Note(
        "table-unreadable",
        Severity.ERROR,
        f"The table {table} {what}; what it holds is unknown.",
        "Export the report again.",
    )
