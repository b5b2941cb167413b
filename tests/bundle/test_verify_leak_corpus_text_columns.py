"""Columns with texts are found in one read, whatever else they hold."""

import sqlite3

from nsysprof.bundle.verify import text_columns


def test_a_text_or_a_blob_in_any_row_counts():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (none, number INTEGER, text, blob INTEGER, real, empty)")
    rows = [(None, 2**62, 5, 1.5, -0.5, 7), (None, -1, "", 2**62, 9e300, ""), (None, 0, 6, b"\0", None, 8)]
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
    found = text_columns(connection, "t", ["none", "number", "text", "blob", "real", '"empty"'])
    assert found == ["text", "blob", '"empty"']
    assert text_columns(connection, "t", []) == []


def test_an_empty_table_has_none():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a TEXT)")
    assert text_columns(connection, "t", ["a"]) == []
