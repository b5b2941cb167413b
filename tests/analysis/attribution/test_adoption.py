"""Who waits for whom: autograd's pattern is adopted, threads that merely run at once are not."""

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_TID, PID, TraceBuilder

THIRD_TID = PID | 3
WAITED = "launched by a thread without a range while no other thread waited inside one"
SEVERAL = "launched by a thread without a range while several others waited inside ranges"


def analyze(builder, path, **options):
    with open_trace(builder.write(path / "t.sqlite")) as trace:
        return summarize(read_tables(trace), **options)


def adopted(analysis):
    return dict(zip(analysis.ranges["range"], analysis.ranges["adopted_kernel_count"], strict=True))


def training(builder, steps=3, helper=OTHER_TID, kernels=8):
    """Add steps of 10,000 ns: forward launches on the main thread, backward on another one while the main one waits."""
    for step in range(steps):
        at, ids = 10_000 * step, 100 * step
        builder.range(at, at + 9_000, "step")
        builder.range(at + 100, at + 3_000, "forward")
        builder.range(at + 3_100, at + 8_000, "backward")
        for number in range(kernels):
            builder.launch(at + 200 + 100 * number, ids + number + 1)
            builder.launch(at + 3_300 + 400 * number, ids + 50 + number, tid=helper)
        builder.launch(at + 3_150, ids + 99)
    return builder


def test_backward_holds_what_autograd_launched(tmp_path):
    analysis = analyze(training(TraceBuilder()), tmp_path)
    assert adopted(analysis) == {"step": 24, "forward": 0, "backward": 24}
    row = analysis.ranges.set_index("range").loc["backward"]
    assert (row["kernel_count"], row["kernel_total_ns"], row["adopted_kernel_total_ns"]) == (3, 150, 1200)
    coverage = analysis.coverage
    assert (coverage.attributed_kernels, coverage.adopted_kernels, coverage.reasons) == (51, 24, {})
    rows = analysis.range_instances
    assert rows.loc[rows["range"] == "backward", "adopted_kernel_count"].tolist() == [8, 8, 8]


def test_launched_only_is_as_nvidia_has_it(tmp_path):
    analysis = analyze(training(TraceBuilder()), tmp_path, launched_only=True)
    assert analysis.ranges["adopted_kernel_count"].isna().all()
    reason = "launched by a thread without a range while another thread had one"
    assert (analysis.coverage.attributed_kernels, analysis.coverage.reasons) == (27, {reason: 24})


@pytest.mark.parametrize(("name", "domain"), [("cub::DeviceScan", 3), ("MulBackward0, op_id = 3, seq = 9", 0)])
def test_ranges_of_libraries_on_the_helper_are_not_its_own(tmp_path, name, domain):
    builder = training(TraceBuilder(), steps=1)
    builder.range(3_200, 7_900, name, tid=OTHER_TID, domain=domain)
    found = analyze(builder, tmp_path)
    assert adopted(found)["backward"] == 8


def hooked(builder, *, name="layer backward", calls_of_main=()):
    """Add the same training, with two ranges a step that hooks open on the helper around its launches."""
    training(builder)
    for step in range(3):
        for number in range(2):
            begin = 10_000 * step + 3_250 + 1_200 * number
            builder.range(begin, begin + 1_100, name, tid=OTHER_TID)
    for at in calls_of_main:
        builder.call(at, at + 1, 9_000 + at, "cudaEventRecord")
    return builder


def test_ranges_of_a_thread_that_always_works_for_another_are_inside_its_ranges(tmp_path):
    analysis = analyze(hooked(TraceBuilder()), tmp_path)
    found = analysis.ranges.set_index("range")
    assert found["adopted_kernel_count"].to_dict() == {"step": 24, "forward": 0, "backward": 24, "layer backward": 0}
    assert found.loc["layer backward", ["kernel_count", "path"]].tolist() == [18, "step > backward > layer backward"]
    assert (analysis.coverage.attributed_kernels, analysis.coverage.reasons) == (51, {})
    assert "step > backward > layer backward" in analysis.range_tree["path"].tolist()


@pytest.mark.parametrize("options", [{"calls_of_main": (13_800,)}, {"name": "forward"}])
def test_ranges_of_a_thread_that_works_for_itself_stay_its_own(tmp_path, options):
    """The other thread did not wait during one of them, or both threads have ranges of this name."""
    found = analyze(hooked(TraceBuilder(), **options), tmp_path).ranges.set_index("range")
    assert found.loc["backward", "adopted_kernel_count"] <= 8
    assert "backward" not in found.loc[options.get("name", "layer backward"), "path"].split(" > ")


