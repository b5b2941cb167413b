import itertools

import pytest

from nsysprof.app.analyze import analyze_trace
from tests.builders.build_trace import TraceBuilder


@pytest.fixture
def analyze(tmp_path):
    numbers = itertools.count()
    return lambda builder: analyze_trace(builder.write(tmp_path / f"{next(numbers)}.sqlite"))


def note(analysis, code):
    return next((each for each in analysis.notes if each.code == code), None)


def launches(count):
    builder = TraceBuilder("2025.3")
    builder.gpu(0, cuda=0)
    for number in range(1, count + 1):
        builder.launch(1_000 * number, number)
    return builder


def test_launches_come_from_the_calls(analyze):
    """Of 3,346 launches of a cut trace 1,632 had a kernel left, and only those were counted."""
    builder = launches(4)
    for number in range(5, 11):
        builder.call(1_000 * number, 1_000 * number + 10, number)
    analysis = analyze(builder)
    assert analysis.totals.launch_count == analysis.coverage.launches == 10
    assert analysis.totals.kernel_count == 4


@pytest.mark.parametrize(("orphans", "is_told"), [(1, False), (3, True)])
def test_kernels_without_a_launch_record_are_told_above_one_percent(analyze, orphans, is_told):
    builder = launches(200 - orphans)
    for number in range(orphans):
        builder.kernel(500_000 + 100 * number, 500_050 + 100 * number, 9_000 + number)
    found = note(analyze(builder), "kernels-without-launches")
    assert (found is not None) == is_told
    assert found is None or found.text.startswith("3 of 200 kernels")


def test_kernels_that_lost_their_names(analyze):
    builder = launches(2)
    builder.call(9_000, 9_010, 77)
    builder.kernel(9_100, 9_150, 77)
    builder.text("[Unknown]")
    rows = builder.tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    columns = [column.split()[0] for column in rows[0].split(", ")]
    last = list(rows[1][-1])
    last[columns.index("demangledName")] = last[columns.index("shortName")] = builder.text("[Unknown]")
    rows[1][-1] = last
    found = note(analyze(builder), "unknown-names")
    assert found.text.startswith("1 of 3 kernels are called [Unknown]")


@pytest.mark.parametrize(("stream", "is_told"), [(7, False), (13, False), (21, True)])
@pytest.mark.parametrize("generation", ["2022.4", "2025.3"])
def test_kernels_on_streams_that_nobody_created(analyze, generation, stream, is_told):
    builder = TraceBuilder(generation)
    builder.gpu(0, cuda=0)
    null = {"streamId": 7} if generation == "2022.4" else {"nullStreamId": 7}
    table = "TARGET_INFO_CUDA_NULL_STREAM" if generation == "2022.4" else "TARGET_INFO_CUDA_CONTEXT_INFO"
    builder.put(table, processId=100, contextId=1, deviceId=0, **null)
    builder.put("TARGET_INFO_CUDA_STREAM", processId=100, contextId=1, streamId=13)
    builder.call(0, 10, 1)
    builder.kernel(100, 150, 1, stream=stream)
    found = note(analyze(builder), "unknown-streams")
    assert (found is not None) == is_told
    assert found is None or found.text.startswith("1 of 1 kernels ran on 1 streams that no call created")


def test_streams_of_a_trace_without_their_table_are_not_called_lost(analyze):
    assert note(analyze(launches(3)), "unknown-streams") is None


def test_ranges_that_end_with_the_recording(analyze):
    builder = launches(3)
    for name in ("outer", "inner"):
        builder.range(0, 50_000, name)
    assert note(analyze(builder), "ranges-cut").text.startswith("2 NVTX ranges")


def test_one_range_around_all_is_no_cut_one(analyze):
    builder = launches(3)
    builder.range(0, 50_000, "outer")
    builder.range(0, 40_000, "inner")
    assert note(analyze(builder), "ranges-cut") is None


def test_advice_does_not_ask_for_what_was_on(analyze):
    builder = launches(3)
    builder.fact("PROCESS_0:COLLECT_GPU_MEMORY_USAGE", "true")
    builder.fact("PROCESS_0:COLLECT_NVTX_TRACE", "true")
    analysis = analyze(builder)
    memory, ranges = note(analysis, "no-memory-usage"), note(analysis, "no-nvtx")
    assert "was on" in memory.text
    assert "--cuda-memory-usage" not in memory.text + memory.next_step
    assert "--trace" not in ranges.next_step


def test_advice_asks_for_metrics_that_were_not_sampled(analyze):
    assert "--gpu-metrics" in note(analyze(launches(3)), "no-dram-counters").next_step


@pytest.mark.parametrize(("was_on", "asks"), [("true", False), ("false", True)])
def test_advice_does_not_ask_for_a_trace_of_cuda_that_was_on(analyze, was_on, asks):
    """Without calls, and without anything of a GPU but its name."""
    for rows in (1, 0):
        builder = TraceBuilder("2025.3")
        builder.gpu(0, cuda=0)
        builder.fact("PROCESS_0:COLLECT_CUDA_TRACE", was_on)
        if rows:
            builder.kernel(100, 200, 1)
        found = note(analyze(builder), "no-calls" if rows else "no-kernels")
        assert ("--trace=cuda" in found.next_step) == asks


def test_advice_does_not_ask_for_metrics_that_were_sampled(analyze):
    builder = launches(3)
    builder.fact("GPU_METRICS_OPTIONS:GPU_0:ID", "0")
    assert "--gpu-metrics" not in note(analyze(builder), "no-dram-counters").next_step


def test_a_trace_without_anything_is_not_said_to_hold_ranges(analyze):
    analysis = analyze(TraceBuilder("2025.3"))
    assert "no NVTX range" in note(analysis, "no-gpu").text
    assert "NVTX ranges" in note(analysis, "no-gpu").next_step
    assert note(analysis, "no-nvtx") is None, "the other note says it"
