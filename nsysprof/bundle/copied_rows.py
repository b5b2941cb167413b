"""Choose, renumber and copy the rows of a trace.

A crop keeps what processes did while a chosen range was open. Process and thread ids become small numbers; equality and
order are kept. Tables whose wanted columns are numbers are copied inside SQLite, which takes a seventh of the time that
Python takes. The source is untrusted: while it is read, the connection may do nothing but read plain tables and write
into its own file, within the limits of the source's trace.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from nsysprof.arrays import merge_spans
from nsysprof.errors import UsageError
from nsysprof.trace.confine import Confinement
from nsysprof.trace.open import quote

_PROCESS = ~0xFFFFFF  # the bits of a globalTid that name its process
_RANGES = (59, 60, 70, 71)  # NVTX event types: push/pop and start/end, and the same from a text file
_MARGIN_NS = 1_000_000_000  # samples from before and after, from which the sampling period is measured

Keep = Callable[[tuple[Any, ...]], bool]


@dataclass(frozen=True)
class Crop:
    """What stays in a cropped trace: windows of time, and the calls inside them."""

    # Disjoint (start, end) in ns by process, ascending.
    windows: dict[int, list[tuple[int, int]]]
    # (process, correlationId) of the calls inside the windows.
    launched: frozenset[tuple[int, int]]
    # When the last work of these calls ended.
    end_ns: int

    def filter(self, table: str, columns: Sequence[str]) -> tuple[tuple[str, ...], Keep] | None:
        """Return the columns to look at, and a test whether a row stays; None for a table that is not cropped."""
        has = set(columns)
        if table.startswith(("TARGET_INFO", "META_DATA", "EXPORT_META", "ENUM_", "DIAGNOSTIC", "ANALYSIS")):
            has = set()
        if table == "NVTX_EVENTS" and has >= {"start", "end", "eventType", "globalTid"}:
            return ("start", "end", "eventType", "globalTid"), self._is_range_inside
        if {"globalPid", "correlationId"} <= has and "start" in has and "CUPTI_ACTIVITY" in table:
            return ("globalPid", "correlationId"), lambda row: (row[0], row[1]) in self.launched
        if "GPU_MEMORY" in table and {"start", "globalPid"} <= has:
            # Everything up to the last range, because a range may use memory that was allocated before it.
            return (
                ("start", "globalPid"),
                lambda row: (
                    row[0] is None or row[0] <= max((end for _, end in self.windows.get(row[1], ())), default=-(2**62))
                ),
            )
        if "timestamp" in has:
            first = min(start for windows in self.windows.values() for start, _ in windows)
            low, high = first - _MARGIN_NS, self.end_ns + _MARGIN_NS
            return ("timestamp",), lambda row: row[0] is None or low <= row[0] <= high
        if {"start", "globalTid"} <= has:
            return ("start", "end" if "end" in has else "start", "globalTid"), self._is_inside
        return None

    def _is_inside(self, row: tuple[Any, ...]) -> bool:
        start, end, thread = row
        return thread is not None and start is not None and self._holds(thread & _PROCESS, start, end)

    def _is_range_inside(self, row: tuple[Any, ...]) -> bool:
        """Return whether a row stays: ranges and marks inside, and names of domains, categories and threads."""
        start, end, kind, thread = row
        if kind not in (*_RANGES, 34):
            return True
        return self._is_inside((start, start if kind == 34 else end, thread))

    def _holds(self, process: int, start: int, end: int | None) -> bool:
        windows = self.windows.get(process, [])
        index = bisect_right(windows, (start, 2**63)) - 1
        return index >= 0 and (start if end is None else end) <= windows[index][1]


def plan_crop(source: sqlite3.Connection, patterns: Iterable[str]) -> Crop:
    """Return what belongs to ranges that match one of the shell patterns. Raises UsageError when no range does."""
    wanted = list(patterns)
    windows = _windows(source, wanted)
    if not windows:
        raise UsageError(
            f"No range of the trace is named {' or '.join(wanted)}.", "nsysprof analyze lists the names; * and ? match."
        )
    merged = {process: merge_spans(spans) for process, spans in windows.items()}
    crop = Crop(merged, frozenset(), max(window[-1][1] for window in merged.values()))
    launched: set[tuple[int, int]] = set()
    if {"start", "end", "globalTid", "correlationId"} <= _columns(source, "CUPTI_ACTIVITY_KIND_RUNTIME"):
        calls = source.execute("SELECT start, end, globalTid, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME")
        launched = {(row[2] & _PROCESS, row[3]) for row in calls if row[3] is not None and crop._is_inside(row[:3])}
    ended = crop.end_ns
    for table in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE"):
        name = f"CUPTI_ACTIVITY_KIND_{table}"
        if {"end", "globalPid", "correlationId"} <= _columns(source, name):
            rows = source.execute(f"SELECT end, globalPid, correlationId FROM {quote(name)}")
            ended = max([ended, *(row[0] for row in rows if row[0] is not None and row[1:] in launched)])
    return Crop(merged, frozenset(launched), ended)


def _windows(source: sqlite3.Connection, patterns: list[str]) -> dict[int, list[tuple[int, int]]]:
    columns = _columns(source, "NVTX_EVENTS")
    if not columns >= {"start", "end", "eventType", "globalTid"}:
        return {}
    has_id = "textId" in columns
    texts = dict(source.execute("SELECT id, value FROM StringIds")) if has_id else {}
    selected = f"start, end, eventType, globalTid, {'textId' if has_id else 'NULL'}, "
    selected += "text" if "text" in columns else "NULL"
    windows: dict[int, list[tuple[int, int]]] = {}
    for start, end, kind, thread, text_id, text in source.execute(f"SELECT {selected} FROM NVTX_EVENTS"):
        name = texts.get(text_id) if text is None else text
        whole = all(isinstance(value, int) for value in (start, end, thread))
        if kind in _RANGES and whole and isinstance(name, str) and any(fnmatchcase(name, p) for p in patterns):
            windows.setdefault(thread & _PROCESS, []).append((start, end))
    return windows


def _columns(source: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in source.execute(f"PRAGMA table_xinfo({quote(table)})") if row[6] == 0}


_LOW = 0xFFFFFF  # globalTid is <HW:8><VM:8><PID:24><TID:24>, highest bits first
_UNKNOWN = frozenset({0, _LOW})  # no process, and the value for "any"


class Renumbering:
    """One numbering for processes and threads, because the main thread of a process has the number of its process."""

    def __init__(self, ids: Iterable[int]) -> None:
        ordered = sorted(set(ids) - _UNKNOWN)
        self._new = {old: new for new, old in enumerate(ordered, start=1)}

    @property
    def numbers(self) -> dict[int, int]:
        """Return the new number of each process and thread, by the old one."""
        return dict(self._new)

    def process(self, old: int | None) -> int | None:
        return old if old is None else self._new.get(old, old if old in _UNKNOWN else None)

    def global_id(self, old: int | None) -> int | None:
        """Return the id with both numbers replaced. The bits of machine and virtual machine are kept."""
        if old is None:
            return None
        process, thread = (old >> 24) & _LOW, old & _LOW
        high = (old >> 48) << 48  # arithmetic shift: negative ids occur and stay negative
        return (
            high
            | self._new.get(process, process & -(process in _UNKNOWN)) << 24
            | self._new.get(thread, thread & -(thread in _UNKNOWN))
        )


def collect_ids(
    connection: sqlite3.Connection,
    global_columns: Iterable[tuple[str, str]],
    process_columns: Iterable[tuple[str, str]],
) -> set[int]:
    """Return every process and thread number in the given (table, column) pairs."""
    ids: set[int] = set()
    for table, column in global_columns:
        for (value,) in connection.execute(_distinct(table, column)):
            ids |= {(value >> 24) & _LOW, value & _LOW}
    for table, column in process_columns:
        ids |= {value for (value,) in connection.execute(_distinct(table, column))}
    return ids


def _distinct(table: str, column: str) -> str:
    name = quote(column)
    return f"SELECT DISTINCT {name} FROM {quote(table)} WHERE typeof({name}) = 'integer'"


_STEPS = 20_000
# The most different ids of a column to replace. SQLite compares each cell with all of them.
_MOST_IDS = 64
_MOST_SETS = 100_000
_SCHEMA = "source"
_READING = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_TRANSACTION))


@dataclass(frozen=True)
class CopiedColumn:
    """A column of numbers: those of its cells that are no integers become NULL.

    new: what replaces each value; None to keep all values.
    """

    name: str
    new: dict[int, int | None] | None = None

    def expression(self) -> tuple[str, list[int | None]]:
        """Return the column as SQL, and its parameters."""
        name = quote(self.name)
        is_integer = f"typeof({name}) = 'integer'"
        if self.new is None:
            return f"CASE WHEN {is_integer} THEN {name} END", []
        if not self.new:
            return "NULL", []
        replaced = " ".join(["WHEN ? THEN ?"] * len(self.new))
        # The sign removes the column's affinity, which could change what it is compared with.
        return f"CASE WHEN {is_integer} THEN CASE +{name} {replaced} END END", [
            value for pair in self.new.items() for value in pair
        ]


def open_target(path: Path, source: Path) -> sqlite3.Connection:
    """Return a connection to the new file `path`, to which the source is attached for reading alone."""
    target = sqlite3.connect(f"{path.resolve().as_uri()}?mode=rwc", uri=True)
    try:
        target.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA secure_delete = ON;"
            "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;"
        )
        # immutable: as the trace itself is opened.
        target.execute(f"ATTACH ? AS {_SCHEMA}", (f"{source.resolve().as_uri()}?mode=ro&immutable=1",))
    except BaseException:
        target.close()
        raise
    return target


def detach_source(target: sqlite3.Connection) -> None:
    """Let the target no longer read the source. Nothing may be left to commit."""
    target.execute(f"DETACH {_SCHEMA}")


def different_sets(source: sqlite3.Connection, table: str, columns: Sequence[str]) -> list[set[int]] | None:
    """Return the different integers of each of the columns; None where there are too many combinations of them."""
    if not columns:
        return []
    cells = ", ".join(f"CASE WHEN typeof({quote(column)}) = 'integer' THEN {quote(column)} END" for column in columns)
    values_by_column: list[set[int]] = [set() for _ in columns]
    for count, row in enumerate(source.execute(f"SELECT DISTINCT {cells} FROM {quote(table)}")):
        if count >= _MOST_SETS:
            return None
        for values, cell in zip(values_by_column, row, strict=True):
            if cell is not None:
                values.add(cell)
    return values_by_column


def replace_ids(ids: set[int], convert: Callable[[Any], Any]) -> dict[int, int | None] | None:
    """Return what replaces each of the ids; None where these are too many to be replaced by SQLite."""
    return {id_: convert(id_) for id_ in sorted(ids)} if len(ids) <= _MOST_IDS else None


def copy_inside(target: sqlite3.Connection, limits: Confinement, table: str, columns: Sequence[CopiedColumn]) -> int:
    """Copy all rows of the source's table into the target's table of the same name, and return how many there are."""
    expressions = [column.expression() for column in columns]
    selected = ", ".join(sql for sql, _ in expressions)
    values = [value for _, parameters in expressions for value in parameters]
    target.set_authorizer(limits.authorizer(_is_allowed))
    target.set_progress_handler(limits.step, _STEPS)
    try:
        statement = f"INSERT INTO main.{quote(table)} SELECT {selected} FROM {_SCHEMA}.{quote(table)}"
        return target.execute(statement, values).rowcount
    finally:
        target.set_progress_handler(None, 0)
        target.set_authorizer(None)


def _is_allowed(action: int, first: str | None, second: str | None, schema: str | None, inside: str | None) -> bool:
    if inside is not None:  # a view or a trigger, whatever the schema of the source calls it
        return False
    if action == sqlite3.SQLITE_INSERT:
        return schema == "main"
    return action in _READING or (action == sqlite3.SQLITE_FUNCTION and second == "typeof")
