"""The database of `--db`, read as it may have been left by a stranger."""

from __future__ import annotations

import json
import sqlite3

import pytest

from nsysprof.app.read_history import is_results_database, read_history
from nsysprof.errors import TraceError
from tests.builders.build_trace import TraceBuilder

SHAPE = {"batch": 1, "heads": 2, "kv_heads": 2, "head_dim": 64, "dtype": "fp16", "causal": 1, "pass": "fwd"}


def database(path, runs, results):
    """Write runs (name, date, hash, whether caches are emptied) and results (run, backend, seq, median)."""
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE runs (run, created_utc, comparable_hash, gpu_name, torch_version, plan)")
        columns = ["run", "backend", "seq", *SHAPE, "status", "median_ns", "low_ns", "high_ns", "samples"]
        connection.execute(f"CREATE TABLE results ({', '.join(columns)})")
        for name, date, hashed, flush in runs:
            row = (name, date, hashed, "H200", "2.11", json.dumps({"flush": flush}))
            connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?)", row)
        for run, backend, seq, median in results:
            times = (None,) * 4 if median is None else (median, 0.9 * median, 1.1 * median, 30)
            values = (run, backend, seq, *SHAPE.values(), "ok" if median is not None else "timeout", *times)
            connection.execute(f"INSERT INTO results VALUES ({', '.join('?' * len(values))})", values)
    connection.close()
    return path


def test_cases_are_followed_over_runs_in_order_of_time(tmp_path):
    path = database(
        tmp_path / "all.db",
        [("b", "2026-02-01T00:00", "h", True), ("a", "2026-01-01T00:00", "h", True), ("c", "2026-03-01", "h", False)],
        [("b", "flash", 512, 90), ("a", "flash", 512, 100), ("c", "flash", 512, 50), ("a", "math", 1024, None)],
    )
    assert is_results_database(path)
    flash, math = read_history(path)
    assert (flash.name, math.name) == ("flash S=512", "math S=1024")
    assert [point.median_ns for point in flash.points] == [100, 90, 50]
    assert flash.change_pct(*flash.points[:2]) == pytest.approx(-10)
    assert flash.change_pct(*flash.points[1:]) is None, "with the caches warm it is another measurement"
    assert "caches warm" in flash.points[-1].setup
    assert (math.points[0].status, math.timed) == ("timeout", ())


def test_values_that_no_measurement_gives_are_unknown(tmp_path):
    runs = [("a", "2026", "h", True)]
    results = [("a", "flash", 512, 1.0), ("lost", "flash", 512, 2.0)]
    path = database(tmp_path / "all.db", runs, results)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE results SET median_ns = 'soon', low_ns = -1, high_ns = 9e999, samples = x'00'")
        connection.execute("UPDATE runs SET plan = '{', gpu_name = NULL, created_utc = x'ff'")
    connection.close()
    (case,) = read_history(path)
    (point,) = case.points
    assert (point.median_ns, point.low_ns, point.high_ns, point.samples) == (None, None, None, None)
    assert point.setup == "no GPU, torch 2.11"


def test_other_files_are_not_taken_for_one(tmp_path):
    builder = TraceBuilder()
    builder.launch(10, 1)
    (tmp_path / "text.db").write_text("runs and results")
    (tmp_path / "cut.db").write_bytes(database(tmp_path / "all.db", [], []).read_bytes()[:700])
    for path in (builder.write(tmp_path / "t.sqlite"), tmp_path / "text.db", tmp_path / "cut.db", tmp_path):
        assert not is_results_database(path), path
    with pytest.raises(TraceError, match="cannot be read as a results database"):
        read_history(tmp_path / "text.db")


def test_views_with_the_names_of_the_tables_are_refused(tmp_path):
    with sqlite3.connect(tmp_path / "v.db") as connection:
        connection.execute("CREATE VIEW runs AS SELECT 1 AS run")
        endless = "WITH RECURSIVE n(run) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT * FROM n"
        connection.execute(f"CREATE VIEW results AS {endless}")
    connection.close()
    with pytest.raises(TraceError, match="cannot be read as a results database"):
        read_history(tmp_path / "v.db")
