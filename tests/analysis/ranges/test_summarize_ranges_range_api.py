"""In which API calls a range spends its time."""

import pandas as pd

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.analysis.ranges import summarize_ranges
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_TID, TID, TraceBuilder


def rows_of(tmp_path, builder):
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        table = summarize(read_tables(trace)).range_api
    return {(row["range"], row["name"]): row for row in table.to_dict("records")}, table


def test_calls_count_for_the_range_of_their_thread_that_encloses_them_whole(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 1000, "outer")
    builder.range(100, 500, "inner")
    builder.call(50, 90, 1, "cudaMalloc")
    builder.call(110, 310, 2, "cudaMemcpy_v3020")
    builder.call(320, 330, 3, "cudaMemcpy_v3020")
    builder.call(490, 510, 4, "cudaMemcpy_v3020")  # only outer encloses it
    builder.call(200, 300, 5, "cudaFree", tid=OTHER_TID)
    builder.call(990, 1010, 6, "cudaFree")
    found, table = rows_of(tmp_path, builder)
    assert set(found) == {("outer", "cudaMalloc"), ("outer", "cudaMemcpy"), ("inner", "cudaMemcpy")}
    outer, inner = found["outer", "cudaMemcpy"], found["inner", "cudaMemcpy"]
    assert (outer["calls"], outer["total_ns"], outer["wall_pct"]) == (3, 230, 23.0)
    assert (inner["calls"], inner["total_ns"], inner["wall_pct"]) == (2, 210, 52.5)
    assert table["total_ns"].is_monotonic_decreasing


def test_counted_ranges_are_one_and_nested_ones_of_a_name_count_once(tmp_path):
    builder = TraceBuilder()
    for step in range(3):
        builder.range(step * 100, step * 100 + 90, f"step{step}")
        builder.call(step * 100 + 10, step * 100 + 40, step + 1, "cudaLaunchKernel")
    builder.range(1000, 1100, "again")
    builder.range(1010, 1090, "again")
    builder.call(1020, 1030, 9, "cudaLaunchKernel")
    found, _ = rows_of(tmp_path, builder)
    assert (found["step#", "cudaLaunchKernel"]["calls"], found["step#", "cudaLaunchKernel"]["total_ns"]) == (3, 90)
    assert found["again", "cudaLaunchKernel"]["calls"] == 1


def test_a_range_of_the_process_has_the_calls_of_all_threads_and_no_share(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 100, "whole", kind=60)
    builder.call(10, 80, 1, "cudaMemcpy", tid=TID)
    builder.call(10, 90, 2, "cudaMemcpy", tid=OTHER_TID)
    found, _ = rows_of(tmp_path, builder)
    row = found["whole", "cudaMemcpy"]
    assert (row["calls"], row["total_ns"]) == (2, 150)
    assert row["wall_pct"] != row["wall_pct"], "it would be 150 %"


def test_calls_looked_at_a_few_at_a_time_give_the_same_table(tmp_path, monkeypatch):
    builder = TraceBuilder()
    for step in range(4):
        builder.range(step * 100, step * 100 + 99, "step")
        builder.range(step * 100 + 20, step * 100 + 70, "step")  # nested in one of its own name
        builder.range(step * 100 + 30, step * 100 + 60, "inner", tid=OTHER_TID)
        for at in (25, 40, 55, 65):
            builder.call(step * 100 + at, step * 100 + at + 8, 8 * step + at, "cudaMalloc")
            builder.call(step * 100 + at, step * 100 + at + 4, 900 + 8 * step + at, "cudaFree", tid=OTHER_TID)
    builder.range(0, 400, "whole", kind=60)
    _, at_once = rows_of(tmp_path, builder)
    monkeypatch.setattr(summarize_ranges, "_CALLS_AT_ONCE", 3)
    (tmp_path / "t.sqlite").unlink()
    found, table = rows_of(tmp_path, builder)
    pd.testing.assert_frame_equal(table, at_once)
    assert found["step", "cudaMalloc"]["calls"] == 16
    assert found["inner", "cudaFree"]["calls"] == 8
    assert found["whole", "cudaFree"]["calls"] == 16


def test_without_calls_or_ranges_there_is_nothing(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 100, "alone")
    assert len(rows_of(tmp_path, builder)[1]) == 0
