"""SQLite keeps one error for a connection, so that no two threads share one.

Where they did, a damaged table ended early without an error about once in forty runs.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nsysprof.native import load
from nsysprof.trace.confine import Confinement
from nsysprof.trace.open import open_trace
from nsysprof.trace.table_readers.gpus import read_gpus, read_metric_samples
from nsysprof.trace.tables import read_tables


class Watched(sqlite3.Connection):
    """A connection that remembers which threads ran statements on it."""

    opened: list[Watched]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.users: set[int] = set()
        self.opened.append(self)

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        self.users.add(threading.get_ident())
        return super().execute(*arguments)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    real = sqlite3.connect
    monkeypatch.setattr(Watched, "opened", [], raising=False)
    monkeypatch.setattr(sqlite3, "connect", lambda *given, **named: real(*given, **named, factory=Watched))
    return Watched.opened


@pytest.mark.parametrize("name", ["gm10k", "mem", "graph_node"])
@pytest.mark.parametrize("compiled", [True, False])
def test_every_thread_has_a_connection_of_its_own(
    trace_path: Callable[[str], Path], opened: list[Watched], monkeypatch: pytest.MonkeyPatch, name: str, compiled: bool
) -> None:
    monkeypatch.setattr(load, "is_wanted", lambda _unit: compiled)
    with open_trace(trace_path(name)) as trace:
        read_tables(trace)
        read_metric_samples(trace, read_gpus(trace))
    assert len(opened) > 1
    assert [len(connection.users) for connection in opened] == [1] * len(opened)
    assert len({user for connection in opened for user in connection.users}) == len(opened)
    for connection in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


def test_no_connection_trusts_the_file(trace_path: Callable[[str], Path]) -> None:
    with open_trace(trace_path("mem")) as trace:
        trace.connection.set_authorizer(None)
        asked = ("trusted_schema", "cell_size_check")
        assert [trace.connection.execute(f"PRAGMA {name}").fetchone()[0] for name in asked] == [0, 1]


@pytest.mark.parametrize("after", [0, 1, 2, 10, 30, 100, 101, 102, 103, 104])
def test_ctrl_c_inside_an_authorizer_is_not_taken_for_damage(
    trace_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """SQLite reports an exception of the authorizer as a denial, and a denied table would be left out as damaged."""
    real = Confinement.authorizer
    asked = 0

    def interrupted(limits: Confinement, is_allowed: Callable[..., bool]) -> Callable[..., int]:
        authorize = real(limits, is_allowed)

        def count(*given: Any) -> int:
            nonlocal asked
            asked += 1
            if asked == after + 1:
                raise KeyboardInterrupt
            return authorize(*given)

        return count

    monkeypatch.setattr(Confinement, "authorizer", interrupted)
    with pytest.raises(KeyboardInterrupt), open_trace(trace_path("mem"), one_thread=True) as trace:
        read_tables(trace)
