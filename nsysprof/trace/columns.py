"""Read columns of a table after probing which exist: names differ between nsys versions, and NULL is not zero."""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.arrays import GrowingColumn
from nsysprof.errors import TraceDamagedError
from nsysprof.notes import Loss, make_loss
from nsysprof.trace.confine import Confinement
from nsysprof.trace.leaf_pages import UnusualLayoutError, scan_table
from nsysprof.trace.open import Trace, quote
from nsysprof.trace.schema import NULL

_ROWS = 20_000
# The fewest bytes of the file that a row with many columns and times takes.
_LEAST_ROW_BYTES = 16
# The key under which a batch holds its texts.
TEXT = "text"
Batch = dict[str, npt.NDArray[Any]]
_INTERIOR = (2, 5)
_POINTERS = 12
_MOST_DEPTH = 20  # SQLite's own limit


@dataclass(frozen=True)
class TableSource:
    """An existing table, and where its wanted columns are."""

    table: str
    # The names of the columns in our code, and in the file (None for a column that the file does not have).
    names: tuple[str, ...]
    columns: tuple[str | None, ...]
    # A column of texts to read in the same pass; None for no texts.
    text: str | None = None


def find_columns(
    trace: Trace, table: str, required: dict[str, str], optional: dict[str, str] | None = None
) -> TableSource | None:
    """Return where to read the columns of `table`; None when the table does not exist.

    For a table that lacks a required column, add a note and return None.

    required, optional: our name of each column by nsys' name.
    """
    stored_table = trace.find(table)
    if stored_table is None:
        return None
    present = {name.lower(): name for name in trace.columns[stored_table]}
    missing = [name for name in required if name.lower() not in present]
    if missing:
        trace.add_loss(_loss(table, f"lacks the columns {', '.join(missing)}"))
        return None
    wanted = {**required, **(optional or {})}
    return TableSource(stored_table, tuple(wanted.values()), tuple(present.get(name.lower()) for name in wanted))


def read_columns(
    trace: Trace, source: TableSource, dtypes: Mapping[str, type], take: Callable[[Batch], Batch]
) -> dict[str, npt.NDArray[Any]] | None:
    """Return the columns that `take` makes of each batch of rows, joined over all batches. See grow_columns."""
    columns = grow_columns(trace, source, dtypes, take)
    return None if columns is None else {name: column.finish() for name, column in columns.items()}


def grow_columns(
    trace: Trace,
    source: TableSource,
    dtypes: Mapping[str, type],
    take: Callable[[Batch], Batch],
    followers: Sequence[str] = (),
) -> dict[str, GrowingColumn] | None:
    """Return the columns that `take` makes of each batch of rows, joined over all batches.

    A batch maps our column names to int64, with NULL where the value is absent or not a number. Large tables are read
    from the file's pages and, where their layout is unusual, by SQLite. For a damaged table, add a note and return
    None.

    take: returns columns of `dtypes`, which may differ in length from the batch.
    followers: the tables whose rows will be added, so that there is room for them.
    """
    if trace.reads_pages:
        try:
            expected = expected_rows(trace, source.table, followers)
            return _gather(trace.limits, _page_batches(trace, source), dtypes, take, expected)
        except UnusualLayoutError:
            pass  # SQLite reports what is wrong (if anything is) below
        except sqlite3.DatabaseError as error:
            trace.explain(error)
    try:
        return _gather(trace.limits, _sqlite_batches(trace, source), dtypes, take, 0)
    except (sqlite3.DatabaseError, OverflowError, UnicodeDecodeError) as error:
        trace.add_loss(_loss(source.table, f"is damaged ({trace.explain(error)})"))
        return None


def table_sql(trace: Trace, table: str) -> str:
    """Return the table as SQL that reads it in file order. An index, which anyone can add, could have another order.

    The trace's limits start again for the next read. Raises DatabaseError for a table with shared pages.
    """
    with trace.lock:
        if table not in trace.shared:
            query = "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?"
            roots = [root for (root,) in trace.connection.execute(query, (table,)) if isinstance(root, int)]
            trace.shared[table] = any(has_shared_pages(trace.path, root) for root in roots)
        if trace.shared[table]:
            raise sqlite3.DatabaseError("it refers to a page of the file twice")
        trace.limits.begin()
    return f"{quote(table)} NOT INDEXED"


def refuse_shared_pages(trace: Trace) -> None:
    """Raise TraceDamagedError where a table refers to a page of the file twice, because reading might never end."""
    for table in trace.columns:
        try:
            table_sql(trace, table)
        except sqlite3.DatabaseError as error:
            raise TraceDamagedError(
                f"The table {table} of {trace.path} is damaged: {trace.explain(error)}.",
                "Export the report again.",
            ) from error


def expected_rows(trace: Trace, table: str, followers: Sequence[str] = ()) -> int:
    """Return how many rows a table and its followers have where each was written once; 0 where that cannot be told.

    Raises UnusualLayoutError and DatabaseError because of the table itself.
    """
    return _largest_rowid(trace, table) + sum(_room_for(trace, follower) for follower in followers)


