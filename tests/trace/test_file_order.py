"""Rows are read in file order and whole: an index, which anyone can add to a trace, changes no number."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.native import load
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_ranges, read_strings
from tests.builders.build_trace import TID, TraceBuilder
from tests.trace.numbers import numbers

READ = {
    "NVTX_EVENTS": ("text", "textId", "eventType, text", "domainId, globalTid, eventType, textId, end, start, text"),
    "StringIds": ("value", "value, id"),
    "CUPTI_ACTIVITY_KIND_KERNEL": ("streamId", "shortName, demangledName, globalPid, correlationId, end, start"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("nameId", "returnValue, nameId, correlationId, globalTid, eventClass, end, start"),
    "CUDA_GPU_MEMORY_USAGE_EVENTS": ("address", "bytes, address"),
    "META_DATA_CAPTURE": ("value", "value, name"),
    "TARGET_INFO_GPU": ("name", "uuid, name, id"),
}


@pytest.fixture(params=["sqlite", "pages"], autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "is_wanted", lambda _unit: request.param == "pages")


def index_everything(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for table, indexes in READ.items():
            if database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchone():
                for number, columns in enumerate(indexes):
                    database.execute(f"CREATE INDEX {table}_{number} ON {table} ({columns})")


@pytest.mark.parametrize("name", ["sdpa", "mem"])
def test_indexes_change_no_number(trace_path: Callable[[str], Path], tmp_path: Path, name: str) -> None:
    path = tmp_path / "t.sqlite"
    shutil.copyfile(trace_path(name), path)
    index_everything(path)
    assert numbers(analyze_trace(path)) == numbers(analyze_trace(trace_path(name)))


def ranges(path: Path) -> list[tuple[int, str]]:
    with open_trace(path) as trace:
        found = read_ranges(trace, read_strings(trace))
        assert found is not None
        return list(zip(found["start_ns"].tolist(), found["name"], strict=True))


def test_each_range_keeps_its_own_name(tmp_path: Path) -> None:
    """Of two passes the second came by the index: names in the order of the alphabet, times in that of the file."""
    builder = TraceBuilder()
    for at, name in enumerate(("zebra", "ant", "moth")):
        builder.range(10 * at, 10 * at + 5, name)
    builder.range(30, 35, "registered", registered=True)
    path = builder.write(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("CREATE INDEX i ON NVTX_EVENTS (text)")
    assert ranges(path) == [(0, "zebra"), (10, "ant"), (20, "moth"), (30, "registered")]


@pytest.mark.parametrize("taken", ["rowid", "rowid, _rowid_", "rowid, _rowid_, oid"])
def test_columns_that_are_called_rowid(tmp_path: Path, taken: str) -> None:
    """They hold anything, and the real key is out of reach once all its names are taken."""
    path = TraceBuilder().write(tmp_path / "t.sqlite")
    columns = "start INTEGER, end INTEGER, eventType INTEGER, globalTid INTEGER, textId INTEGER, domainId INTEGER, text"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"CREATE TABLE NVTX_EVENTS ({columns}, {taken})")
        for at, value in enumerate(("'x'", "9e999", "x'00'", "-5")):
            values = f"{at}, {at + 1}, 59, {TID}, NULL, 0, 'range {at}', {', '.join([value] * len(taken.split(', ')))}"
            database.execute(f"INSERT INTO NVTX_EVENTS VALUES ({values})")
    assert ranges(path) == [(at, f"range {at}") for at in range(4)]


def test_negative_rowids(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for at in range(3):
        builder.range(10 * at, 10 * at + 5, f"range {at}")
    path = builder.write(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("UPDATE NVTX_EVENTS SET rowid = rowid - 10")
    assert ranges(path) == [(0, "range 0"), (10, "range 1"), (20, "range 2")]


def test_a_table_without_rowids(tmp_path: Path) -> None:
    builder = TraceBuilder()
    for at, name in enumerate(("zebra", "ant", "moth")):
        builder.range(10 * at, 10 * at + 5, name)
    path = builder.write(tmp_path / "t.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("ALTER TABLE NVTX_EVENTS RENAME TO old")
        columns = [row[1] for row in database.execute("PRAGMA table_info(old)")]
        database.execute(f"CREATE TABLE NVTX_EVENTS ({', '.join(columns)}, PRIMARY KEY (start)) WITHOUT ROWID")
        database.execute("INSERT INTO NVTX_EVENTS SELECT * FROM old")
        database.execute("CREATE INDEX i ON NVTX_EVENTS (text)")
    assert ranges(path) == [(0, "zebra"), (10, "ant"), (20, "moth")]
