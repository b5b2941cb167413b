"""Traces that are stored in a way nsys does not: the same numbers, or a clear word about what is not read.

SQLite hides all of it, but whoever reads pages by himself must know each.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.errors import TraceError
from nsysprof.native import load
from nsysprof.notes import Severity
from nsysprof.results.analysis import Analysis
from nsysprof.trace.table_readers.gpus import LONGEST_RANGE_NAME, cut_name
from tests.builders.build_trace import TID, TraceBuilder
from tests.trace.numbers import numbers


@pytest.fixture(params=["pages", pytest.param("sqlite", marks=pytest.mark.slow)], autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read each file by compiled code and, in the slow run, by SQLite, to which most files here are like any."""
    monkeypatch.setattr(load, "is_wanted", lambda _unit: request.param == "pages")


KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
COPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMORY = "CUDA_GPU_MEMORY_USAGE_EVENTS"
LONG = "k" * 1_000_000


def program() -> TraceBuilder:
    """Return a trace with some of everything, in tables of several pages of any size."""
    builder = TraceBuilder("2025.3")
    builder.gpu(0, "NVIDIA H200", cuda=0)
    builder.cuda_device(0, 0)
    for number in range(1, 1_500):
        builder.launch(1_000 * number, number, name=f"kernel{number % 7}")
    builder.range(0, 500_000, "plain é 中")
    builder.range(500_000, 2_000_000, "registered", registered=True)
    builder.range(0, None, "domain", kind=75, domain=3)
    builder.range(600_000, 700_000, "inside", domain=3)
    builder.call(1_600_000, 1_600_010, 2_000, "cudaMemcpyAsync_v3020")
    builder.copy(1_600_100, 1_600_200, 2_000, 1 << 40)
    builder.fill(1_600_300, 1_600_310, 2_001, 77)
    builder.allocate(10, 0x7F00_0000_0000, 1 << 33)
    builder.free(1_700_000, 0x7F00_0000_0000)
    return builder


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found = numbers(analyze_trace(program().write(tmp_path_factory.mktemp("plain") / "t.sqlite")))
    assert (found["kernel_count"], len(found["ranges"]), found["peak_vram_bytes"]) == (
        1_499,
        3,
        {"NVIDIA H200": 1 << 33},
    )
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return program().write(tmp_path / "t.sqlite")


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)


def analyze_or_say(path: Path) -> Analysis | None:
    """Return the analysis; None where an error or a loss says what could not be read."""
    try:
        analysis = analyze_trace(path)
    except TraceError as error:
        assert error.next_step
        return None
    told = any(loss.note.code == "table-unreadable" for loss in analysis.losses)
    return None if told else analysis


def rebuild(path: Path, table: str, edit: Callable[[str], str], columns: str = "*") -> None:
    """Replace a table by one with other DDL and the same rows."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        (sql,) = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        database.execute(f"ALTER TABLE {table} RENAME TO old")
        database.execute(edit(sql))
        names = "" if columns == "*" else f"({columns})"
        database.execute(f"INSERT INTO {table} {names} SELECT {columns} FROM old")
        database.execute("DROP TABLE old")


@pytest.mark.parametrize("size", [512, 4096, 32768, 65536])
def test_every_page_size(path: Path, expected: dict[str, Any], size: int) -> None:
    change(path, f"PRAGMA page_size = {size}", "VACUUM")
    head = path.read_bytes()[16:18]
    assert int.from_bytes(head, "big") == (1 if size == 65536 else size)
    assert numbers(analyze_trace(path)) == expected


@pytest.mark.parametrize("mode", ["FULL", "INCREMENTAL"])
def test_pointer_map_pages_of_auto_vacuum(path: Path, expected: dict[str, Any], mode: str) -> None:
    change(path, f"PRAGMA auto_vacuum = {mode}", "PRAGMA page_size = 512", "VACUUM")
    assert path.read_bytes()[52:56] != bytes(4), "the header names the largest root page where there are such pages"
    assert numbers(analyze_trace(path)) == expected


@pytest.mark.parametrize("encoding", ["UTF-16le", "UTF-16be"])
def test_text_in_utf_16(tmp_path: Path, path: Path, expected: dict[str, Any], encoding: str) -> None:
    other = tmp_path / "other" / "t.sqlite"
    other.parent.mkdir()
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(other)) as target:
        target.execute(f"PRAGMA encoding = '{encoding}'")
        target.executescript("\n".join(source.iterdump()))
    assert "registered".encode(encoding) in other.read_bytes()
    analysis = analyze_or_say(other)
    assert analysis is None or numbers(analysis) == expected


def test_a_file_left_in_wal_mode_without_its_log(path: Path, expected: dict[str, Any]) -> None:
    """The last connection writes the log back and removes it, and the header stays."""
    change(path, "PRAGMA journal_mode = WAL", "CREATE TABLE more (x)")
    assert path.read_bytes()[18:20] == b"\x02\x02"
    before = path.read_bytes()
    assert numbers(analyze_trace(path)) == expected
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_reserved_bytes_at_the_end_of_every_page(path: Path, expected: dict[str, Any]) -> None:
    """Extensions keep checksums there. The rows must be copied by SQLite, which keeps the header's number."""
    content = bytearray(path.read_bytes())
    empty = path.with_name("reserved.sqlite")
    change(empty, "PRAGMA page_size = 1024", "CREATE TABLE t (x)", "DROP TABLE t")
    head = bytearray(empty.read_bytes())
    head[20] = 32
    # The content of an empty database's first page ends where the usable part does.
    head[105:107] = (1024 - 32).to_bytes(2, "big")
    empty.write_bytes(head)
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(empty)) as target:
        target.executescript("\n".join(source.iterdump()))
    content = bytearray(empty.read_bytes())
    assert content[20] == 32
    path.write_bytes(content)
    assert numbers(analyze_trace(path)) == expected


