"""Read the mangled names of a trace's kernels, which are needed to recognise the kernels of another tool."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from nsysprof.errors import TraceError
from nsysprof.trace.columns import table_sql
from nsysprof.trace.open import open_trace, quote
from nsysprof.trace.table_readers.devices import cut_name

_TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"


def read_symbols(path: Path) -> dict[str, frozenset[str]]:
    """Return the mangled names of each kernel by the name that analyses use (demangled, else short).

    The result is empty where the trace has no mangled names. One name can stand for several symbols. Raises TraceError
    as open_trace does.
    """
    symbols_by_name: dict[str, set[str]] = {}
    with open_trace(path) as trace:
        table, strings = trace.find(_TABLE), trace.find("StringIds")
        present = {} if table is None else {column.lower(): quote(column) for column in trace.columns[table]}
        if table is None or strings is None or not {"demangledname", "shortname", "mangledname"} <= present.keys():
            return {}
        name = f"COALESCE({present['demangledname']}, {present['shortname']})"
        try:
            query = f"SELECT DISTINCT {name}, {present['mangledname']} FROM {table_sql(trace, table)}"
            pairs = trace.connection.execute(query).fetchall()
            ids = sorted({text_id for pair in pairs for text_id in pair if isinstance(text_id, int)})
            texts = _texts(trace.connection, table_sql(trace, strings), ids)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise TraceError(
                f"The kernels of {path} cannot be read: {trace.explain(error)}.", "Export the report again."
            ) from error
    for name_id, symbol_id in pairs:
        if name_id in texts and symbol_id in texts:
            symbols_by_name.setdefault(texts[name_id], set()).add(texts[symbol_id])
    return {name: frozenset(symbols) for name, symbols in symbols_by_name.items()}


def _texts(connection: sqlite3.Connection, strings: str, ids: list[int]) -> dict[int, str]:
    texts: dict[int, object] = {}
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        marks = ", ".join("?" * len(some))
        texts.update(connection.execute(f"SELECT id, value FROM {strings} WHERE id IN ({marks})", some).fetchall())
    return {number: cut_name(text) for number, text in texts.items() if isinstance(text, str)}