def _largest_rowid(trace: Trace, table: str) -> int:
    with trace.lock:
        query = f"SELECT max({_rowid(trace, table)}) FROM {quote(table)} NOT INDEXED"
        (last,) = trace.connection.execute(query).fetchone()
    return min(max(last, 0), trace.bytes // _LEAST_ROW_BYTES) if isinstance(last, int) else 0


def _room_for(trace: Trace, table: str) -> int:
    """Return how many rows a table may add; 0 where that cannot be told."""
    stored_table = trace.find(table)
    try:
        return 0 if stored_table is None else _largest_rowid(trace, stored_table)
    except UnusualLayoutError:
        return 0
    except sqlite3.DatabaseError as error:
        trace.explain(error)
        return 0


def _rowid(trace: Trace, table: str) -> str:
    """Return a name for the rowid that is not the name of a column."""
    taken = {name.lower() for name in trace.columns[table]}
    free = next((name for name in ("rowid", "_rowid_", "oid") if name not in taken), None)
    if free is None:
        raise UnusualLayoutError
    return free


def _gather(
    limits: Confinement,
    batches: Iterator[Batch],
    dtypes: Mapping[str, type],
    take: Callable[[Batch], Batch],
    expected: int,
) -> dict[str, GrowingColumn]:
    columns = {name: GrowingColumn(np.empty(0, dtype)) for name, dtype in dtypes.items()}
    for batch in batches:
        if limits.cancelled.is_set():
            raise CancelledError
        rows = len(next(iter(batch.values())))
        for name, values in take(batch).items():
            # Room for all rows, but only for a column that has most of them: what is reserved will be used for other
            # arrays later, and then counts as memory of the process.
            if len(columns[name]) == 0 and 2 * len(values) > rows:
                columns[name] = GrowingColumn(np.empty(0, dtypes[name]), expected)
            columns[name].append(values)
    return columns


def _page_batches(trace: Trace, source: TableSource) -> Iterator[Batch]:
    root, positions = page_positions(trace, source)
    absent = [name for name, column in zip(source.names, source.columns, strict=True) if column is None]
    present = [name for name, column in zip(source.names, source.columns, strict=True) if column is not None]
    texts: dict[int, str] | None = None
    for batch in scan_table(trace.path, root, positions):
        columns = dict(zip(present, batch[:-1], strict=True))
        columns |= dict.fromkeys(absent, np.full(batch.shape[1], NULL))
        if source.text is not None:
            if texts is None:  # this comes after the first batch, which has shown that the layout of the table is usual
                texts = _texts_by_rowid(trace, source.table, source.text)
            columns[TEXT] = np.array([texts.pop(key, None) for key in batch[-1].tolist()], dtype=object)
        yield columns
    if texts:  # the texts of rows that are not in the pages
        raise UnusualLayoutError


def _texts_by_rowid(trace: Trace, table: str, column: str) -> dict[int, str]:
    name = quote(column)
    query = f"SELECT {_rowid(trace, table)}, {name} FROM {table_sql(trace, table)} WHERE typeof({name}) = 'text'"
    texts: dict[str, str] = {}  # many rows have the same text, which is kept once
    with trace.lock:
        return {row: texts.setdefault(text, text) for row, text in trace.connection.execute(query)}


def page_positions(trace: Trace, source: TableSource) -> tuple[int, list[int]]:
    """Return the root page of the table and the positions of the wanted columns in its rows.

    Raises UnusualLayoutError where rows may not hold the columns as they are: with generated columns, or with a key
    that is the rowid.
    """
    with trace.lock:
        root = trace.connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", (source.table,)
        ).fetchone()
        info = trace.connection.execute(f"PRAGMA table_xinfo({quote(source.table)})").fetchall()
    where = {row[1]: row[0] for row in info}
    wanted = [column for column in source.columns if column is not None]
    keys = {row[1] for row in info if row[5]}
    if root is None or not isinstance(root[0], int) or any(row[6] for row in info) or keys & set(wanted):
        raise UnusualLayoutError
    return root[0], [where[column] for column in wanted]


def _sqlite_batches(trace: Trace, source: TableSource) -> Iterator[Batch]:
    parts = [str(NULL) if column is None else _as_integer(quote(column)) for column in source.columns]
    width = len(parts)
    if source.text is not None:
        name = quote(source.text)
        parts.append(f"CASE typeof({name}) WHEN 'text' THEN {name} END")
    # The lock is never held over a yield: a generator that is left early ends in whatever thread collects it, and that
    # thread does not own the lock and could not release it.
    with trace.lock:
        cursor = trace.connection.execute(f"SELECT {', '.join(parts)} FROM {table_sql(trace, source.table)}")
    while True:
        with trace.lock:
            rows = cursor.fetchmany(_ROWS)
        if not rows:
            return
        numbers = rows if source.text is None else [row[:-1] for row in rows]
        flat = np.fromiter(itertools.chain.from_iterable(numbers), dtype=np.int64, count=width * len(rows))
        batch: Batch = dict(zip(source.names, np.ascontiguousarray(flat.reshape(-1, width).T), strict=True))
        if source.text is not None:
            batch[TEXT] = np.array([row[-1] for row in rows], dtype=object)
        yield batch


