"""Read columns of a table by probing what is there: names differ between nsys versions, and NULL is not zero."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.notes import Note, Severity
from nsysprof.trace.growing import GrowingColumn
from nsysprof.trace.open import Trace, quote
from nsysprof.trace.pages import UnusualLayoutError, scan_table
from nsysprof.trace.schema import NULL

_ROWS = 20_000
# A row of many columns with times in it takes at least this much of the file.
_LEAST_ROW_BYTES = 16
Batch = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Source:
    """A table that is there with the columns that are wanted; `names` are ours, `columns` those of the file or None."""

    table: str
    names: tuple[str, ...]
    columns: tuple[str | None, ...]


def find_columns(
    trace: Trace, table: str, required: dict[str, str], optional: dict[str, str] | None = None
) -> Source | None:
    """Where to read the columns (nsys name -> our name) of `table`; None when it is not there.

    A table that lacks a required column is None with a note.
    """
    found = trace.find(table)
    if found is None:
        return None
    present = {name.lower(): name for name in trace.columns[found]}
    missing = [name for name in required if name.lower() not in present]
    if missing:
        trace.notes.append(_note(table, f"lacks the columns {', '.join(missing)}"))
        return None
    wanted = {**required, **(optional or {})}
    return Source(found, tuple(wanted.values()), tuple(present.get(name.lower()) for name in wanted))


def read_columns(
    trace: Trace, source: Source, dtypes: dict[str, type], take: Callable[[Batch], Batch]
) -> dict[str, npt.NDArray[Any]] | None:
    """What `take` makes of each batch of rows (our column name -> int64, NULL where absent or no number), joined.

    `take` returns columns of `dtypes`, which need not be of one length. None with a note when the table is damaged.
    Large tables are read from the file's pages, and where those are unusual, again by SQLite.
    """
    if trace.is_large:
        try:
            return _gather(_page_batches(trace, source), dtypes, take, _expected_rows(trace, source))
        except (UnusualLayoutError, sqlite3.DatabaseError):
            pass  # SQLite says below what is wrong
    try:
        return _gather(_sqlite_batches(trace, source), dtypes, take, 0)
    except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError) as error:
        trace.notes.append(_note(source.table, f"is damaged ({error})"))
        return None


def _expected_rows(trace: Trace, source: Source) -> int:
    """The largest rowid, which is the number of rows in a table that was written once; no more than can be in it."""
    with trace.lock:
        (last,) = trace.connection.execute(f"SELECT max(rowid) FROM {quote(source.table)}").fetchone()
    return min(int(last or 0), trace.bytes // _LEAST_ROW_BYTES)


def _gather(batches: Iterator[Batch], dtypes: dict[str, type], take: Callable[[Batch], Batch], expected: int) -> Batch:
    columns = {name: GrowingColumn(np.empty(0, dtype), expected) for name, dtype in dtypes.items()}
    for batch in batches:
        for name, values in take(batch).items():
            columns[name].append(values)
    return {name: column.finish() for name, column in columns.items()}


def _page_batches(trace: Trace, source: Source) -> Iterator[Batch]:
    root, positions = page_positions(trace, source)
    absent = [name for name, column in zip(source.names, source.columns, strict=True) if column is None]
    present = [name for name, column in zip(source.names, source.columns, strict=True) if column is not None]
    for batch in scan_table(trace.path, root, positions):
        empty = dict.fromkeys(absent, np.full(batch.shape[1], NULL))
        yield {**dict(zip(present, batch, strict=True)), **empty}


def page_positions(trace: Trace, source: Source) -> tuple[int, list[int]]:
    """The root page of the table and the positions of the wanted columns in its rows.

    Raises UnusualLayoutError where a row may not hold them as they are: generated columns, and a key that is the rowid.
    """
    with trace.lock:
        found = trace.connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (source.table,)
        ).fetchone()
        info = trace.connection.execute(f"PRAGMA table_xinfo({quote(source.table)})").fetchall()
    where = {row[1]: row[0] for row in info}
    wanted = [column for column in source.columns if column is not None]
    keys = {row[1] for row in info if row[5]}
    if found is None or not isinstance(found[0], int) or any(row[6] for row in info) or keys & set(wanted):
        raise UnusualLayoutError
    return found[0], [where[column] for column in wanted]


def _sqlite_batches(trace: Trace, source: Source) -> Iterator[Batch]:
    parts = [str(NULL) if column is None else _as_integer(quote(column)) for column in source.columns]
    width = len(parts)
    with trace.lock:
        cursor = trace.connection.execute(f"SELECT {', '.join(parts)} FROM {quote(source.table)}")
        while rows := cursor.fetchmany(_ROWS):
            flat = np.fromiter(itertools.chain.from_iterable(rows), dtype=np.int64, count=width * len(rows))
            yield dict(zip(source.names, np.ascontiguousarray(flat.reshape(-1, width).T), strict=True))


def read_integers(
    trace: Trace, table: str, required: dict[str, str], optional: dict[str, str] | None = None
) -> pd.DataFrame | None:
    """The integer columns of `table`, renamed (nsys name -> our name), in file order; NULL where absent or null.

    None when the table is not there; a table that lacks a required column or is damaged is None with a note.
    """
    source = find_columns(trace, table, required, optional)
    if source is None:
        return None
    columns = read_columns(trace, source, dict.fromkeys(source.names, np.int64), lambda batch: batch)
    return None if columns is None else pd.DataFrame(columns, copy=False)


def _as_integer(column: str) -> str:
    """SQL for a number as an integer, and for anything else NULL: SQLite would make 0 of any text."""
    return f"CASE WHEN typeof({column}) IN ('integer', 'real') THEN CAST({column} AS INTEGER) ELSE {NULL} END"


def read_rows(trace: Trace, table: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """The rows of a small table; absent columns are None, an absent or damaged table is empty (the latter noted)."""
    found = trace.find(table)
    if found is None:
        return []
    present = {name.lower(): name for name in trace.columns[found]}
    parts = [quote(present[name.lower()]) if name.lower() in present else "NULL" for name in columns]
    try:
        with trace.lock:
            return trace.connection.execute(f"SELECT {', '.join(parts)} FROM {quote(found)}").fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        trace.notes.append(_note(table, f"is damaged ({error})"))
        return []


def read_different(trace: Trace, table: str, column: str, longest: int) -> list[str]:
    """The different texts of a column that have at most `longest` characters; none where absent or damaged."""
    found = _quoted(trace, table, column)
    if found is None:
        return []
    source, name = found
    chosen = f"typeof({name}) = 'text' AND length({name}) <= {longest:d}"
    try:
        with trace.lock:
            rows = trace.connection.execute(f"SELECT DISTINCT {name} FROM {source} WHERE {chosen}").fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        trace.notes.append(_note(table, f"is damaged ({error})"))
        return []
    return [text for (text,) in rows]


def read_texts(trace: Trace, table: str, column: str, rows: int) -> list[str | None] | None:
    """The texts of one column in file order, None for null and for blobs. None when damaged or not of `rows` rows.

    Where all are null, which SQL finds out faster, the list is empty.
    """
    found = _quoted(trace, table, column)
    if found is None:
        return []
    source, name = found
    try:
        with trace.lock:
            some = trace.connection.execute(f"SELECT 1 FROM {source} WHERE {name} IS NOT NULL LIMIT 1").fetchone()
            texts = trace.connection.execute(f"SELECT {name} FROM {source}").fetchall() if some else []
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        trace.notes.append(_note(table, f"is damaged ({error})"))
        return None
    if some and len(texts) != rows:
        trace.notes.append(_note(table, f"is damaged (it has {rows:,} rows and {len(texts):,} texts)"))
        return None
    return [text if isinstance(text, str) else None for (text,) in texts]


def _quoted(trace: Trace, table: str, column: str) -> tuple[str, str] | None:
    """A table and its column as SQL names them, None where one is absent."""
    found = trace.find(table)
    if found is None:
        return None
    spelled = next((name for name in trace.columns[found] if name.lower() == column.lower()), None)
    return None if spelled is None else (quote(found), quote(spelled))


def _note(table: str, what: str) -> Note:
    return Note(
        "table-unreadable",
        Severity.ERROR,
        f"The table {table} {what}; what it holds is unknown.",
        "Export the report again.",
    )
