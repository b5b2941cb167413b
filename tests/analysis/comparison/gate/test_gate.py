from dataclasses import replace

import pytest

from nsysprof.analysis.comparison.gate.gate import judge, parse_gate
from nsysprof.results.checks import Outcome
from nsysprof.results.comparison import (
    SAME_SAMPLES,
    WHOLE_TRACE,
    LatencyChange,
    LatencyComparison,
    LatencyVerdict,
    MetricChange,
    RangeChange,
    SideOfCase,
    StepChange,
)

PASS, REGRESSION, INCONCLUSIVE = Outcome.PASS, Outcome.REGRESSION, Outcome.INCONCLUSIVE
OK = SideOfCase("ok", median_ns=1.0)


def case(verdict, ratio, low, high, *, old=OK, new=OK, reason=""):
    return LatencyChange("flash", verdict, old, new, reason, "measure more", ratio, low, high)


def metric(name, old, new, error=0.0):
    def middle(values):
        known = [value for value in values if value is not None]
        return sorted(known)[len(known) // 2] if known and len(known) == len(values) else None

    return MetricChange(name, tuple(old), tuple(new), middle(old), middle(new), error)


def ranged(name, old, new, *, how="both", error=0.0):
    return RangeChange("step", "", how, 1, 1, {name: metric(name, old, new, error)})


def outcome(rule, *, cases=(), ranges=(), lost=()):
    (result,) = judge(parse_gate(rule), LatencyComparison(tuple(cases)), ranges, lost)
    return result.outcome


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (case(LatencyVerdict.SLOWER, 1.05, 1.04, 1.06), REGRESSION),
        (case(LatencyVerdict.SLOWER, 1.03, 1.01, 1.05), INCONCLUSIVE),
        (case(LatencyVerdict.SLOWER, 1.02, 1.01, 1.03), PASS),
        (case(LatencyVerdict.SLOWER, 1.02, 1.00, 1.04), INCONCLUSIVE),
        (case(LatencyVerdict.INCONCLUSIVE, 1.05, 0.99, 1.11), INCONCLUSIVE),
        (case(LatencyVerdict.INCONCLUSIVE, 1.0, 0.90, 1.02), PASS),
        (case(LatencyVerdict.SAME, 1.0, 0.99, 1.01), PASS),
        (case(LatencyVerdict.FASTER, 0.9, 0.88, 0.92), PASS),
        (case(LatencyVerdict.SAME, 1.0, 1.0, 1.0, reason=SAME_SAMPLES), PASS),
        (case(LatencyVerdict.INCONCLUSIVE, None, None, None, reason="too few"), INCONCLUSIVE),
        (case(LatencyVerdict.INCONCLUSIVE, 1.2, None, None, reason="too few"), INCONCLUSIVE),
        (case(None, None, None, None, new=SideOfCase("wrong", "off by 3")), REGRESSION),
        (case(None, None, None, None, new=SideOfCase("absent")), INCONCLUSIVE),
        (case(None, None, None, None, old=SideOfCase("absent")), PASS),
        (case(None, None, None, None, old=SideOfCase("ineligible"), new=SideOfCase("ineligible")), PASS),
    ],
)
def test_slower(change, wanted):
    assert outcome("slower:3%", cases=[change]) is wanted


def test_among_many_cases_at_the_limit_one_beyond_it_by_chance_is_no_regression():
    """The interval of one in forty is beyond the limit where all are at it; so is each of a few that are beyond it."""

    def at(ratio):
        low, high = ratio * 0.99, ratio * 1.01
        change = case(LatencyVerdict.SLOWER, ratio, low, high)
        return replace(change, error=0.005, freedom=20.0)

    by_chance, far = at(1.045), at(1.06)
    assert outcome("slower:3%", cases=[by_chance]) is REGRESSION
    assert outcome("slower:3%", cases=[by_chance, *[at(1.03)] * 19]) is INCONCLUSIVE
    assert outcome("slower:3%", cases=[far, *[at(1.03)] * 19]) is REGRESSION
    assert outcome("slower:3%", cases=[by_chance] * 20) is REGRESSION


