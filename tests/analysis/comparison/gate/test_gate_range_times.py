"""Gates on the times of ranges: by verdict and interval, with each trace as a run."""

import numpy as np
import pytest

from nsysprof.analysis.comparison.compare_latency import Settings, judge_walls
from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.analysis.comparison.gate.gate import judge, parse_gate
from nsysprof.results.checks import Outcome
from nsysprof.results.comparison import METRICS, LatencyComparison, RangeFacts

PASS, REGRESSION, INCONCLUSIVE = Outcome.PASS, Outcome.REGRESSION, Outcome.INCONCLUSIVE


def trace(random, factor=1.0, *, instances=20, name="step", domain=""):
    """Return the facts of a trace whose process takes as long as chance has it, with a deviation of 1 %."""
    level = 1e6 * factor * np.exp(random.normal(0, 0.01))
    walls = tuple(int(value) for value in level * np.exp(random.normal(0, 0.01, instances)))
    metrics = dict.fromkeys(METRICS, 0) | dict.fromkeys(("wall", "busy", "gaps", "kernel_time"), sum(walls))
    return {(name, domain): RangeFacts(instances, None, metrics, None, {}, walls_ns=walls)}


def outcome(rule, count, factor, **of_range):
    random = np.random.default_rng(0)
    sides = [[trace(random, side, **of_range) for _ in range(count)] for side in (1.0, factor)]
    changes = judge_walls(compare_ranges(*sides), *sides, Settings())
    (result,) = judge(parse_gate(rule), LatencyComparison(), changes, ())
    return result.outcome


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
