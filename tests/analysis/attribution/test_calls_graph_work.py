"""Kernels of replayed graphs belong to the ranges that were open when their nodes were created."""

import pandas as pd
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_PID, OTHER_TID, PID, TID, TraceBuilder

NODE = "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, nameId INTEGER, graphNodeId INTEGER, "
NODE += "originalGraphNodeId INTEGER"


def create(builder, at, node, original=None, tid=TID, table="CUDA_GRAPH_NODE_EVENTS"):
    builder.row(table, NODE, (at, at, 77, tid, 1, node, original))


def layers(builder, tid=TID, exec_graph=200):
    """Two layers whose three nodes are captured at 1,000 ns, instantiated at 3,000 and replayed twice from 5,000 on."""
    builder.range(900, 2_000, "capture", tid=tid)
    builder.range(1_000, 1_400, "layer0", tid=tid)
    builder.range(1_500, 1_900, "layer1", tid=tid)
    for number, at in enumerate((1_100, 1_200, 1_600)):
        create(builder, at, 100 + number, tid=tid)
        create(builder, 3_000 + number, exec_graph + number, tid=tid)
        create(builder, 3_000 + number, exec_graph + number, 100 + number, tid=tid)
    replay(builder, 5_000, 1, exec_graph, tid)
    replay(builder, 7_000, 2, exec_graph, tid)
    return builder


def replay(builder, at, correlation, graph, tid=TID):
    builder.range(at, at + 1_000, "replay", tid=tid)
    builder.call(at + 10, at + 50, correlation, "cudaGraphLaunch_v10000", tid=tid)
    for number in range(3):
        begin = at + 100 + 60 * number
        builder.kernel(begin, begin + 50, correlation, f"k{number}", pid=tid & ~0xFFFFFF, node=graph + number)


def analyze(builder, path):
    with open_trace(builder.write(path / "t.sqlite")) as trace:
        return summarize(read_tables(trace))


def captured(analysis):
    return dict(zip(analysis.ranges["range"], analysis.ranges["captured_kernel_count"], strict=True))


def test_kernels_of_replays_go_to_the_ranges_of_their_nodes(tmp_path):
    analysis = analyze(layers(TraceBuilder()), tmp_path)
    assert captured(analysis) == {"capture": 6, "layer0": 4, "layer1": 2, "replay": 0}
    row = analysis.ranges.set_index("range").loc["layer0"]
    assert (row["kernel_count"], row["captured_kernel_total_ns"]) == (0, 200)
    assert (analysis.coverage.graph_kernels, analysis.coverage.graph_reasons) == (6, {})


def test_several_instantiations_and_graphs_within_graphs(tmp_path):
    builder = layers(TraceBuilder())
    for number in range(3):  # a copy in a larger graph, which is instantiated again
        create(builder, 8_000 + number, 300 + number, 100 + number)
        create(builder, 8_100 + number, 400 + number, 300 + number)
    replay(builder, 9_000, 3, 400)
    assert captured(analyze(builder, tmp_path)) == {"capture": 9, "layer0": 6, "layer1": 3, "replay": 0}


def test_nodes_of_two_processes_have_the_same_ids(tmp_path):
    builder = layers(TraceBuilder())
    other = OTHER_PID | 1
    builder.range(1_050, 1_650, "elsewhere", tid=other)
    for number, at in enumerate((1_100, 1_200, 1_700)):
        create(builder, at, 100 + number, tid=other)
        create(builder, 3_000, 200 + number, 100 + number, tid=other)
    replay(builder, 5_000, 1, 200, other)
    found = captured(analyze(builder, tmp_path))
    assert found == {"capture": 6, "layer0": 4, "elsewhere": 2, "layer1": 2, "replay": 0}


def test_a_range_that_both_captures_and_replays_has_each_kernel_once(tmp_path):
    builder = layers(TraceBuilder())
    builder.range(100, 6_000, "main")
    analysis = analyze(builder, tmp_path)
    row = analysis.ranges.set_index("range").loc["main"]
    assert (row["kernel_count"], row["captured_kernel_count"]) == (3, 3)