def test_names_of_a_megabyte_lie_on_overflow_pages(tmp_path: Path) -> None:
    builder = TraceBuilder("2025.3")
    builder.launch(1_000, 1, name=LONG)
    builder.launch(2_000, 2, name="short")
    builder.range(0, 5_000, f"{LONG}1", registered=True)
    builder.range(0, 5_000, f"{LONG}2")
    builder.range(0, 5_000, "last")
    found = numbers(analyze_trace(builder.write(tmp_path / "t.sqlite")))
    assert {row["range"] for row in found["ranges"]} == {
        *(cut_name(f"{LONG}{end}", LONGEST_RANGE_NAME) for end in "12"),
        "last",
    }
    assert [row["kernel_count"] for row in found["ranges"]] == [2, 2, 2]
    assert {row["name"] for row in found["kernels"]} == {cut_name(f"{LONG}(int)"), "short(int)"}


def test_numbers_behind_a_megabyte_of_text(path: Path, expected: dict[str, Any]) -> None:
    """The columns that matter may themselves start on an overflow page."""
    rebuild(path, KERNEL, lambda sql: sql.replace("(", "(junk TEXT DEFAULT 'none', ", 1), columns_of(path, KERNEL))
    change(path, f"UPDATE {KERNEL} SET junk = hex(zeroblob(50000)) WHERE rowid % 100 = 0")
    assert numbers(analyze_trace(path)) == expected


def columns_of(path: Path, table: str) -> str:
    with closing(sqlite3.connect(path)) as database:
        return ", ".join(row[1] for row in database.execute(f"PRAGMA table_info({table})"))


def test_columns_that_recipes_add(path: Path, expected: dict[str, Any]) -> None:
    """NVIDIA's own recipes ALTER the export. Rows written before then are shorter than the table says."""
    change(
        path,
        f"ALTER TABLE {KERNEL} ADD COLUMN name TEXT",
        f"UPDATE {KERNEL} SET name = (SELECT value FROM StringIds WHERE id = demangledName) WHERE rowid > 700",
        f"ALTER TABLE {RUNTIME} ADD COLUMN name TEXT DEFAULT 'unnamed'",
        "ALTER TABLE NVTX_EVENTS ADD COLUMN tid INTEGER NOT NULL DEFAULT 3",
    )
    assert numbers(analyze_trace(path)) == expected


def test_a_needed_column_that_came_by_alter_has_its_default(path: Path, expected: dict[str, Any]) -> None:
    """Old rows do not store it at all: a record that ends early means the default, and not NULL."""
    change(
        path,
        f"ALTER TABLE {KERNEL} DROP COLUMN streamId",
        f"ALTER TABLE {KERNEL} ADD COLUMN streamId INTEGER NOT NULL DEFAULT 7",
        f"ALTER TABLE {COPY} DROP COLUMN copyKind",
        f"ALTER TABLE {COPY} ADD COLUMN copyKind INTEGER DEFAULT '1'",
        f"ALTER TABLE {MEMORY} DROP COLUMN memKind",
        f"ALTER TABLE {MEMORY} ADD COLUMN memKind INTEGER DEFAULT 2",
    )
    assert numbers(analyze_trace(path)) == expected


@pytest.mark.parametrize("spell", [str.upper, str.title])
def test_columns_in_another_case(path: Path, expected: dict[str, Any], spell: Callable[[str], str]) -> None:
    for table in (KERNEL, RUNTIME, COPY, MEMORY, "NVTX_EVENTS"):
        for name in columns_of(path, table).split(", "):
            change(path, f"ALTER TABLE {table} RENAME COLUMN {name} TO old_{name}")
            change(path, f"ALTER TABLE {table} RENAME COLUMN old_{name} TO {spell(name)}")
    assert spell("deviceId") in columns_of(path, KERNEL)
    assert numbers(analyze_trace(path)) == expected