MS = 1_000_000
LOST = ["the trace of b is not complete (launches-without-kernels)"]


@pytest.mark.parametrize(
    ("rule", "verdict", "lost", "wanted", "says"),
    [
        ("step:3%", case(LatencyVerdict.SLOWER, 1.10, 1.08, 1.12), (), REGRESSION, ""),
        (
            "step:3%",
            case(LatencyVerdict.SLOWER, 1.03, 1.01, 1.05),
            (),
            INCONCLUSIVE,
            "the limit is within the interval",
        ),
        ("step:3%", case(LatencyVerdict.SAME, 1.00, 0.99, 1.02), (), PASS, ""),
        ("step:3%", case(LatencyVerdict.FASTER, 0.50, 0.48, 0.52), (), PASS, ""),
        ("step:+1ms", case(LatencyVerdict.SLOWER, 1.10, 1.08, 1.12), (), INCONCLUSIVE, "the limit is within"),
        ("step:+500us", case(LatencyVerdict.SLOWER, 1.10, 1.08, 1.12), (), REGRESSION, ""),
        ("step:+2ms", case(LatencyVerdict.SLOWER, 1.10, 1.08, 1.12), (), PASS, ""),
        ("step:3%", None, (), INCONCLUSIVE, "too few steps for a verdict"),
        ("step:3%", case(LatencyVerdict.SLOWER, 1.10, 1.08, 1.12), LOST, INCONCLUSIVE, "is not complete"),
        ("step:3%", case(LatencyVerdict.SAME, 1.00, 0.99, 1.02), LOST, INCONCLUSIVE, "is not complete"),
    ],
)
def test_the_time_of_a_step(rule, verdict, lost, wanted, says):
    step = StepChange("train", 10 * MS, 11 * MS, verdict)
    (result,) = judge(parse_gate(rule), LatencyComparison(), (), lost, None, step)
    assert (result.outcome, result.checked) == (wanted, 1)
    for found in result.findings:
        assert found.where == "train"
        assert found.text.startswith("10.0 ms to 11.0 ms")
        assert says in found.text


def test_an_unknown_time_of_a_step_is_no_pass():
    (result,) = judge(parse_gate("step:3%"), LatencyComparison(), (), ())
    assert (result.outcome, result.checked) == (INCONCLUSIVE, 0)
    assert "unknown" in result.findings[0].text
    assert result.findings[0].next_step


def test_faster_is_the_other_way_round():
    assert outcome("faster:10%", cases=[case(LatencyVerdict.FASTER, 0.8, 0.78, 0.82)]) is REGRESSION
    assert outcome("faster:10%", cases=[case(LatencyVerdict.FASTER, 0.95, 0.94, 0.96)]) is PASS
    assert outcome("faster:10%", cases=[case(LatencyVerdict.SLOWER, 1.5, 1.4, 1.6)]) is PASS


@pytest.mark.parametrize(
    ("rule", "old", "new", "wanted"),
    [
        ("launches:+1", [20], [21], REGRESSION),
        ("launches:+1", [20], [20], PASS),
        ("launches:+1", [20], [19], PASS),
        ("launches:+1", [20], [20.9], PASS),
        ("launches:+5%", [20], [21], REGRESSION),
        ("launches:+6%", [20], [21], PASS),
        ("launches:+5%", [0], [1], REGRESSION),
        ("launches:+5%", [0], [0], PASS),
        ("vram:+5%", [100], [110], REGRESSION),
        ("vram:+64MiB", [100], [110], PASS),
        ("launches:+1", [20, 20, 21], [21, 22, 22], INCONCLUSIVE),
        ("launches:+1", [20, 20, 20], [21, 21, 22], REGRESSION),
        ("launches:+1", [20, None], [21], INCONCLUSIVE),
        ("vram:+5%", [100], [None], INCONCLUSIVE),
    ],
)
def test_numbers_of_ranges(rule, old, new, wanted):
    assert outcome(rule, ranges=[ranged(rule.partition(":")[0], old, new)]) is wanted


