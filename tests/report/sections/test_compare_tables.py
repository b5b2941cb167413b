"""What stands first in a comparison: the range whose time changed the most, and never more than its verdict says."""

from dataclasses import replace

import pytest

from nsysprof.report.sections.compare_tables import wall_line
from nsysprof.results.comparison import LatencyVerdict, MetricChange, RangeChange
from tests.report.fixed_results import compared

MS = 1_000_000


def change(name, before, after, *, verdict=None, calls=10):
    found = compared()
    wall = MetricChange("wall", (before,), (after,), before, after)
    judged = None if verdict is None else replace(found.latency.changes[0], case=name, verdict=verdict)
    ratio = {} if verdict is None else {"wall_ratio": 0.5, "wall_ratio_low": 0.4, "wall_ratio_high": 0.6}
    return RangeChange(name, "", "both", calls, calls, {"wall": wall}, wall_verdict=judged, **ratio)


def line(*changes):
    found = compared()
    return wall_line(replace(found, latency=replace(found.latency, changes=()), ranges=changes))


def test_the_range_with_the_most_time_to_tell_of_is_named_with_its_verdict():
    slow = change("step", 100 * MS, 50 * MS, verdict=LatencyVerdict.FASTER)
    text = line(change("load", 10 * MS, 1 * MS, verdict=LatencyVerdict.FASTER), slow)
    assert text == (
        "step takes 50.00 ms instead of 100.0 ms on average (-50.0 %): FASTER "
        "(its median instance 0.500 [0.400, 0.600] times as long)."
    )


@pytest.mark.parametrize("verdict", [LatencyVerdict.SAME, LatencyVerdict.INCONCLUSIVE])
def test_a_change_that_is_not_shown_is_not_named(verdict):
    assert line(change("step", 100 * MS, 110 * MS, verdict=verdict)) == ""
    assert line(change("step", 1000 * MS, 1001 * MS)) == ""


def test_without_a_verdict_it_says_so():
    assert line(change("prepare", 100 * MS, 150 * MS, calls=1)).endswith("too few instances for a verdict.")


def test_measured_cases_are_the_answer_instead():
    assert wall_line(replace(compared(), ranges=(change("step", 100 * MS, 50 * MS),))) == ""
