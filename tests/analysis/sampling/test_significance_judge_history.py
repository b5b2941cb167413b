"""Runs of a case against each other: only intervals that are apart are a change."""

import pytest

from nsysprof.analysis.sampling.significance import judge_history
from nsysprof.results.latency_history import CaseHistory, HistoryPoint, HistoryState


def point(median, low, high, conditions="h"):
    return HistoryPoint("2026-01-01T10:00:00Z", "ok", median, low, high, 30, conditions, "H200")


def judged(*points):
    return judge_history(CaseHistory("a", points))


@pytest.mark.parametrize(
    ("newest", "state", "overlaps"),
    [
        (point(1100.0, 990.0, 1200.0), HistoryState.SAME, True),
        (point(1100.0, 1010.0, 1200.0), HistoryState.SAME, True),
        (point(1100.0, 1011.0, 1200.0), HistoryState.CHANGED, False),
        (point(900.0, 880.0, 989.0), HistoryState.CHANGED, False),
        (point(1100.0, None, None), HistoryState.UNSURE, None),
        (point(None, None, None), HistoryState.ALONE, None),
        (point(2000.0, 1900.0, 2100.0, "other"), HistoryState.ALONE, None),
    ],
)
def test_the_newest_run_against_the_one_before(newest, state, overlaps):
    case = judged(point(1000.0, 990.0, 1010.0), newest)
    assert (case.state, case.points[-1].overlaps_before, case.overlaps_oldest) == (state, overlaps, overlaps)


def test_runs_of_equal_conditions_are_compared_across_others():
    first, other, last = (
        point(1000.0, 990.0, 1010.0), point(1.0, 0.9, 1.1, "other"), point(1000.0, 995.0, 1005.0),
    )  # fmt: skip
    assert [each.overlaps_before for each in judged(first, other, last).points] == [None, None, True]


def test_a_single_run_is_alone():
    assert judged(point(1000.0, 990.0, 1010.0)).state is HistoryState.ALONE
    assert judged().state is HistoryState.ALONE
