"""Graphs that were recorded as wholes are rows among the kernels, and shares are of both."""

from pathlib import Path

import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.kernels.labels import label_kernel
from tests.builders.build_trace import PID, TraceBuilder


def graph(builder: TraceBuilder, start: int, end: int, correlation: int, number: int | None) -> None:
    builder.call(start - 50, start - 40, correlation, "cudaGraphLaunch_v10000")
    builder.put(
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=start, end=end, deviceId=0, contextId=1, streamId=7,
        correlationId=correlation, globalPid=PID, graphId=number, graphExecId=number,
    )  # fmt: skip


def test_a_kernel_beside_graphs_has_its_share_of_both(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.launch(0, 1)
    graph(builder, 1_000, 1_300, 2, 3)
    graph(builder, 2_000, 2_500, 3, 3)
    graph(builder, 3_000, 3_150, 4, 8)
    analysis = analyze_trace(builder.write(tmp_path / "t.sqlite"))
    found = {row["name"]: row for row in analysis.kernels.to_dict("records")}
    assert list(found) == ["[CUDA graph 3]", "[CUDA graph 8]", "kernel(int)"]
    assert [row["share_pct"] for row in found.values()] == pytest.approx([80, 15, 5])
    whole = found["[CUDA graph 3]"]
    assert (whole["instances"], whole["total_ns"], whole["avg_ns"], whole["min_ns"]) == (2, 800, 400, 300)
    assert (whole["category"], whole["label"], whole["short_name"]) == ("graph", "[CUDA graph 3]", "[CUDA graph 3]")
    assert analysis.totals.kernel_count is None, "how many kernels a graph holds is unknown"
    drawn = analysis.timeline.gpu
    assert drawn.loc[drawn["kind"] == "graph", "name"].tolist() == ["[CUDA graph 3]"] * 2 + ["[CUDA graph 8]"]


def test_a_graph_without_an_id_is_a_row_all_the_same(tmp_path: Path) -> None:
    builder = TraceBuilder()
    graph(builder, 1_000, 1_300, 2, None)
    analysis = analyze_trace(builder.write(tmp_path / "t.sqlite"))
    assert analysis.kernels[["name", "instances", "share_pct"]].values.tolist() == [["[CUDA graph]", 1, 100.0]]


def test_the_name_of_a_graph_is_its_label() -> None:
    assert label_kernel("[CUDA graph 12]") == "[CUDA graph 12]"