def test_a_sampled_number_needs_more_than_its_error():
    assert outcome("dram:5%", ranges=[ranged("dram", [100], [110], error=8)]) is INCONCLUSIVE
    assert outcome("dram:5%", ranges=[ranged("dram", [100], [130], error=8)]) is REGRESSION
    assert outcome("dram:5%", ranges=[ranged("dram", [100], [100], error=2)]) is PASS


def test_bytes_are_those_copied_and_set():
    change = RangeChange(
        "s", "", "both", 1, 1, {"copied": metric("copied", [10], [15]), "filled": metric("filled", [5], [7])}
    )
    (result,) = judge(parse_gate("bytes:7B"), LatencyComparison(), [change], ())
    assert result.outcome is REGRESSION
    assert "15 B to 22 B" in result.findings[0].text


def test_a_vanished_range_is_no_pass_and_an_appeared_one_no_fault():
    assert outcome("launches:+1", ranges=[ranged("launches", [1], [], how="vanished")]) is INCONCLUSIVE
    ranges = [ranged("launches", [], [1], how="appeared"), ranged("launches", [1], [1])]
    assert outcome("launches:+1", ranges=ranges) is PASS


def test_nothing_to_check_is_no_pass():
    assert outcome("slower:3%") is INCONCLUSIVE
    assert outcome("dram:5%", ranges=[ranged("dram", [None], [None])]) is INCONCLUSIVE


def test_a_trace_that_lost_data_proves_nothing():
    for new in ([20], [30]):
        assert outcome("launches:+1", ranges=[ranged("launches", [20], new)], lost=LOST) is INCONCLUSIVE


def test_peaks_of_the_allocator_count_as_vram():
    change = case(
        LatencyVerdict.SAME, 1.0, 0.99, 1.01, old=SideOfCase("ok", peak_bytes=100), new=SideOfCase("ok", peak_bytes=110)
    )
    assert outcome("vram:+5%", cases=[change]) is REGRESSION
    assert outcome("vram:+11%", cases=[change]) is PASS


def whole(name, old, new):
    return replace(ranged(name, old, new), range=WHOLE_TRACE)


def test_the_peak_of_all_says_whether_more_memory_is_needed():
    """A peak that fell from 15.1 to 9.1 GiB was a regression, because one inner range held more than before."""
    inner = ranged("vram", [4 << 30], [9 << 30])
    assert outcome("vram:+5%", ranges=[whole("vram", [15 << 30], [9 << 30]), inner]) is PASS
    assert outcome("vram:+5%", ranges=[whole("vram", [9 << 30], [15 << 30]), inner]) is REGRESSION
    assert outcome("vram:+5%", ranges=[whole("vram", [None], [None]), inner]) is REGRESSION


def test_launches_of_a_vanished_range_are_fewer():
    gone = ranged("launches", [8], [], how="vanished")
    assert outcome("launches:+1", ranges=[whole("launches", [20], [12]), gone]) is PASS
    assert outcome("launches:+1", ranges=[whole("launches", [20], [22]), gone]) is REGRESSION
    assert outcome("launches:+1", ranges=[whole("launches", [20], [None]), gone]) is INCONCLUSIVE
    wall = ranged("wall", [8], [], how="vanished")
    assert outcome("wall:+5%", ranges=[whole("wall", [20], [12]), wall]) is INCONCLUSIVE


def test_the_times_of_a_librarys_ranges_are_not_judged():
    spread = [990, 1_000, 1_010, 1_005, 995, 1_002]
    of_library = replace(ranged("kernel_time", spread, [2 * ns for ns in spread]), is_library=True)
    own = ranged("kernel_time", spread, spread)
    alone = outcome("kernel_time:+5%", ranges=[own])
    assert outcome("kernel_time:+5%", ranges=[own, of_library]) is alone
    assert outcome("kernel_time:+5%", ranges=[own, replace(of_library, is_library=False)]) is REGRESSION
