"""What SQLite copies by itself is what Python would copy, and the source gets to do nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from nsysprof.bundle import copied_rows as copying
from nsysprof.bundle.copied_rows import CopiedColumn, copy_inside, different_sets, open_target, replace_ids
from nsysprof.bundle.sanitize import sanitize_trace
from nsysprof.trace.confine import Confinement
from nsysprof.trace.open import open_trace
from tests.bundle.hostile import write_trace


@pytest.mark.parametrize("name", ["sdpa", "ddp_rank0"])
def test_both_ways_write_the_same_bytes(name: str, trace_path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_sqlite = sanitize_trace(trace_path(name), tmp_path / "sqlite")
    monkeypatch.setattr(copying, "_MOST_SETS", 0)
    by_python = sanitize_trace(trace_path(name), tmp_path / "python")
    assert (tmp_path / "sqlite").read_bytes() == (tmp_path / "python").read_bytes()
    assert by_sqlite.rows == by_python.rows
    assert by_sqlite.rows["CUPTI_ACTIVITY_KIND_RUNTIME"] > 100


@pytest.mark.parametrize("name", ["_MOST_SETS", "_MOST_IDS"])
def test_more_ids_than_sqlite_replaces_are_replaced_by_python(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write_trace(tmp_path / "in.sqlite", "CREATE TABLE GPU_METRICS (value INT)")
    sanitize_trace(source, tmp_path / "sqlite")
    asked: list[str] = []
    plain = copying.copy_inside
    monkeypatch.setattr(copying, name, 0)
    monkeypatch.setattr("nsysprof.bundle.sanitize.copy_inside", lambda *a: asked.append(a[2]) or plain(*a))
    sanitize_trace(source, tmp_path / "python")
    assert (tmp_path / "sqlite").read_bytes() == (tmp_path / "python").read_bytes()
    assert "CUPTI_ACTIVITY_KIND_KERNEL" not in asked, "its process ids have to be replaced"
    assert "GPU_METRICS" in asked, "there are no ids in it"


@pytest.fixture
def target(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    source = sqlite3.connect(tmp_path / "in.sqlite")
    source.executescript(
        """CREATE TABLE t (a TEXT, b INT); INSERT INTO t VALUES (7, 1), ('x', 2), (NULL, 3), (x'00', 9);
        CREATE VIEW v AS SELECT b AS a, b FROM t;
        CREATE TABLE u (a, b); INSERT INTO u VALUES (5, 1), ('5', 2), (5.5, -5), (-9223372036854775808, 8);"""
    )
    source.close()
    connection = open_target(tmp_path / "out.sqlite", tmp_path / "in.sqlite")
    for table in "tuv":
        connection.execute(f"CREATE TABLE {table} (a INTEGER, b INTEGER)")
    yield connection
    connection.close()


def test_cells_that_are_no_integers_become_null_and_ids_their_new_numbers(target: sqlite3.Connection) -> None:
    limits = Confinement(1 << 20)
    columns = [CopiedColumn("b"), CopiedColumn("a", {5: 50, -(2**63): None})]
    assert copy_inside(target, limits, "u", columns) == 4
    assert target.execute("SELECT * FROM main.u").fetchall() == [(1, 50), (2, None), (-5, None), (8, None)]
    assert copy_inside(target, limits, "t", [CopiedColumn("b", {1: 4, 2: 2}), CopiedColumn("a", {})]) == 4
    assert target.execute("SELECT * FROM main.t").fetchall() == [(4, None), (2, None), (None, None), (None, None)]


def test_nothing_but_tables_is_read_and_nothing_is_written_into_the_source(target: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.DatabaseError, match="prohibited|not authorized"):
        copy_inside(target, Confinement(1 << 20), "v", [CopiedColumn("a"), CopiedColumn("b")])
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        target.execute("INSERT INTO source.t VALUES (1, 1)")


def test_a_copy_that_is_interrupted_or_takes_too_long_stops(
    target: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_STEPS", 1)
    limits = Confinement(1 << 20)
    limits.cancelled.set()
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        copy_inside(target, limits, "u", [CopiedColumn("a"), CopiedColumn("b")])


def test_different_ids_are_counted_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_trace(write_trace(tmp_path / "in.sqlite")) as trace:
        table, columns = "CUPTI_ACTIVITY_KIND_KERNEL", ["globalPid", "shortName"]
        pids, names = different_sets(trace.connection, table, columns) or [set(), set()]
        assert pids
        assert names
        monkeypatch.setattr(copying, "_MOST_SETS", 0)
        assert different_sets(trace.connection, table, columns) is None
        assert different_sets(trace.connection, table, []) == []
    assert replace_ids({3, 1}, lambda each: each * 10) == {1: 10, 3: 30}
    assert replace_ids(set(range(65)), lambda each: each) is None
