"""Columns are read by what is there: absent is not zero, texts are not numbers, and damage is a note."""

import sqlite3

import pytest

from nsysprof.trace.columns import find_columns, read_different, read_integers, read_rows, read_with_texts
from nsysprof.trace.open import open_trace
from nsysprof.trace.schema import NULL

ROWS = [(1, 10, "a", b"x"), (2, 2.9, "b", None), (3, "12", "a", 5), (4, None, None, "t")]


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        database.execute("CREATE TABLE T (Start INTEGER, bytes, name TEXT, rest)")
        database.executemany("INSERT INTO T VALUES (?, ?, ?, ?)", ROWS)
    database.close()
    with open_trace(path) as opened:
        yield opened


def test_names_are_found_in_any_case_and_an_optional_one_may_be_absent(trace):
    source = find_columns(trace, "T", {"start": "begin"}, {"streamId": "stream"})
    assert (source.names, source.columns) == (("begin", "stream"), ("Start", None))
    assert find_columns(trace, "NO_SUCH_TABLE", {"start": "begin"}) is None
    assert not trace.losses


def test_a_table_without_a_column_that_it_must_have_is_a_note(trace):
    assert find_columns(trace, "T", {"start": "a", "end": "b", "deviceId": "c"}) is None
    (loss,) = trace.losses
    assert "lacks the columns end, deviceId" in loss.note.text


def test_only_numbers_are_numbers(trace):
    table = read_integers(trace, "T", {"start": "a", "bytes": "b"}, {"streamId": "c"})
    assert table["b"].tolist() == [10, 2, NULL, NULL], "a text of digits is a text, and a real is cut"
    assert table["c"].tolist() == [NULL] * 4


def test_rows_of_small_tables_have_texts_but_no_blobs(trace):
    assert read_rows(trace, "T", ("rest", "gone", "name")) == [
        (None, None, "a"), (None, None, "b"), (5, None, "a"), ("t", None, None)
    ]  # fmt: skip


def test_texts_come_with_their_rows_and_each_once(trace):
    frame, texts = read_with_texts(trace, "T", "NAME", {"start": "a"}, {})
    assert dict(zip(frame["a"], texts, strict=True)) == {1: "a", 2: "b", 3: "a", 4: None}
    assert sorted(read_different(trace, "T", "name", 10)) == ["a", "b"]
    assert read_different(trace, "T", "name", 0) == read_different(trace, "T", "gone", 10) == []
