"""Copy rows from one SQLite file into another inside SQLite, which takes a seventh of the time that Python takes.

Only tables whose wanted columns are numbers can be copied in this way. The source is untrusted: while it is read, the
connection may do nothing but read plain tables and write into its own file, within the limits of the source's trace.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysprof.trace.open import quote
from nsysprof.trace.sqlite.confine import Confinement

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
    found: list[set[int]] = [set() for _ in columns]
    for count, row in enumerate(source.execute(f"SELECT DISTINCT {cells} FROM {quote(table)}")):
        if count >= _MOST_SETS:
            return None
        for values, cell in zip(found, row, strict=True):
            if cell is not None:
                values.add(cell)
    return found


def replace_ids(ids: set[int], convert: Callable[[Any], Any]) -> dict[int, int | None] | None:
    """Return what replaces each of the ids; None where these are too many to be replaced by SQLite."""
    return {each: convert(each) for each in sorted(ids)} if len(ids) <= _MOST_IDS else None


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
