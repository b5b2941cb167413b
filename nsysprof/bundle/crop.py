"""Decide which rows of a trace belong to the chosen ranges: what their processes did while such a range was open."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from nsysprof.arrays import merge_spans
from nsysprof.errors import UsageError
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
    merged = {process: merge_spans(found) for process, found in windows.items()}
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
