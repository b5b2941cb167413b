"""Values of two sides: when they are equal, when they differ, and when nothing can be said."""

import pytest

from nsysprof.analysis.comparison.compare_programs import compare_values
from nsysprof.results.programs.program_runs import OK, Sameness, TimedRun


def runs(*turns):
    """Return the runs of turns, each given as the values of (baseline, candidate)."""
    return [
        TimedRun(side=side, turn=turn, status=OK, values=tuple(values))
        for turn, pair in enumerate(turns)
        for side, values in zip(("baseline", "candidate"), pair, strict=True)
    ]


@pytest.mark.parametrize(
    ("turns", "verdict"),
    [
        ([([1.0, 2.0], [1.001, 2.0]), ([1.0, 2.0], [1.0, 2.0])], Sameness.EQUAL),
        ([([1.0, 2.0], [1.02, 2.0])], Sameness.DIFFERENT),
        ([([1.0], [1.0, 2.0])], Sameness.DIFFERENT),
        ([([1.0, None], [1.0, 3.0])], Sameness.DIFFERENT),
        ([([1.0, None], [1.0, None])], Sameness.EQUAL),
        ([([0.0], [0.0])], Sameness.EQUAL),
        ([([], [])], Sameness.UNKNOWN),
        ([([1.0], [1.0]), ([1.5], [1.5])], Sameness.UNKNOWN),
    ],
)
def test_values(turns, verdict):
    assert compare_values(runs(*turns), 1.0).verdict is verdict


def test_runs_that_differ_among_themselves_ask_for_a_seed():
    found = compare_values(runs(([1.0], [1.0]), ([1.5], [1.5])), 1.0)
    assert found.noise_pct == pytest.approx(100 / 3)
    assert "fix the seed" in found.reason