@pytest.mark.parametrize("table", [KERNEL, RUNTIME, "NVTX_EVENTS", "StringIds"])
def test_tables_in_another_case_are_those_of_sqlite(path: Path, expected: dict[str, Any], table: str) -> None:
    """SQLite takes both for the same table, so whoever made such a file sees no difference."""
    change(path, f"ALTER TABLE {table} RENAME TO moved", f"ALTER TABLE moved RENAME TO {table.lower()}")
    analysis = analyze_or_say(path)
    assert analysis is None or numbers(analysis) == expected


@pytest.mark.parametrize("suffix", ["_V2", "_V3"])
def test_tables_with_a_version_suffix(path: Path, expected: dict[str, Any], suffix: str) -> None:
    tables = (KERNEL, RUNTIME, COPY, "NVTX_EVENTS", MEMORY)
    change(path, *(f"ALTER TABLE {table} RENAME TO {table}{suffix}" for table in tables))
    assert numbers(analyze_trace(path)) == expected


def test_the_plain_table_goes_before_one_with_a_suffix(path: Path, expected: dict[str, Any]) -> None:
    change(path, f"CREATE TABLE {KERNEL}_V2 AS SELECT * FROM {KERNEL} LIMIT 3")
    assert numbers(analyze_trace(path)) == expected


def test_views_triggers_and_indexes_beside_the_tables(path: Path, expected: dict[str, Any]) -> None:
    """A trigger may have the name of a table; its root page is 0."""
    change(
        path,
        f"CREATE TRIGGER {KERNEL} AFTER INSERT ON {RUNTIME} BEGIN SELECT 1; END",
        f"CREATE TRIGGER StringIds AFTER INSERT ON {KERNEL} BEGIN SELECT 1; END",
        f"CREATE VIEW kernels AS SELECT * FROM {KERNEL} WHERE start > 5000",
        f"CREATE INDEX by_start ON {KERNEL} (start, end)",
        f"CREATE UNIQUE INDEX by_correlation ON {KERNEL} (correlationId)",
        "CREATE VIRTUAL TABLE search USING fts4(text)",
    )
    assert numbers(analyze_trace(path)) == expected


@pytest.mark.parametrize("table", [KERNEL, RUNTIME, "NVTX_EVENTS", "StringIds"])
def test_a_view_in_the_place_of_a_table_is_not_passed_over(path: Path, expected: dict[str, Any], table: str) -> None:
    change(path, f"ALTER TABLE {table} RENAME TO kept", f"CREATE VIEW {table} AS SELECT * FROM kept")
    analysis = analyze_or_say(path)
    if analysis is not None:
        for key in ("kernel_count", "kernel_total_ns", "gpu_busy_ns", "launch_count", "graph_launch_count"):
            assert numbers(analysis)[key] in (None, expected[key])
        assert any(note.severity != Severity.INFO for note in analysis.notes)


def test_a_table_without_rowids_stores_its_key_first(path: Path, expected: dict[str, Any]) -> None:
    rebuild(path, KERNEL, lambda sql: f"{sql.rstrip()[:-1]}, PRIMARY KEY (gridId, correlationId)) WITHOUT ROWID")
    analysis = analyze_or_say(path)
    assert analysis is None or numbers(analysis) == expected


@pytest.mark.parametrize(
    ("kind", "is_rowid"),
    [
        ("INTEGER PRIMARY KEY", True),
        ("integer not null primary key asc", True),
        ("INTEGER PRIMARY KEY DESC", False),
        ("INT PRIMARY KEY", False),
    ],
)
def test_a_needed_column_that_is_the_rowid(path: Path, expected: dict[str, Any], kind: str, is_rowid: bool) -> None:
    """Its stored value is NULL: the number is the row's key. One word more or less, and it is a column like any."""
    rebuild(path, KERNEL, lambda sql: sql.replace("correlationId INTEGER", f"correlationId {kind}"))
    with closing(sqlite3.connect(path)) as database:
        same = database.execute(f"SELECT count(*) FROM {KERNEL} WHERE rowid = correlationId + 10").fetchone()
        database.execute(f"UPDATE {KERNEL} SET correlationId = correlationId + 0")
        indexes = database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'index'").fetchone()
    assert (same, indexes) == ((0,), (int(not is_rowid),))
    assert numbers(analyze_trace(path)) == expected


