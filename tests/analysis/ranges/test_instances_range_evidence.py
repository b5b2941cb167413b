"""Launches of ranges: from the calls, whatever is left of what they launched."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.results.analysis import Analysis
from tests.builders.build_trace import OTHER_TID, TraceBuilder

WORK = ("kernel_count", "kernel_total_ns", "gpu_busy_ns", "projected_ns", "exclusive_kernel_count")
LAUNCHES = ("launch_count", "graph_launch_count", "lost_launch_count")


@pytest.fixture
def analyze(tmp_path: Path) -> Callable[[TraceBuilder], Analysis]:
    return lambda builder: analyze_trace(builder.write(tmp_path / "t.sqlite"))


def row(table: pd.DataFrame, name: str) -> dict[str, object]:
    (found,) = table[table["range"] == name].to_dict("records")
    return {str(column): None if pd.isna(value) else value for column, value in found.items()}


def launches_of(analysis: Analysis, name: str) -> tuple[object, ...]:
    return tuple(row(analysis.ranges, name)[column] for column in LAUNCHES)


def test_a_lost_kernel_does_not_take_its_launch_with_it(analyze: Callable[[TraceBuilder], Analysis]) -> None:
    builder = TraceBuilder()
    builder.range(0, 1_000, "outer")
    builder.range(5, 100, "kept")
    builder.range(200, 300, "lost")
    builder.launch(10, 1)
    builder.call(30, 40, 2)
    builder.call(210, 220, 3)
    builder.call(230, 240, 4, "cudaMemcpyAsync_v3020")
    builder.copy(500, 520, 4, 64)
    analysis = analyze(builder)
    assert [launches_of(analysis, name) for name in ("outer", "kept", "lost")] == [(3, 0, 2), (2, 0, 1), (1, 0, 1)]
    assert {row(analysis.ranges, "lost")[column] for column in WORK} == {None}, "unknown, and not 0"
    assert row(analysis.ranges, "lost")["memcpy_bytes"] == 64
    assert (row(analysis.ranges, "kept")["kernel_count"], row(analysis.ranges, "kept")["gpu_busy_ns"]) == (1, 50)
    for table in (analysis.range_instances, analysis.range_tree):
        assert (row(table, "lost")["kernel_count"], row(table, "lost")["kernel_total_ns"]) == (None, None)
        assert row(table, "kept")["kernel_count"] == 1
    assert row(analysis.range_instances, "lost")["gpu_idle_ns"] is None


def test_a_range_without_launches_has_no_kernel_and_says_so(analyze: Callable[[TraceBuilder], Analysis]) -> None:
    builder = TraceBuilder()
    builder.range(0, 100, "quiet")
    builder.launch(200, 1)
    analysis = analyze(builder)
    assert launches_of(analysis, "quiet") == (0, 0, 0)
    assert row(analysis.ranges, "quiet")["kernel_count"] == 0


def test_a_launch_counts_once_in_ranges_of_one_name_and_in_all_its_process(
    analyze: Callable[[TraceBuilder], Analysis],
) -> None:
    builder = TraceBuilder()
    builder.range(0, 1_000, "again")
    builder.range(5, 500, "again")
    builder.range(0, 1_000, "process", kind=60)
    builder.launch(10, 1)
    builder.launch(20, 2, tid=OTHER_TID)
    builder.call(600, 610, 3)
    analysis = analyze(builder)
    assert launches_of(analysis, "again") == (2, 0, 1)
    assert launches_of(analysis, "process") == (3, 0, 1)
    instances = analysis.range_instances[analysis.range_instances["range"] == "again"]
    assert instances["kernel_count"].tolist() == [1, 1]


def test_a_graph_of_copies_alone_is_not_lost(analyze: Callable[[TraceBuilder], Analysis]) -> None:
    builder = TraceBuilder()
    builder.launch(0, 9)
    builder.range(1_000, 2_000, "replay")
    builder.call(1_010, 1_020, 1, "cudaGraphLaunch_v10000")
    builder.copy(1_100, 1_200, 1, 64, kind=8)
    analysis = analyze(builder)
    assert launches_of(analysis, "replay") == (1, 1, 0)
    assert row(analysis.ranges, "replay")["gpu_busy_ns"] == 100
    assert analysis.coverage.launches_without_gpu_record == 0


def test_launches_are_known_where_every_kernel_was_lost(analyze: Callable[[TraceBuilder], Analysis]) -> None:
    builder = TraceBuilder()
    builder.gpu()
    builder.range(0, 1_000, "step")
    builder.call(10, 20, 1)
    builder.call(30, 40, 2, "cudaGraphLaunch_v10000")
    analysis = analyze(builder)
    assert (analysis.totals.kernel_count, analysis.totals.launch_count) == (None, 2)
    assert analysis.totals.graph_launch_count == 1
    assert launches_of(analysis, "step") == (2, 1, 2)
    assert {row(analysis.ranges, "step")[column] for column in WORK} == {None}
