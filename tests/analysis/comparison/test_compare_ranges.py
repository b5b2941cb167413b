from nsysprof.analysis.comparison import compare_ranges as module
from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.api import use_cases
from nsysprof.results.comparison import METRICS, PARTS, WHOLE_TRACE, KernelFacts, RangeFacts
from tests.builders.build_trace import TraceBuilder


def facts(*, instances=1, calls=None, parts=None, kernels=None, dram_error=0, **metrics):
    parts = None if parts is None else {**dict.fromkeys(PARTS, 0), **parts}
    known = {**dict.fromkeys(METRICS, 0), **metrics}
    if parts is not None:
        known["wall"] = sum(parts.values())
    return RangeFacts(instances, calls, known, parts, kernels or {}, dram_error)


def kernel(count, total, category="gemm"):
    return KernelFacts(category, "gemm", count, total)


def compare(old, new):
    """One range on both sides, in one trace or several."""
    traces = [[{("step", ""): each} for each in (side if isinstance(side, list) else [side])] for side in (old, new)]
    (found,) = compare_ranges(*traces)
    return found


def test_the_same_is_no_change():
    one = facts(launches=3, wall=100, vram=7, parts={"kernels_ns": 60, "gaps_ns": 40}, kernels={"g": kernel(3, 60)})
    found = compare(one, one)
    assert {metric.change for metric in found.metrics.values()} == {0}
    assert set(found.parts.values()) == {0}
    assert [each.how for each in found.kernels] == ["both"]


def test_ranges_of_one_side_appear_and_vanish():
    found = compare_ranges([{("a", ""): facts(), ("b", ""): facts()}], [{("b", ""): facts(), ("c", "x"): facts()}])
    assert [(each.label, each.how) for each in found] == [("a", "vanished"), ("b", "both"), ("x:c", "appeared")]


def test_the_programs_ranges_with_the_most_time_come_first_and_libraries_last():
    walls = {(WHOLE_TRACE, ""): None, ("load", ""): 5, ("ncclCommDestroy", "NCCL"): 900, ("step", ""): 50}
    old = {key: facts(wall=wall) for key, wall in reversed(walls.items())}
    new = {**old, ("load", ""): facts(wall=70)}
    found = compare_ranges([old], [new])
    assert [(each.range, each.is_library) for each in found] == [
        (WHOLE_TRACE, False), ("load", False), ("step", False), ("ncclCommDestroy", True),
    ]  # fmt: skip


def test_of_many_ranges_those_with_the_most_time_on_either_side_are_compared(monkeypatch):
    monkeypatch.setattr(module, "MOST_RANGES", 2)
    old = {(name, ""): facts(wall=wall) for name, wall in (("a", 9), ("b", 1), ("c", 2), (WHOLE_TRACE, None))}
    new = {**old, ("b", ""): facts(wall=7)}
    found = compare_ranges([old], [new])
    assert [(each.range, each.how) for each in found] == [(WHOLE_TRACE, "both"), ("a", "both"), ("b", "both")]


def test_what_is_left_out_is_said(monkeypatch, tmp_path):
    """Two traces of 9.6 MB with 60,000 names of ranges each took 26 s and 1.7 GB."""
    monkeypatch.setattr(module, "MOST_RANGES", 50)
    monkeypatch.setattr("nsysprof.analysis.comparison.compare.MOST_RANGES", 50)
    trace = TraceBuilder()
    for number in range(80):
        trace.launch(1000 * number + 10, number + 1)
        trace.range(1000 * number, 1000 * number + 900, "r_" + "x" * number)
    path = trace.write(tmp_path / "t.sqlite")
    found = use_cases.compare(path, path).comparison
    assert len(found.ranges) == 51
    (note,) = [note.text for note in found.notes if note.code == "ranges-left-out"]
    assert note.startswith("The 50 ranges with the most time are compared one by one")
    assert "30 with less time are left out" in note


def test_numbers_are_of_one_call_and_peaks_are_not():
    old = facts(calls=10, launches=200, vram=512, kernel_time=1005)
    new = facts(calls=20, launches=420, vram=512, kernel_time=2010)
    found = compare(old, new)
    assert (found.metrics["launches"].baseline, found.metrics["launches"].candidate) == (20, 21)
    assert found.metrics["vram"].change == 0
    assert found.metrics["kernel_time"].change == 0


def test_a_capture_against_a_bare_trace_counts_instances():
    found = compare(facts(calls=10, launches=200), facts(launches=200))
    assert found.metrics["launches"].change == 0
    assert (found.baseline_calls, found.candidate_calls) == (1, 1)


def test_unknown_on_one_side_stays_unknown():
    metric = compare(facts(vram=None), facts(vram=5)).metrics["vram"]
    assert (metric.change, metric.change_pct, metric.candidate) == (None, None, 5)
    some = compare([facts(vram=None), facts(vram=3)], facts(vram=5)).metrics["vram"]
    assert some.change is None


def test_parts_add_up_also_of_one_call():
    old = facts(instances=3, parts={"kernels_ns": 100, "gaps_ns": 11})
    new = facts(instances=7, parts={"kernels_ns": 300, "gaps_ns": 5, "after_ns": 3})
    found = compare(old, new)
    assert found.per_call
    assert found.wall_change_ns == sum(found.parts.values()) == round(308 / 7) - round(111 / 3)
    assert abs(found.parts["kernels_ns"] - (300 / 7 - 100 / 3)) <= 1


def test_of_several_traces_the_median_and_a_real_one_for_the_parts():
    many = [facts(launches=n, parts={"kernels_ns": 10 * n}) for n in (5, 1, 3)]
    found = compare(many, facts(launches=4, parts={"kernels_ns": 40}))
    assert found.metrics["launches"].baseline == 3
    assert found.metrics["launches"].baselines == (5, 1, 3)
    assert found.parts["kernels_ns"] == 10


def test_a_renamed_kernel_is_one_row():
    old = facts(kernels={"cutlass_gemm_v1": kernel(2, 50), "softmax_f": kernel(1, 9, "softmax")})
    new = facts(kernels={"cutlass_gemm_v2": kernel(2, 70), "copy_k": kernel(1, 4, "copy")})
    found = {each.how: each for each in compare(old, new).kernels}
    assert set(found) == {"renamed", "vanished", "appeared"}
    assert (found["renamed"].baseline_name, found["renamed"].candidate_name) == ("cutlass_gemm_v1", "cutlass_gemm_v2")
    assert found["renamed"].role == "gemm"
    assert found["vanished"].baseline_name == "softmax_f"


def test_changes_of_kernels_add_up_to_that_of_kernel_time():
    old = facts(kernels={"a_gemm": kernel(2, 50), "b": kernel(1, 9, "other")}, kernel_time=59)
    new = facts(kernels={"a_gemm": kernel(2, 70), "c": kernel(1, 4, "copy")}, kernel_time=74)
    found = compare(old, new)
    moved = sum(each.candidate_ns - each.baseline_ns for each in found.kernels)
    assert moved == found.metrics["kernel_time"].change == 15


def test_a_difference_of_no_more_than_its_error_is_said_to_be_one():
    sides = [facts(dram=old, dram_error=30) for old in (1000, 1050, 1070)]
    assert compare(sides[0], sides[1]).metrics["dram"].is_within_error
    assert not compare(sides[0], sides[2]).metrics["dram"].is_within_error
    assert not compare(sides[0], sides[1]).metrics["launches"].is_within_error, "a count has no error"
