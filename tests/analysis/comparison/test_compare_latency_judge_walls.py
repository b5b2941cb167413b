"""Instances of ranges as samples: verdicts on the time of a range, on noise of a known size."""

from dataclasses import replace

import numpy as np
import pytest

from nsysprof.analysis.comparison.compare_latency import MOST_JUDGED, Settings, choose_headline, judge_walls
from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.results.comparison import METRICS, LatencyVerdict, RangeFacts
from tests.builders.range_changes import MS, wall_change


def trace(seed, **medians_ns):
    """Return the facts of a trace whose ranges have 20 instances each, with 1 % of noise."""
    random = np.random.default_rng(seed)
    return {(name, ""): facts(random.normal(median, 0.01 * median, 20)) for name, median in medians_ns.items()}


def facts(values):
    walls = tuple(int(value) for value in values)
    metrics = dict.fromkeys(METRICS, 0) | {"wall": sum(walls)}
    return RangeFacts(len(walls), None, metrics, None, {}, walls_ns=walls)


def verdicts(baseline, candidate, **settings):
    changes = judge_walls(compare_ranges(baseline, candidate), baseline, candidate, Settings(**settings))
    return {change.range: change.wall_verdict and change.wall_verdict.verdict for change in changes}


def test_one_trace_of_each_side_says_nothing_of_the_time_of_a_range():
    """The host determines it, and its processes differ: the ratio is told, without a verdict or an interval."""
    sides = [trace(1, step=50e6, load=1e6)], [trace(2, step=70e6, load=1.04e6)]
    found = {change.range: change.wall_verdict for change in judge_walls(compare_ranges(*sides), *sides, Settings())}
    assert {verdict.verdict for verdict in found.values()} == {LatencyVerdict.INCONCLUSIVE}
    assert found["step"].ratio == pytest.approx(1.4, rel=0.02)
    assert (found["step"].low, found["step"].high) == (None, None)
    assert "the host determines this time" in found["step"].reason
    assert found["step"].more >= 3


def test_steps_that_the_gpu_determines_have_a_verdict_from_one_trace_where_they_differ_by_far():
    def of_gpu(seed, **medians_ns):
        return {key: replace(facts, host_bound=False) for key, facts in trace(seed, **medians_ns).items()}

    found = verdicts([of_gpu(1, step=50e6, load=1e6)], [of_gpu(2, step=70e6, load=1.04e6)])
    assert found == {"step": LatencyVerdict.SLOWER, "load": LatencyVerdict.INCONCLUSIVE}


def test_with_several_traces_a_small_change_is_seen_and_what_is_the_same_is_called_so():
    old, new = (
        [trace(seed + number, step=wall, load=1e6) for number in range(6)] for seed, wall in ((1, 5e7), (9, 4.7e7))
    )
    assert verdicts(old, new) == {"step": LatencyVerdict.FASTER, "load": LatencyVerdict.SAME}


def test_a_noise_floor_that_the_user_knows_counts():
    sides = [trace(1, step=50e6)], [trace(2, step=52.5e6)]
    assert verdicts(*sides)["step"] is LatencyVerdict.INCONCLUSIVE
    assert verdicts(*sides, floor_pct=2.0)["step"] is LatencyVerdict.SLOWER


@pytest.mark.parametrize("count", [1, 5])
def test_a_range_with_few_instances_has_no_verdict(count):
    side = [{("step", ""): facts([5e7] * count)}]
    assert verdicts(side, side) == {"step": None}


def test_the_ranges_with_the_most_time_are_judged():
    walls = {f"r{number:03}": 1e6 * (number + 1) for number in range(MOST_JUDGED + 5)}
    found = verdicts([trace(1, **walls)], [trace(2, **walls)])
    assert {name for name, verdict in found.items() if verdict is None} == {"r000", "r001", "r002", "r003", "r004"}


def test_the_range_with_the_most_time_to_tell_of_stands_first():
    slow = wall_change("step", 100 * MS, 50 * MS, verdict=LatencyVerdict.FASTER)
    assert choose_headline((wall_change("load", 10 * MS, 1 * MS, verdict=LatencyVerdict.FASTER), slow)) is slow


def test_a_range_of_a_library_never_stands_first():
    library = replace(wall_change("ncclCommDestroy", 500 * MS, 50 * MS), is_library=True)
    load = wall_change("load", 10 * MS, 1 * MS)
    assert choose_headline((library,)) is None
    assert choose_headline((library, load)) is load


def test_beside_the_time_of_a_step_only_what_is_shown_stands_there():
    step = wall_change("step#", 100 * MS, 50 * MS, verdict=LatencyVerdict.FASTER)
    load = wall_change("load", 10 * MS, 1 * MS, verdict=LatencyVerdict.FASTER)
    once = wall_change("prepare", 900 * MS, 100 * MS, calls=1)
    assert choose_headline((step, load, once), "step#") is load
    assert choose_headline((step, once), "step#") is None


@pytest.mark.parametrize("verdict", [LatencyVerdict.SAME, LatencyVerdict.INCONCLUSIVE])
def test_a_change_that_is_not_shown_never_stands_first(verdict):
    assert choose_headline((wall_change("step", 100 * MS, 110 * MS, verdict=verdict),)) is None
    assert choose_headline((wall_change("step", 1000 * MS, 1001 * MS),)) is None