def read_integers(
    trace: Trace, table: str, required: dict[str, str], optional: dict[str, str] | None = None
) -> pd.DataFrame | None:
    """Return the integer columns of `table`, renamed (nsys name -> our name), in file order.

    A value that is absent or null is NULL. Return None when the table does not exist; when it is damaged or lacks a
    required column, add a note as well.
    """
    source = find_columns(trace, table, required, optional)
    if source is None:
        return None
    columns = read_columns(trace, source, dict.fromkeys(source.names, np.int64), lambda batch: batch)
    return None if columns is None else pd.DataFrame(columns, copy=False)


def _as_integer(column: str) -> str:
    """Return SQL for a number as an integer, and NULL for anything else. SQLite alone would make 0 of any text."""
    return f"CASE WHEN typeof({column}) IN ('integer', 'real') THEN CAST({column} AS INTEGER) ELSE {NULL} END"


def read_rows(trace: Trace, table: str, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """Return the rows of a small table, with None for absent columns and blobs. A damaged table gives a note."""
    stored_table = trace.find(table)
    if stored_table is None:
        return []
    present = {name.lower(): name for name in trace.columns[stored_table]}
    there = [quote(present[name.lower()]) if name.lower() in present else None for name in columns]
    parts = ["NULL" if name is None else f"CASE typeof({name}) WHEN 'blob' THEN NULL ELSE {name} END" for name in there]
    try:
        with trace.lock:
            return trace.connection.execute(
                f"SELECT {', '.join(parts)} FROM {table_sql(trace, stored_table)}"
            ).fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        trace.add_loss(_loss(table, f"is damaged ({trace.explain(error)})"))
        return []


def read_different(trace: Trace, table: str, column: str, longest: int) -> list[str]:
    """Return the different texts of a column, of up to `longest` characters each; none where the column is missing."""
    stored_table = trace.find(table)
    named = {} if stored_table is None else {name.lower(): quote(name) for name in trace.columns[stored_table]}
    name = named.get(column.lower())
    if stored_table is None or name is None:
        return []
    chosen = f"typeof({name}) = 'text' AND length({name}) <= {longest:d}"
    try:
        with trace.lock:
            query = f"SELECT DISTINCT {name} FROM {table_sql(trace, stored_table)} WHERE {chosen}"
            rows = trace.connection.execute(query).fetchall()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        trace.add_loss(_loss(table, f"is damaged ({trace.explain(error)})"))
        return []
    return [text for (text,) in rows]


def read_with_texts(
    trace: Trace, table: str, text: str, required: dict[str, str], optional: dict[str, str]
) -> tuple[pd.DataFrame, list[str | None]] | None:
    """Return the columns as read_integers does, and the texts of the column `text` (None where a row has none).

    Both come from one pass: in two passes, SQLite could choose another order for each.
    """
    source = find_columns(trace, table, required, optional)
    if source is None:
        return None
    named = {name.lower(): name for name in trace.columns[source.table]}
    dtypes = dict.fromkeys((*source.names, TEXT), np.int64) | {TEXT: object}
    read = replace(source, text=named.get(text.lower()))
    columns = read_columns(trace, read, dtypes, lambda batch: batch)
    if columns is None:
        return None
    texts = columns.pop(TEXT).tolist()
    frame = pd.DataFrame(columns, copy=False)
    return frame, texts or [None] * len(frame)


def _loss(table: str, what: str) -> Loss:
    return make_loss("table-unreadable", table=table, problem=what)


def has_shared_pages(path: Path, root: int) -> bool:
    """Return whether the table at the page `root` contains a page twice. SQLite reports any other damage."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        head = os.pread(descriptor, 20, 0)
        size = int.from_bytes(head[16:18], "big")
        size = 65536 if size == 1 else size
        if size < 512:
            return False
        seen = np.zeros(os.fstat(descriptor).st_size // size + 1, dtype=bool)
        level = [root]
        for _ in range(_MOST_DEPTH):
            below: list[int] = []
            for page in level:
                if not 0 < page < len(seen):
                    continue
                if seen[page]:
                    return True
                seen[page] = True
                if os.pread(descriptor, 1, (page - 1) * size)[0] in _INTERIOR:
                    below += _children(os.pread(descriptor, size, (page - 1) * size))
            level = below
    finally:
        os.close(descriptor)
    return False


def _children(raw: bytes) -> list[int]:
    """Return the pages that a page refers to, where SQLite would expect its pointers."""
    page = np.frombuffer(raw, dtype=np.uint8)
    cells = min((raw[3] << 8) | raw[4], (len(raw) - _POINTERS) // 2)
    at = page[_POINTERS : _POINTERS + 2 * cells].view(">u2").astype(np.int64) & (len(raw) - 1)
    at = at[at + 4 <= len(raw)]
    digits = page[at[:, None] + np.arange(4)].astype(np.int64)
    left: list[int] = (digits << np.array([24, 16, 8, 0])).sum(axis=1).tolist()
    return [*left, int.from_bytes(raw[8:12], "big")]
