"""Gates on the times of ranges: by verdict and interval, with each trace as a run."""

import numpy as np
import pytest

from nsysprof.analysis.comparison.compare_latency import Settings, judge_walls
from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.analysis.comparison.gate.gate import judge, parse_gate
from nsysprof.results.checks import Outcome
from nsysprof.results.comparison import METRICS, KernelFacts, LatencyComparison, RangeFacts

PASS, REGRESSION, INCONCLUSIVE = Outcome.PASS, Outcome.REGRESSION, Outcome.INCONCLUSIVE


def trace(random, factor=1.0, *, instances=20, name="step", domain="", gaps=None, kernels=None):
    """Return the facts of a trace whose process takes as long as chance has it, with a deviation of 1 %."""
    level = 1e6 * factor * np.exp(random.normal(0, 0.01))
    walls = tuple(int(value) for value in level * np.exp(random.normal(0, 0.01, instances)))
    metrics = dict.fromkeys(METRICS, 0) | dict.fromkeys(("wall", "busy", "gaps", "kernel_time"), sum(walls))
    metrics["gaps"] = metrics["gaps"] if gaps is None else gaps
    return {(name, domain): RangeFacts(instances, None, metrics, None, kernels or {}, walls_ns=walls)}


def judged(rule, count, factor, **of_range):
    random = np.random.default_rng(0)
    sides = [[trace(random, side, **of_range) for _ in range(count)] for side in (1.0, factor)]
    changes = judge_walls(compare_ranges(*sides), *sides, Settings())
    (result,) = judge(parse_gate(rule), LatencyComparison(), changes, ())
    return result


def outcome(rule, count, factor, **of_range):
    return judged(rule, count, factor, **of_range).outcome


@pytest.mark.parametrize("metric", ["wall", "busy", "gaps", "kernel_time"])
def test_more_traces_find_what_one_cannot_tell_and_never_lose_it(metric):
    assert outcome(f"{metric}:5%", 1, 1.1) is INCONCLUSIVE
    assert [outcome(f"{metric}:5%", count, 1.1) for count in (4, 8, 16)] == [REGRESSION] * 3
    assert [outcome(f"{metric}:5%", count, 1.0) for count in (4, 8, 16)] == [PASS] * 3


def test_a_limit_in_units_of_time_is_one_of_each_range():
    assert outcome("kernel_time:50us", 6, 1.1) is REGRESSION
    assert outcome("kernel_time:300us", 6, 1.1) is PASS


def test_one_trace_says_something_of_the_gpu_alone():
    assert outcome("kernel_time:5%", 1, 1.3) is REGRESSION
    assert outcome("wall:5%", 1, 1.3) is INCONCLUSIVE


def test_a_single_instance_and_a_range_of_a_library_are_not_judged():
    assert outcome("wall:5%", 1, 3.0, instances=1) is INCONCLUSIVE
    assert outcome("wall:5%", 6, 3.0, instances=1) is REGRESSION
    assert outcome("wall:5%", 6, 3.0, name="ncclAllReduce", domain="NCCL") is INCONCLUSIVE


@pytest.mark.parametrize("metric", ["busy", "kernel_time"])
def test_two_or_three_traces_tell_what_one_tells(metric):
    assert [outcome(f"{metric}:5%", count, 1.3) for count in (1, 2, 3)] == [REGRESSION] * 3
    (unsure,) = judged(f"{metric}:5%", 2, 1.06).findings
    assert unsure.outcome is INCONCLUSIVE
    assert "a side has only 2 runs, and 10 % between two of the same code are assumed" in unsure.text
    assert unsure.next_step == "Give at least 4 runs of each side: their own spread decides then."


def test_the_printed_times_are_those_whose_ratio_is_printed():
    sides = [
        [trace(np.random.default_rng(number), factor) for number, factor in enumerate(factors)]
        for factors in ((1.0, 100.0), (1.1, 40.0))
    ]
    changes = judge_walls(compare_ranges(*sides), *sides, Settings())
    (result,) = judge(parse_gate("wall:5%"), LatencyComparison(), changes, ())
    verdict = changes[0].wall_verdict
    assert verdict.ratio == pytest.approx(verdict.candidate.median_ns / verdict.baseline.median_ns)
    assert verdict.ratio == pytest.approx(44**0.5 / 10, rel=0.05)
    assert result.findings[0].text.startswith("wall 10.0 ms to 6.6")
    assert changes[0].metrics["wall"].baseline == pytest.approx(verdict.baseline.median_ns, rel=0.02)


def test_of_collectives_one_trace_tells_nothing_for_they_wait_for_other_ranks():
    collective = {"nccl": KernelFacts("communication", "ncclAllReduce", 20, 10**7)}
    (unsure,) = judged("busy:5%", 1, 1.5, kernels=collective).findings
    assert unsure.outcome is INCONCLUSIVE
    assert "other ranks determine this time" in unsure.text


def test_two_traces_without_gaps_do_not_show_that_others_have_none():
    (unsure,) = judged("gaps:5%", 1, 1.0001, gaps=0).findings
    assert (unsure.outcome, unsure.next_step) == (INCONCLUSIVE, "Give 4 traces of each side.")
    assert unsure.text == "gaps 0 ns to 0 ns; each side is one trace, and the host determines this time"
    random = np.random.default_rng(0)
    one = [trace(random, gaps=0)]
    (result,) = judge(parse_gate("gaps:5%"), LatencyComparison(), compare_ranges(one, one), ())
    assert result.outcome is PASS, "the same trace twice"