def test_nodes_that_were_created_before_the_recording_have_that_reason(tmp_path):
    builder = layers(TraceBuilder())
    replay(builder, 9_000, 3, 900)
    analysis = analyze(builder, tmp_path)
    assert captured(analysis)["layer0"] == 4
    assert analysis.coverage.graph_reasons == {"of graphs whose nodes were created while nothing was recorded": 3}


def test_a_trace_without_node_events_says_so(tmp_path):
    builder = TraceBuilder()
    replay(builder, 5_000, 1, 200)
    reason = "of graphs whose nodes' creators this nsys does not record"
    assert analyze(builder, tmp_path).coverage.graph_reasons == {reason: 3}


def test_what_ran_after_an_update_is_unknown(tmp_path):
    builder = layers(TraceBuilder())
    builder.call(6_500, 6_600, 77, "cudaGraphExecUpdate_v10020")
    analysis = analyze(builder, tmp_path)
    assert captured(analysis) == {"capture": 3, "layer0": 2, "layer1": 1, "replay": 0}
    reason = "of graphs that may have been updated since their nodes were created"
    assert analysis.coverage.graph_reasons == {reason: 3}


def test_a_ring_of_copies_ends(tmp_path):
    builder = TraceBuilder()
    create(builder, 10, 200, 201)
    create(builder, 11, 201, 200)
    replay(builder, 5_000, 1, 200)
    assert analyze(builder, tmp_path).coverage.graph_reasons == {
        "of graphs whose nodes were created while nothing was recorded": 3
    }


def test_the_rows_of_an_older_nsys_are_nodes_too(tmp_path):
    builder = TraceBuilder()
    builder.range(1_000, 1_400, "layer0")
    create(builder, 1_100, 100, table="CUDA_GRAPH_EVENTS")
    create(builder, 3_000, 200, 100, table="CUDA_GRAPH_EVENTS")
    replay(builder, 5_000, 1, 200)
    assert captured(analyze(builder, tmp_path)) == {"layer0": 1, "replay": 0}


def test_a_captured_backward_pass_goes_to_the_range_that_waited(tmp_path):
    builder = TraceBuilder()
    builder.range(1_000, 3_000, "backward")
    for number in range(5):
        at = 1_100 + 300 * number
        builder.call(at, at + 20, None, tid=OTHER_TID)
        create(builder, at + 10, 100 + number, tid=OTHER_TID)
        create(builder, 3_500, 200 + number, 100 + number)
    replay(builder, 5_000, 1, 200)
    assert captured(analyze(builder, tmp_path)) == {"backward": 3, "replay": 0}


def test_whole_graphs_leave_what_was_captured_unknown(trace_path, tmp_path):
    builder = TraceBuilder()
    builder.range(1_000, 1_400, "layer0")
    builder.range(4_000, 6_000, "replay")
    builder.call(900, 910, 1, "cudaStreamBeginCapture_v10000")
    builder.call(1_900, 1_910, 2, "cudaStreamEndCapture_v10000")
    builder.call(5_000, 5_010, 3, "cudaGraphLaunch_v10000")
    builder.graph(5_100, 5_900, 3)
    found = analyze(builder, tmp_path).ranges.set_index("range")["captured_kernel_count"]
    assert pd.isna(found["layer0"]) and found["replay"] == 0


def test_every_kernel_of_a_real_replay_leads_to_its_node(trace_path):
    with open_trace(trace_path("graph_node")) as trace:
        coverage = summarize(read_tables(trace)).coverage
    assert (coverage.graph_kernels, coverage.graph_reasons) == (400, {})


@pytest.mark.parametrize("pid", [PID])
def test_copies_of_replays_do_not_disturb(tmp_path, pid):
    builder = layers(TraceBuilder("2025.3"))
    builder.put(
        "CUPTI_ACTIVITY_KIND_MEMCPY", start=5_500, end=5_600, deviceId=0, contextId=1, streamId=7, correlationId=1,
        globalPid=pid, bytes=64, copyKind=8, graphNodeId=202,
    )  # fmt: skip
    assert captured(analyze(builder, tmp_path))["layer0"] == 4
