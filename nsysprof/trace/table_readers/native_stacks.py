"""Read the stacks of native functions in slow CUDA calls (`--cudabacktrace`), and the symbols and grids of kernels."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysprof.errors import TraceError
from nsysprof.trace.columns import table_sql
from nsysprof.trace.open import Trace, open_trace, quote
from nsysprof.trace.table_readers.gpus import cut_name

_CHAINS, _CALLS = "CUDA_CALLCHAINS", "CUPTI_ACTIVITY_KIND_RUNTIME"
# Limits on frames and calls: more than nsys records, and they bound how much a foreign file can make us hold.
_MOST_FRAMES, _MOST_CALLS = 128, 2_000_000
_TABLE = "CUPTI_ACTIVITY_KIND_KERNEL"
_GRID = tuple(f"{what}{axis}" for what in ("grid", "block") for axis in "XYZ")
_MOST_KERNELS = 1_000_000


@dataclass(frozen=True)
class NativeStack:
    """Functions and the files that contain them, the innermost first. Functions without a symbol are left out."""

    frames: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class NativeStacks:
    """The calls of CUDA that have a stack."""

    # Start and end (ns), globalTid and position in `stacks` of each.
    calls: tuple[tuple[int, int, int, int], ...]
    stacks: tuple[NativeStack, ...]


def read_native_stacks(path: Path) -> NativeStacks | None:
    """Return the stacks of a trace; None where it has none, or where they cannot be read.

    They only add locations to findings, so a damaged table of stacks affects nothing else.
    """
    with open_trace(path) as trace:
        try:
            return _read(trace)
        except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
            trace.explain(error)
            return None


def _read(trace: Trace) -> NativeStacks | None:
    chains, calls, strings = (trace.find(name) for name in (_CHAINS, _CALLS, "StringIds"))
    if chains is None or calls is None or strings is None:
        return None
    chain, call = ({name.lower(): quote(name) for name in trace.columns[table]} for table in (chains, calls))
    if not {"id", "symbol", "module", "stackdepth"} <= chain.keys():
        return None
    if not {"start", "end", "globaltid", "callchainid"} <= call.keys():
        return None
    unresolved = f"AND NOT coalesce({chain['unresolved']}, 0)" if "unresolved" in chain else ""
    frames: dict[int, list[tuple[str, str]]] = {}
    query = (
        f"SELECT c.{chain['id']}, s.value, m.value FROM {_aliased(trace, chains, 'c')} "
        f"JOIN {_aliased(trace, strings, 's')} ON s.id = c.{chain['symbol']} "
        f"LEFT JOIN {_aliased(trace, strings, 'm')} ON m.id = c.{chain['module']} "
        f"WHERE typeof(s.value) = 'text' AND c.{chain['stackdepth']} < {_MOST_FRAMES} {unresolved} "
        f"ORDER BY c.{chain['id']}, c.{chain['stackdepth']}"
    )
    for number, symbol, module in trace.connection.execute(query):
        if isinstance(number, int):
            own = frames.setdefault(number, [])
            own.append((cut_name(symbol), cut_name(module) if isinstance(module, str) else ""))
    query = (
        f"SELECT {call['start']}, {call['end']}, {call['globaltid']}, {call['callchainid']} "
        f"FROM {table_sql(trace, calls)} WHERE {call['callchainid']} IS NOT NULL LIMIT {_MOST_CALLS}"
    )
    place: dict[NativeStack, int] = {}
    rows = []
    for row in trace.connection.execute(query):
        start, end, tid, number = row
        if all(isinstance(cell, int) for cell in row) and number in frames:
            rows.append((start, end, tid, place.setdefault(NativeStack(tuple(frames[number])), len(place))))
    return NativeStacks(tuple(rows), tuple(place)) if rows else None


def _aliased(trace: Trace, table: str, alias: str) -> str:
    """Return the table as SQL under another name; it is checked as table_sql does."""
    table_sql(trace, table)
    return f"{quote(table)} AS {alias}"


def read_symbols(path: Path) -> dict[str, frozenset[str]]:
    """Return the mangled names of each kernel by the name that analyses use (demangled, else short).

    The result is empty where the trace has no mangled names. One name can stand for several symbols. Raises TraceError
    as open_trace does.
    """
    symbols_by_name: dict[str, set[str]] = {}
    for name, symbol in _read_kernels(path, ""):
        symbols_by_name.setdefault(name, set()).add(symbol)
    return {name: frozenset(symbols) for name, symbols in symbols_by_name.items()}


def read_launches(path: Path) -> list[tuple[str, str, str, str, int, int]]:
    """Return name, symbol, grid and block of the launches of a trace, with their number and time (ns), the most first.

    Grid and block are texts as ncu writes them: `(64, 32, 1)`.

    The result is empty where the trace has no mangled names. Raises TraceError as open_trace does.
    """
    columns = ", ".join((*_GRID, "COUNT(*)", "SUM(end - start)"))
    launches = [
        (name, symbol, f"({cells[0]}, {cells[1]}, {cells[2]})", f"({cells[3]}, {cells[4]}, {cells[5]})", *cells[6:])
        for name, symbol, *cells in _read_kernels(path, columns, "WHERE end > start GROUP BY 1, 2, 3, 4, 5, 6, 7, 8")
        if all(isinstance(cell, int) for cell in cells)
    ]
    return sorted(launches, key=lambda launched: -launched[5])


def _read_kernels(path: Path, more: str, rest: str = "") -> Iterator[tuple[Any, ...]]:
    """Yield name and mangled name of each kernel of a trace, and more columns of its table, each combination once."""
    with open_trace(path) as trace:
        table, strings = trace.find(_TABLE), trace.find("StringIds")
        present = {} if table is None else {column.lower(): quote(column) for column in trace.columns[table]}
        wanted = {"demangledname", "shortname", "mangledname"}
        wanted |= {name.lower() for name in _GRID} if more else set()
        if table is None or strings is None or not wanted <= present.keys():
            return
        name = f"COALESCE({present['demangledname']}, {present['shortname']})"
        columns = f"{name}, {present['mangledname']}" + (f", {more}" if more else "")
        try:
            query = f"SELECT DISTINCT {columns} FROM {table_sql(trace, table)} {rest} LIMIT {_MOST_KERNELS}"
            rows = trace.connection.execute(query).fetchall()
            ids = sorted({text_id for row in rows for text_id in row[:2] if isinstance(text_id, int)})
            texts = _texts(trace.connection, table_sql(trace, strings), ids)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise TraceError(
                f"The kernels of {path} cannot be read: {trace.explain(error)}.", "Export the report again."
            ) from error
    for name_id, symbol_id, *cells in rows:
        if name_id in texts and symbol_id in texts:
            yield texts[name_id], texts[symbol_id], *cells


def _texts(connection: sqlite3.Connection, strings: str, ids: list[int]) -> dict[int, str]:
    texts: dict[int, object] = {}
    for start in range(0, len(ids), 500):
        some = ids[start : start + 500]
        marks = ", ".join("?" * len(some))
        texts.update(connection.execute(f"SELECT id, value FROM {strings} WHERE id IN ({marks})", some).fetchall())
    return {number: cut_name(text) for number, text in texts.items() if isinstance(text, str)}
