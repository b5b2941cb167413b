"""The busy time of a range is the union of what it launched, adopted and captured, each piece of work once."""

import pandas as pd

from tests.analysis.attribution.test_adoption import analyze as analyze_adopted
from tests.analysis.attribution.test_adoption import training
from tests.analysis.attribution.test_calls_graph_work import analyze, create, layers, replay
from tests.builders.build_trace import OTHER_TID, TraceBuilder


def rows(analysis):
    return {row["range"]: row for row in analysis.ranges.to_dict("records")}


def test_replayed_kernels_keep_the_range_of_their_nodes_busy(tmp_path):
    found = rows(analyze(layers(TraceBuilder()), tmp_path))
    assert [found[name]["all_busy_ns"] for name in ("capture", "layer0", "layer1", "replay")] == [300, 200, 100, 300]
    assert found["layer0"]["gpu_busy_ns"] == 0


def test_overlapping_kernels_count_their_time_once(tmp_path):
    builder = layers(TraceBuilder())
    builder.kernel(5_110, 5_190, 1, "k0", stream=8, node=200)  # beside the kernels at 5,100 and 5,160
    found = rows(analyze(builder, tmp_path))
    assert found["layer0"]["captured_kernel_total_ns"] == 280
    assert found["layer0"]["all_busy_ns"] == 100 + 10 + 100


def test_instances_have_what_they_captured(tmp_path):
    analysis = analyze(layers(TraceBuilder()), tmp_path)
    found = {row["range"]: row for row in analysis.range_instances.to_dict("records") if row["instance"] == 0}
    assert (found["layer0"]["captured_kernel_count"], found["layer0"]["captured_kernel_total_ns"]) == (4, 200)
    assert found["replay"]["captured_kernel_count"] == 0


def test_an_instance_that_captures_and_replays_does_not_count_twice(tmp_path):
    builder = TraceBuilder()
    builder.range(1_000, 9_000, "step")
    for number in range(3):
        create(builder, 1_100 + number, 100 + number)
        create(builder, 3_000 + number, 200 + number, 100 + number)
    replay(builder, 5_000, 1, 200)
    replay(builder, 10_000, 2, 200)
    analysis = analyze(builder, tmp_path)
    step = rows(analysis)["step"]
    assert (step["kernel_count"], step["captured_kernel_count"], step["all_busy_ns"]) == (3, 3, 300)
    (instance,) = (row for row in analysis.range_instances.to_dict("records") if row["range"] == "step")
    assert (instance["kernel_count"], instance["captured_kernel_count"]) == (3, 3)


def test_copies_of_replays_and_of_helpers_are_in_the_totals(tmp_path):
    builder = training(TraceBuilder(), steps=1)
    builder.call(6_600, 6_610, 900, "cudaMemcpyAsync_v3020", tid=OTHER_TID)
    builder.copy(6_700, 6_800, 900, 4_096, pid=OTHER_TID & ~0xFFFFFF)
    builder.call(6_620, 6_630, 901, "cudaMemsetAsync_v3020", tid=OTHER_TID)
    builder.fill(6_820, 6_850, 901, 512, pid=OTHER_TID & ~0xFFFFFF)
    found = rows(analyze_adopted(builder, tmp_path))
    backward = found["backward"]
    assert (backward["caused_memcpy_bytes"], backward["caused_memset_bytes"]) == (4_096, 512)
    assert backward["memcpy_bytes"] == 0
    assert backward["all_busy_ns"] == backward["gpu_busy_ns"] + backward["adopted_kernel_total_ns"] + 130
    assert found["step"]["caused_memcpy_bytes"] == 4_096
    assert found["forward"]["caused_memcpy_bytes"] == 0
    assert found["forward"]["all_busy_ns"] == found["forward"]["gpu_busy_ns"] > 0


def test_adopted_work_inside_nested_ranges_of_one_name_counts_once(tmp_path):
    builder = training(TraceBuilder(), steps=2)
    builder.range(3_110, 7_990, "step")  # around `backward`, and inside another `step`
    found = rows(analyze_adopted(builder, tmp_path))
    assert found["step"]["all_busy_ns"] == found["forward"]["all_busy_ns"] + found["backward"]["all_busy_ns"]
    assert found["backward"]["all_busy_ns"] == 18 * 50  # 9 kernels of 50 ns in each of two steps, one after the other


def test_launched_only_leaves_it_unknown(tmp_path):
    found = rows(analyze_adopted(training(TraceBuilder()), tmp_path, launched_only=True))
    assert pd.isna(found["backward"]["all_busy_ns"])
