"""Open an untrusted SQLite file so that only its plain tables can be read, within limits set by the file's size."""

from __future__ import annotations

import re
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The most processor time that reading may take, all statements and threads together: far more than any real trace needs
# (SQLite reads 50 MB/s).
_LEAST_SECONDS, _BYTES_PER_SECOND = 10.0, 4_000_000
# SQLite's virtual machine runs this many steps between two looks at the clock: a hundred rows, whose texts may all be
# megabytes.
_STEPS = 2_000
# The most text that a scan may return: the size of the file, times a factor, plus a constant. UTF-16 text grows when it
# is decoded, and several scans may share a limit.
_MOST_TEXT, _FREE_TEXT = 8, 64 << 20
_LONGEST_TEXT = 1 << 30
_READING = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION))
_PRAGMAS = frozenset(("table_info", "table_xinfo", "trusted_schema"))
_DENIAL = re.compile(r"^not authorized|^access to .* is prohibited$", re.DOTALL)


class Confinement:
    """The limits of one file, shared by all who read it. `begin` announces the next statement.

    Only the thread's processor time counts, so that a slow disk or a suspended machine does not use up the limit.
    """

    def __init__(self, file_bytes: int) -> None:
        self.cancelled = threading.Event()
        self._seconds = _LEAST_SECONDS + file_bytes / _BYTES_PER_SECOND
        self._most_text = _MOST_TEXT * file_bytes + _FREE_TEXT
        self._spent = 0.0
        # The processor time of each thread at its last look at the clock.
        self._since: dict[int, float] = {}
        self._text = 0
        self._is_exceeded = False
        self._is_denied = False

    def begin(self) -> None:
        """Begin the next statement of this thread: what the thread did since the one before does not count.

        Raises OperationalError, as SQLite does, where the limit of time is used up.
        """
        if self._is_exceeded:
            raise sqlite3.OperationalError("interrupted")
        self._since[threading.get_ident()] = time.thread_time()

    def step(self) -> bool:
        """Return whether SQLite must stop. SQLite calls this every few steps."""
        thread, now = threading.get_ident(), time.thread_time()
        self._spent += now - self._since.get(thread, now)
        self._since[thread] = now
        self._is_exceeded = self._spent > self._seconds
        return self._is_exceeded or self.cancelled.is_set()

    def decode(self, raw: bytes) -> str:
        """Return a text of the file. Raises DatabaseError when there is more text than a file of this size can hold."""
        self._text += len(raw)
        if self._text > self._most_text:
            raise sqlite3.DatabaseError("its rows hold the same text over and over")
        return raw.decode("utf-8", errors="replace")

    def authorizer(self, is_allowed: Callable[..., bool]) -> Callable[..., int]:
        """Return the function by which SQLite asks for permission before it runs a statement.

        is_allowed: gets an action and its four arguments, as sqlite3 passes them to an authorizer.
        """

        def authorize(*asked: Any) -> int:
            if is_allowed(*asked):
                return sqlite3.SQLITE_OK
            self._is_denied = True
            return sqlite3.SQLITE_DENY

        return authorize

    def explain(self, error: BaseException) -> str:
        """Return what an error of SQLite means. Raises KeyboardInterrupt where that was its hidden cause.

        SQLite runs our functions, and where Ctrl-C ends one of them, reports this as an error of its own: as an
        interruption from `step`, and as a denial from an authorizer that denied nothing.
        """
        text = str(error)
        if text == "interrupted":
            if not self._is_exceeded:
                raise KeyboardInterrupt from error
            return "reading it takes far longer than its size allows"
        if _DENIAL.search(text) and not self._is_denied:
            raise KeyboardInterrupt from error
        return text


class ConfinedConnections:
    """Connections to one file, one for each thread that asks for one.

    SQLite stores its last error per connection and not per statement. If a thread ends a statement while another reads
    a damaged table on the same connection, the error is lost, and the rows before the damage look like the whole table.
    """

    def __init__(self, path: Path, file_bytes: int) -> None:
        self.limits = Confinement(file_bytes)
        self._path, self._file_bytes = path, file_bytes
        self._by_thread: dict[int, sqlite3.Connection] = {}
        # Another statement of the thread may still be reading through these.
        self._former: list[sqlite3.Connection] = []

    def own(self) -> sqlite3.Connection:
        """Return the connection of this thread. Raises DatabaseError."""
        thread = threading.get_ident()
        if thread not in self._by_thread:
            self._by_thread[thread] = _connect_confined(self._path, self._file_bytes, self.limits)
        return self._by_thread[thread]

    def renew(self) -> None:
        """Give this thread a connection with an empty cache when it next asks for one."""
        former = self._by_thread.pop(threading.get_ident(), None)
        if former is not None:
            self._former.append(former)

    def close(self) -> None:
        """Close the connections of all threads, which must have ended or stopped reading."""
        for connection in (*self._by_thread.values(), *self._former):
            connection.close()


def _connect_confined(path: Path, file_bytes: int, limits: Confinement) -> sqlite3.Connection:
    """Open `path` read-only, so that only plain tables can be read.

    Views and virtual tables could run any code, without end.
    """
    # immutable: it takes no lock, writes no journal beside the user's file, and works on a read-only disk.
    connection = sqlite3.connect(path.resolve().as_uri() + "?mode=ro&immutable=1", uri=True, check_same_thread=False)
    connection.text_factory = limits.decode
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(_LONGEST_TEXT, max(1 << 20, 2 * file_bytes)))
    connection.set_progress_handler(limits.step, _STEPS)
    try:
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_TRUSTED_SCHEMA, False)
        # SQLite reads the schema at the first statement, so nothing of it has run before these settings apply.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        listed = connection.execute("SELECT name, type = 'table' AND rootpage > 0 FROM sqlite_master").fetchall()
        roots = "SELECT count(*) > count(DISTINCT rootpage) FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        if connection.execute(roots).fetchone()[0]:
            raise sqlite3.DatabaseError("two of its tables are in the same place")
    except BaseException:  # damaged text, too
        connection.close()
        raise
    is_plain: dict[str, bool] = {}
    for name, is_table in listed:  # a trigger may have the name of a table
        is_plain[str(name).lower()] = bool(is_table) or is_plain.get(str(name).lower(), False)
    connection.set_authorizer(limits.authorizer(_only_plain_tables(is_plain)))
    return connection


def _only_plain_tables(is_plain: dict[str, bool]) -> Callable[..., bool]:
    """Return the function that tells whether a statement may do something: only read plain tables.

    is_plain: for each name in the schema, whether it is a plain table.
    """

    def is_allowed(action: int, first: str | None, _: str | None, __: str | None, inside: str | None) -> bool:
        if inside is not None and inside.lower() in is_plain:
            return False  # a view: reading of tables is denied inside it, whatever the schema calls it
        if action == sqlite3.SQLITE_READ:
            return is_plain.get(str(first).lower(), True)
        return action in _READING or (action == sqlite3.SQLITE_PRAGMA and first in _PRAGMAS)

    return is_allowed