def test_a_helper_with_a_range_of_the_user_is_no_helper(tmp_path):
    builder = training(TraceBuilder(), steps=1)
    builder.range(3_200, 7_900, "worker", tid=OTHER_TID)
    assert adopted(analyze(builder, tmp_path)) == {"step": 0, "forward": 0, "backward": 0, "worker": 0}


def test_a_thread_that_runs_beside_a_busy_one_is_not_adopted(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 10_000, "serve")
    for number in range(40):
        builder.launch(100 + 200 * number, 1 + number)
        builder.launch(200 + 200 * number, 100 + number, tid=OTHER_TID)
    analysis = analyze(builder, tmp_path)
    assert adopted(analysis) == {"serve": 0} and analysis.coverage.reasons == {WAITED: 40}


def test_a_few_copies_beside_a_busy_thread_are_not_adopted(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 10_000, "forward")
    for number in range(90):
        builder.launch(100 + 100 * number, 1 + number)
    builder.launch(5_050, 200, tid=OTHER_TID)
    assert adopted(analyze(builder, tmp_path)) == {"forward": 0}


def test_turns_within_one_range_are_adopted(tmp_path):
    """Two micro-batches in one range: forward and backward take turns twice."""
    builder = TraceBuilder()
    builder.range(0, 20_000, "step")
    for turn in range(2):
        for number in range(20):
            builder.launch(10_000 * turn + 100 + 100 * number, 100 * turn + number + 1)
            builder.launch(10_000 * turn + 3_000 + 100 * number, 100 * turn + 50 + number, tid=OTHER_TID)
    assert adopted(analyze(builder, tmp_path)) == {"step": 40}


def test_of_several_that_wait_none_is_chosen(tmp_path):
    builder = training(TraceBuilder(), steps=1)
    builder.range(3_000, 8_500, "evaluate", tid=THIRD_TID)
    analysis = analyze(builder, tmp_path)
    assert adopted(analysis) == {"step": 0, "forward": 0, "evaluate": 0, "backward": 0}
    assert analysis.coverage.reasons == {SEVERAL: 8}


def test_sequence_numbers_tell_which_of_several_it_was(tmp_path):
    builder = training(TraceBuilder(), steps=1)
    builder.range(3_000, 8_500, "evaluate", tid=THIRD_TID)
    builder.range(3_010, 3_020, "aten::add, op_id = 7, seq = 4", tid=THIRD_TID)
    builder.range(150, 2_000, "aten::mul, op_id = 1, seq = 5")
    builder.range(3_200, 7_900, "MulBackward0, op_id = 2, seq = 5", tid=OTHER_TID)
    assert adopted(analyze(builder, tmp_path))["backward"] == 8


def test_a_thread_of_another_process_waits_for_nobody_here(tmp_path):
    builder = training(TraceBuilder(), steps=1, helper=(1 << 48) | (200 << 24) | 9)
    analysis = analyze(builder, tmp_path)
    assert adopted(analysis)["backward"] == 0
    assert analysis.coverage.reasons == {"launched outside every range": 8}


def test_while_the_other_thread_is_inside_a_call_it_waits_for_the_gpu(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 10_000, "evaluate")
    builder.call(100, 9_900, 500, "cudaDeviceSynchronize_v3020")
    for number in range(8):
        builder.launch(1_000 + 500 * number, 1 + number, tid=OTHER_TID)
    assert adopted(analyze(builder, tmp_path)) == {"evaluate": 0}


def test_a_real_job_of_two_ranks(trace_path):
    with open_trace(trace_path("ddp_rank0")) as trace:
        analysis = summarize(read_tables(trace))
    rows = analysis.range_instances
    backward = rows[rows["range"] == "backward"]
    assert backward["adopted_kernel_count"].tolist() == [80] + [86] * 19, "the first step adds no gradients up"
    assert analysis.coverage.adopted_kernels == 1580 and analysis.coverage.captured_kernels == 0


def test_a_process_of_very_many_threads_is_bounded_and_said(tmp_path):
    builder = TraceBuilder()
    for number in range(150):
        builder.range(0, 100_000, f"wait{number}", tid=PID | (10 + number))
        builder.launch(1_000 + 10 * number, number + 1, tid=PID | (1_000 + number))
    analysis = analyze(builder, tmp_path)
    too_many = "launched by a thread without a range in a process of too many threads to tell which waited"
    assert analysis.coverage.reasons == {SEVERAL: 66, too_many: 84}  # 66 times 150 pairs are fewer than 10,000
    assert analysis.coverage.adopted_kernels == 0
