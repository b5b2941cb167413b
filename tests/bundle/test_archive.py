"""No table takes more bytes than is said, and too many are not counted to the end."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from nsysprof.bundle.archive import most_bytes_of


def test_tables_take_at_most_what_is_said(tmp_path: Path) -> None:
    path = tmp_path / "trace.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        connection.execute("CREATE TABLE GPU_METRICS (timestamp INTEGER, value INTEGER, name TEXT)")
        connection.execute("CREATE TABLE NVTX_EVENTS (text TEXT)")
    connection.executemany("INSERT INTO NVTX_EVENTS VALUES (?)", [("x" * 1000,)] * 50)
    connection.commit()
    before = path.stat().st_size
    rows = [(2**62, -(2**62), "name of a metric " * (number % 9)) for number in range(2000)]
    connection.executemany("INSERT INTO GPU_METRICS VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()
    taken = path.stat().st_size - before
    found = most_bytes_of(path, {"GPU_METRICS"}, 1 << 20)
    assert found is not None
    assert taken < found < 3 * taken
    assert most_bytes_of(path, {"GPU_METRICS"}, found - 1) is None
    assert most_bytes_of(path, {"OSRT_API"}, 0) == 0
