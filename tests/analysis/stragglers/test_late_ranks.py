"""Which ranks are late: by arrivals and a replay's gains, or by how long they work."""

import numpy as np
import pandas as pd
import pytest

from nsysprof.analysis.stragglers.late_ranks import (
    COLLECTIVES,
    OWN_WORK,
    Gains,
    choose_evidence,
    choose_replayed,
    is_reproduced,
    judge_gains,
    judged_parts,
    late_by_work,
    measure_waits,
    typical_others,
)
from nsysprof.results.rank_results import RankRow


def rows(*compute_ns):
    return [RankRow(rank, "t", rank=rank, compute_ns=value) for rank, value in enumerate(compute_ns)]


def test_arrivals_come_before_work_and_work_needs_the_same_ranges():
    same, uneven = pd.DataFrame(), pd.DataFrame([{"range": "step"}])
    assert choose_evidence(rows(1, 2), uneven, has_arrivals=True) == COLLECTIVES
    assert choose_evidence(rows(1, 2), same, has_arrivals=False) == OWN_WORK
    assert choose_evidence(rows(1, 2), uneven, has_arrivals=False) == ""
    assert choose_evidence(rows(1, None), same, has_arrivals=False) == ""


def test_a_rank_that_works_longer_is_late_by_the_excess():
    (late,) = late_by_work(rows(1000, 1300, 1000))
    assert (late.rank, late.evidence, late.late_ns, late.late_pct) == (1, OWN_WORK, 300, 30.0)
    assert late_by_work(rows(1000, 1001, 1000)) == []


def waits():
    begin = np.array([[0, 100, 200], [5, 140, 240], [0, 100, 200]])
    return measure_waits(begin, np.full((3, 3), 50), np.full((3, 3), 50), np.ones(3))


def test_the_first_collective_says_nothing():
    found = waits()
    assert found.last.tolist() == [1, 1, 1]
    assert found.wait_ns.tolist() == [0, 40, 40]
    assert found.exposed_ns.tolist() == [0, 40, 40]
    assert found.waited_for.tolist() == [0, 80, 0]
    assert found.span_ns == 140


def test_a_straggler_costs_more_than_the_others_in_most_parts():
    noise = np.array([1.0, -1.0, 0.5, -0.5, 0.5, -0.5])
    (late,) = judge_gains([4, 5, 6], waits(), [0, 1, 2], Gains(np.array([noise, 10 + noise, -noise]), 300.0, 300.0))
    assert (late.rank, late.cost_ns, late.last_in, late.collectives) == (5, 60, 3, 3)
    assert late.cost_low_ns < 60 < late.cost_high_ns
    once = np.array([60.0, 0, 0, 0, 0, 0])
    assert judge_gains([4, 5, 6], waits(), [0, 1, 2], Gains(np.array([noise, once, -noise]), 300.0, 300.0)) == []


def test_of_many_ranks_the_awaited_ones_are_replayed_and_some_others():
    waited_for = np.zeros(100)
    waited_for[[7, 93]] = 5.0
    found = choose_replayed(waited_for)
    assert len(found) <= 32
    assert {7, 93} <= set(found)
    assert choose_replayed(np.array([1.0, 3.0, 2.0])) == [0, 1, 2]


def test_each_rank_is_replaced_by_the_lower_median_of_the_others():
    assert typical_others(np.array([10, 0, 20])).tolist() == [[1, 1, 2], [0, 0, 2], [0, 1, 1]]


@pytest.mark.parametrize(
    ("recorded", "replayed", "same"), [(100.0, 100.0, True), (100.0, 150.0, False), (0.0, 0.0, False)]
)
def test_a_replay_that_takes_another_time_answers_nothing(recorded, replayed, same):
    assert is_reproduced(recorded, replayed) is same


def test_the_first_part_is_not_judged():
    assert judged_parts(161).tolist() == list(range(10, 161, 10))
