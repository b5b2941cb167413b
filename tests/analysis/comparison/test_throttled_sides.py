from dataclasses import replace

import pytest

from nsysprof.analysis.comparison.gate.gate import judge, parse_gate
from nsysprof.analysis.comparison.throttled_sides import doubt_throttled
from nsysprof.results.checks import Outcome
from nsysprof.results.comparison import LatencyChange, LatencyComparison, LatencyVerdict, SideOfCase


def change(verdict):
    sides = SideOfCase("ok", median_ns=1.0), SideOfCase("ok", median_ns=1.0)
    return LatencyChange("case", LatencyVerdict(verdict), *sides, ratio=1.2, low=1.1, high=1.3)


@pytest.mark.parametrize(
    ("verdict", "shares", "kept"),
    [
        ("SLOWER", (0.0, 0.5), False),
        ("SLOWER", (0.5, 0.0), True),  # it is slower although the other side was held back
        ("FASTER", (0.5, 0.0), False),
        ("FASTER", (0.0, 0.5), True),
        ("SAME", (0.5, 0.0), False),
        ("SAME", (0.0, 0.5), False),
        ("SLOWER", (0.5, 0.6), True),  # both alike
        ("INCONCLUSIVE", (0.0, 1.0), True),
    ],
)
def test_a_verdict_that_throttling_may_have_made_is_taken_back(verdict, shares, kept):
    found = doubt_throttled(change(verdict), *shares)
    assert (found == change(verdict)) is kept
    if not kept:
        assert found.verdict is LatencyVerdict.INCONCLUSIVE
        assert f"{shares[1]:.0%} of the candidate's" in found.reason


@pytest.mark.parametrize(
    ("verdict", "bounds", "shares", "kept"),
    [
        ("SLOWER", (19.8, 20.7), (0.0, 0.5), True),  # no clock explains twenty times
        ("SLOWER", (5.0, 20.0), (0.0, 0.5), False),
        ("FASTER", (0.04, 0.05), (0.5, 0.0), True),
        ("FASTER", (0.04, 0.3), (0.5, 0.0), False),
    ],
)
def test_what_no_clock_explains_stays(verdict, bounds, shares, kept):
    far = replace(change(verdict), low=bounds[0], high=bounds[1])
    assert (doubt_throttled(far, *shares) == far) is kept


def test_the_gate_neither_fails_nor_passes_on_it():
    latency = LatencyComparison((doubt_throttled(change("SLOWER"), 0.0, 0.5),), None, "", "turn")
    (result,) = judge(parse_gate("slower:3%"), latency, (), ())
    assert result.outcome is Outcome.INCONCLUSIVE
    (result,) = judge(parse_gate("slower:3%"), LatencyComparison((change("SLOWER"),), None, "", "turn"), (), ())
    assert result.outcome is Outcome.REGRESSION
