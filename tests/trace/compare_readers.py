"""Read the tables of a trace from its pages and by SQLite, and say where both differ."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from nsysprof.native import load
from nsysprof.trace.columns import TableSource, _as_integer, _rowid, page_positions
from nsysprof.trace.leaf_pages import UnusualLayoutError, scan_table
from nsysprof.trace.open import Trace, open_trace, quote
from nsysprof.trace.schema import Tables
from nsysprof.trace.tables import read_tables
from tests.builders.damaged_traces import READ, READ_COLUMNS


def compare_readers(path: Path) -> str:
    """Read every table from the file's pages and by plain SQLite, then all of them both ways; the first difference."""
    with open_trace(path) as trace:
        for table in filter(None, map(trace.find, READ)):
            difference = compare_table(trace, table)
            if difference:
                return f"{table}: {difference}"
    found = []
    by_default = load.is_wanted
    for compiled in (True, False):
        load.is_wanted = lambda _unit, compiled=compiled: compiled
        try:
            with open_trace(path) as trace:
                found.append(comparable(read_tables(trace)))
        finally:
            load.is_wanted = by_default
    for name, ours in found[0].items():
        if ours != found[1][name]:
            return f"{name}: pages {str(ours)[:500]}, SQLite {str(found[1][name])[:500]}"
    return ""


def compare_table(trace: Trace, table: str) -> str:
    """How the rows on the table's pages, where those are accepted, differ from what an unguarded SQLite reads."""
    names = tuple(name for name in trace.columns[table] if name in READ_COLUMNS) or trace.columns[table]
    try:
        root, positions = page_positions(trace, TableSource(table, names, names))
        batches = [batch.T.tolist() for batch in scan_table(trace.path, root, positions)]
        key = _rowid(trace, table)
    except (UnusualLayoutError, sqlite3.DatabaseError):
        return ""
    pages = [tuple(row) for batch in batches for row in batch]
    with closing(sqlite3.connect(f"{trace.path.as_uri()}?mode=ro&immutable=1", uri=True)) as plain:
        plain.text_factory = bytes
        parts = ", ".join(_as_integer(quote(name)) for name in names)
        try:
            rows = plain.execute(f"SELECT {parts}, {key} FROM {quote(table)} NOT INDEXED").fetchmany(len(pages) + 1)
        except (sqlite3.DatabaseError, OverflowError) as error:
            return f"{len(pages)} rows on pages; SQLite: {error}"
    if rows == pages:
        return ""
    differing = [pair for pair in zip(pages, rows, strict=False) if pair[0] != pair[1]]
    return f"{len(pages)} rows on pages, {len(rows)} of SQLite; first that differ: {differing[:1]} of {names}"


def comparable(tables: Tables) -> dict[str, object]:
    """All that was read as plain values, without the codes that each reader gives out in its own order."""
    work, calls = tables.work, tables.calls
    values: dict[str, object] = {
        "work": [array.tolist() for array in (work.start_ns, work.duration_ns, tables.launch, work.bytes)],
        "variants": work.variants[work.variant].tolist(),
        "copies": work.copy_kind.tolist(),
        "counts": (work.kernels, work.dropped, work.unsized, sorted(tables.recorded)),
        "strings": list(tables.strings.items()),
        "devices": tables.devices,
        "facts": (tables.capture_facts, tables.export_facts, tables.diagnostics),
        "notes": sorted(note.text for note in tables.notes),
    }
    if calls is not None:
        values["calls"] = [array.tolist() for array in (calls.start_ns, calls.duration_ns)]
        values["call variants"] = calls.variants[calls.variant].tolist()
    for name in ("ranges", "memory"):
        table = getattr(tables, name)
        values[name] = None if table is None else table.to_dict("list")
    return {"calls": None, "call variants": None, **values}
