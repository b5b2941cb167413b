"""The page reader against SQLite itself: the same numbers from every layout, or a refusal, and never a crash."""

import random
import sqlite3

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysprof.arrays import GrowingColumn
from nsysprof.native import load
from nsysprof.trace.columns import find_columns, page_positions, read_integers
from nsysprof.trace.event_columns import TupleEncoder
from nsysprof.trace.leaf_pages import UnusualLayoutError, scan_table
from nsysprof.trace.open import open_trace
from nsysprof.trace.schema import NULL

WANTED = {"start": "a", "end": "b", "bytes": "c"}


@pytest.fixture
def large(monkeypatch):
    """Compiled code reads every trace."""
    monkeypatch.setattr(load, "is_wanted", lambda _unit: True)


def make(path, rows, ddl="junk TEXT, start INTEGER, note TEXT, end INTEGER, bytes", pragmas=()):
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as database:
        for pragma in pragmas:
            database.execute(f"PRAGMA {pragma}")
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.execute(f"CREATE TABLE T ({ddl})")
        if rows:
            database.executemany(f"INSERT INTO T VALUES ({', '.join('?' * len(rows[0]))})", rows)
    database.close()
    return path


def by_pages(path):
    with open_trace(path) as trace:
        source = find_columns(trace, "T", WANTED)
        root, positions = page_positions(trace, source)
        return np.concatenate(
            [np.zeros((3, 0), np.int64), *(batch[:-1].copy() for batch in scan_table(path, root, positions))], axis=1
        ).T.tolist()


def by_sqlite(path):
    with open_trace(path) as trace:
        return read_integers(trace, "T", WANTED).to_numpy().tolist()


VALUES = st.one_of(
    st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-300, 300), st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from([2**k + d for k in (7, 8, 15, 16, 23, 24, 31, 32, 47, 48, 62) for d in (-1, 0, 1)]),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=40), VALUES, st.text(max_size=3), VALUES, VALUES), max_size=30))
def test_pages_hold_what_sqlite_reads(tmp_path_factory, rows):
    path = make(tmp_path_factory.mktemp("p") / "t.sqlite", rows)
    assert by_pages(path) == by_sqlite(path)


@pytest.mark.parametrize(
    "pragmas",
    ["page_size = 512", "page_size = 65536", "encoding = 'UTF-16'", "auto_vacuum = FULL", "journal_mode = WAL"],
)
def test_trees_of_several_levels_in_every_kind_of_file(tmp_path, pragmas):
    rows = [(f"text {i}", i, None, i * i, -i) for i in range(30_000)]
    path = make(tmp_path / "t.sqlite", rows, pragmas=[pragmas])
    assert by_pages(path) == [[row[1], row[3], row[4]] for row in rows]


def test_deleted_rows_and_scattered_pages(tmp_path):
    path = make(tmp_path / "t.sqlite", [("x" * (i % 200), i, "", i, i) for i in range(5000)])
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM T WHERE start % 3 = 0")
        database.execute("CREATE TABLE other AS SELECT * FROM T")
        database.execute("INSERT INTO T SELECT * FROM other")
        database.execute("UPDATE T SET junk = junk || junk WHERE start % 5 = 0")
    database.close()
    assert by_pages(path) == by_sqlite(path)


@pytest.mark.parametrize(
    ("ddl", "rows"),
    [
        ("start INTEGER PRIMARY KEY, end INTEGER, bytes INTEGER", [(5, 6, 7)]),
        ("start INTEGER PRIMARY KEY, end INTEGER, bytes INTEGER) WITHOUT ROWID; --", [(5, 6, 7)]),
        ("start INTEGER, junk TEXT, end INTEGER, bytes INTEGER", [(1, "x" * 10_000, 2, 3)]),
    ],
)
def test_unusual_layouts_are_left_to_sqlite(tmp_path, large, ddl, rows):
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.execute(f"CREATE TABLE T ({ddl.removesuffix('; --')}{'' if ddl.endswith('--') else ')'}")
        database.executemany(f"INSERT INTO T VALUES ({', '.join('?' * len(rows[0]))})", rows)
    database.close()
    with pytest.raises(UnusualLayoutError):
        by_pages(path)
    assert by_sqlite(path) == [[value for value in row if isinstance(value, int)] for row in rows]


def test_a_column_that_came_later_has_its_default(tmp_path, large):
    path = make(tmp_path / "t.sqlite", [(1, 2)], ddl="start INTEGER, end INTEGER")
    with sqlite3.connect(path) as database:
        database.execute("ALTER TABLE T ADD COLUMN bytes INTEGER DEFAULT 7")
        database.execute("INSERT INTO T VALUES (3, 4, 5)")
    database.close()
    assert by_sqlite(path) == [[1, 2, 7], [3, 4, 5]]


def test_generated_columns_are_left_to_sqlite(tmp_path, large):
    ddl = "twice INTEGER GENERATED ALWAYS AS (start * 2) VIRTUAL, start INTEGER, end INTEGER, bytes INTEGER"
    path = make(tmp_path / "t.sqlite", [], ddl=ddl)
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO T (start, end, bytes) VALUES (1, 2, 3)")
    database.close()
    assert by_sqlite(path) == [[1, 2, 3]]


def test_no_byte_of_a_page_can_crash_the_reader(tmp_path):
    path = make(tmp_path / "t.sqlite", [("text", i, "more", i * 1000, None) for i in range(300)])
    whole, content = by_pages(path), path.read_bytes()
    chance = random.Random(7)
    refused = 0
    for _ in range(400):
        broken = bytearray(content)
        for _ in range(chance.choice([1, 1, 8])):
            broken[chance.randrange(4096 * 2, len(broken))] = chance.randrange(256)
        path.write_bytes(broken)
        try:
            assert len(by_pages(path)) <= 2 * len(whole)
        except UnusualLayoutError:
            refused += 1
    assert 0 < refused < 400


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(st.integers(-3, 3), st.sampled_from([NULL, 0, 2**40])), min_size=1)))
def test_codes_name_their_tuples(batches):
    for compiled in (False, True):
        coder = TupleEncoder(2, compiled=compiled)
        codes = [coder.encode(*np.array(batch, dtype=np.int64).T) for batch in batches]
        for batch, code in zip(batches, codes, strict=True):
            assert [tuple(coder.rows[i].tolist()) for i in code.tolist()] == batch
        assert len({tuple(row) for row in coder.rows.tolist()}) == len(coder.rows)


def test_more_tuples_than_two_bytes_number():
    coder = TupleEncoder(1, compiled=True)
    values = np.arange(100_000, dtype=np.int64) * 7
    assert coder.encode(values).tolist() == list(range(100_000))
    assert coder.rows[:, 0].tolist() == values.tolist()


def test_a_column_widens_and_grows():
    column = GrowingColumn(np.empty(0, np.int16), expected=2)
    column.append(np.array([1, 2, 3], dtype=np.int16))
    column.append(np.array([70_000], dtype=np.int32))
    assert column.finish().tolist() == [1, 2, 3, 70_000]