def test_a_table_level_primary_key_on_one_integer_is_the_rowid_too(path: Path, expected: dict[str, Any]) -> None:
    rebuild(path, RUNTIME, lambda sql: f"{sql.rstrip()[:-1]}, PRIMARY KEY (start))")
    assert numbers(analyze_trace(path)) == expected


def test_the_event_ids_of_the_newest_nvtx_table(path: Path, expected: dict[str, Any]) -> None:
    """NVIDIA's newest guide lists NVTX_EVENTS with such a column, the last."""
    names = columns_of(path, "NVTX_EVENTS")
    rebuild(
        path, "NVTX_EVENTS", lambda sql: f"{sql.rstrip()[:-1]}, eventId INTEGER NOT NULL PRIMARY KEY)", names
    )  # fmt: skip
    assert numbers(analyze_trace(path)) == expected


@pytest.mark.parametrize("storage", ["VIRTUAL", "STORED"])
def test_an_unneeded_generated_column_shifts_nothing(path: Path, expected: dict[str, Any], storage: str) -> None:
    """A virtual column is in the list of columns and not in the record."""
    names = columns_of(path, KERNEL)
    added = f"(start INTEGER NOT NULL, duration INTEGER GENERATED ALWAYS AS (end - start) {storage},"
    rebuild(path, KERNEL, lambda sql: sql.replace("(start INTEGER NOT NULL,", added, 1), names)
    analysis = analyze_or_say(path)
    assert analysis is None or numbers(analysis) == expected


@pytest.mark.parametrize("storage", ["VIRTUAL", "STORED"])
def test_a_needed_generated_column_is_read_or_named(path: Path, expected: dict[str, Any], storage: str) -> None:
    names = columns_of(path, KERNEL).replace("end, ", "")
    made = f"end INTEGER GENERATED ALWAYS AS (start + 50) {storage}"
    rebuild(path, KERNEL, lambda sql: sql.replace("end INTEGER NOT NULL", made, 1), names)
    analysis = analyze_or_say(path)
    assert analysis is None or numbers(analysis) == expected


def test_rows_that_were_deleted_moved_and_inserted_again(path: Path, expected: dict[str, Any]) -> None:
    """Free blocks within pages, free pages between them, rows out of insertion order, keys below 0."""
    names = columns_of(path, KERNEL)
    change(
        path,
        f"CREATE TABLE kept AS SELECT rowid AS key, * FROM {KERNEL} WHERE rowid % 3 = 0",
        f"DELETE FROM {KERNEL} WHERE rowid % 3 = 0",
        f"INSERT INTO {KERNEL} (rowid, {names}) SELECT -key * 1000000007, {names} FROM kept ORDER BY key DESC",
        "DROP TABLE kept",
    )
    assert int.from_bytes(path.read_bytes()[36:40], "big") > 0, "there are free pages"
    assert in_any_order(numbers(analyze_trace(path))) == in_any_order(expected)


def in_any_order(found: dict[str, Any]) -> dict[str, Any]:
    """Kernels of the same total time may change places with their rows."""
    ordered = {
        table: sorted(found[table], key=lambda row: (row.get("range", ""), row["name"]))
        for table in ("kernels", "range_kernels")
    }
    return {**found, **ordered}


@pytest.mark.parametrize("affinity", ["REAL", "TEXT", "BLOB", "NUMERIC", "BOOLEAN", ""])
def test_other_declared_types_change_no_number(path: Path, expected: dict[str, Any], affinity: str) -> None:
    """An integer in a REAL column is stored as one and is read as a float; in a TEXT column it becomes text."""
    rebuild(path, KERNEL, lambda sql: sql.replace("start INTEGER", f"start {affinity}"))
    analysis = analyze_or_say(path)
    if affinity == "TEXT":
        assert analysis is not None
        assert analysis.totals.kernel_count in (None, 0, expected["kernel_count"])
        assert any(note.severity != Severity.INFO for note in analysis.notes), "texts are no times, and that is said"
    else:
        assert analysis is None or numbers(analysis) == expected


@pytest.mark.parametrize("number", [0, 1, -128, 128, 2**15, -(2**23), 2**31, -(2**31), -(2**47), 2**49])
def test_integers_of_every_stored_width(tmp_path: Path, number: int) -> None:
    """SQLite stores 0 and 1 in no bytes, others in 1, 2, 3, 4, 6 or 8."""
    builder = TraceBuilder("2025.3")
    builder.call(number, number + 5, 7, tid=TID)
    builder.kernel(number, number + 9, 7)
    builder.copy(number, number + 9, 8, abs(number))
    found = numbers(analyze_trace(builder.write(tmp_path / "t.sqlite")))
    assert (found["kernel_total_ns"], found["launch_count"]) == (9, 1)
    assert found["memcpy_bytes"] == {"[CUDA memcpy Host-to-Device]": abs(number)}
