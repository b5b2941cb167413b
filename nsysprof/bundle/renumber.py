"""Replace process and thread ids by small numbers. Equality and order are kept; the original numbers are not."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from nsysprof.trace.open import quote

_LOW = 0xFFFFFF  # globalTid is <HW:8><VM:8><PID:24><TID:24>, highest bits first
_UNKNOWN = frozenset({0, _LOW})  # no process, and the value for "any"


class Renumbering:
    """One numbering for processes and threads, because the main thread of a process has the number of its process."""

    def __init__(self, ids: Iterable[int]) -> None:
        ordered = sorted(set(ids) - _UNKNOWN)
        self._new = {old: new for new, old in enumerate(ordered, start=1)}

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
    found: set[int] = set()
    for table, column in global_columns:
        for (value,) in connection.execute(_distinct(table, column)):
            found |= {(value >> 24) & _LOW, value & _LOW}
    for table, column in process_columns:
        found |= {value for (value,) in connection.execute(_distinct(table, column))}
    return found


def _distinct(table: str, column: str) -> str:
    name = quote(column)
    return f"SELECT DISTINCT {name} FROM {quote(table)} WHERE typeof({name}) = 'integer'"
