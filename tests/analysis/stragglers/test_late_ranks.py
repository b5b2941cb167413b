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
    half_width,
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


def test_of_many_ranks_one_that_computes_longer_is_far_from_all_others():
    assert [late.rank for late in late_by_work(rows(*[1000, 1003] * 4, 1080))] == [8]
    assert late_by_work(rows(*[1000, 1060] * 4, 1200)) == []
    # Of a few it is unknown how much ranks differ.
    assert late_by_work(rows(1000, 1080)) == []


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


def test_a_straggler_costs_more_than_the_others_in_nearly_all_parts():
    noise = np.array([1.0, -1.0, 0.5, -0.5, 0.5, -0.5])
    (late,) = judge_gains([4, 5, 6], waits(), [0, 1, 2], Gains(np.array([noise, 10 + noise, -noise]), 300.0, 300.0))
    assert (late.rank, late.cost_ns, late.last_in, late.collectives) == (5, 60, 3, 3)
    assert late.cost_low_ns < 60 < late.cost_high_ns
    once = np.array([60.0, 0, 0, 0, 0, 0])
    assert judge_gains([4, 5, 6], waits(), [0, 1, 2], Gains(np.array([noise, once, -noise]), 300.0, 300.0)) == []


@pytest.mark.parametrize(("slow_in", "named"), [(15, True), (14, True), (12, False)])
def test_a_rank_that_is_slow_in_turn_with_others_is_no_straggler(slow_in, named):
    more = np.where(np.arange(15) < slow_in, 20.0, -1.0)
    even = np.zeros(15)
    assert bool(judge_gains([4, 5, 6], waits(), [0, 1, 2], Gains(np.array([even, more, even]), 300.0, 300.0))) == named


def test_of_many_ranks_the_awaited_ones_are_replayed_and_some_others():
    waited_for = np.zeros(100)
    waited_for[[7, 93]] = 5.0
    found = choose_replayed(waited_for)
    assert len(found) <= 32
    assert {7, 93} <= set(found)
    assert choose_replayed(np.array([1.0, 3.0, 2.0])) == [0, 1, 2]


def test_the_typical_other_rank_is_the_lower_median_of_the_others():
    assert typical_others(np.array([10, 0, 20])).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("recorded", "replayed", "same"), [(100.0, 100.0, True), (100.0, 150.0, False), (0.0, 0.0, False)]
)
def test_a_replay_that_takes_another_time_answers_nothing(recorded, replayed, same):
    assert is_reproduced(recorded, replayed) is same


def test_the_first_part_is_not_judged():
    assert judged_parts(161).tolist() == [[first, first + 10] for first in range(10, 151, 10)]


@pytest.mark.parametrize(("count", "period", "each"), [(160, 4, 12), (176, 6, 12), (288, 18, 18), (161, 1, 10)])
def test_the_parts_of_a_job_have_whole_steps_and_leave_out_the_warm_up(count, period, each):
    parts = judged_parts(count, period)
    assert set((parts[:, 1] - parts[:, 0]).tolist()) == {each}
    assert parts[1:, 0].tolist() == parts[:-1, 1].tolist()
    assert parts[-1, 1] == count - 1
    assert (count - 1) // 16 <= parts[0, 0] <= (count - 1) // 16 + each + period


def test_few_steps_are_judged_in_parts_of_equal_numbers_of_collectives():
    assert judged_parts(33, 8).tolist() == judged_parts(33).tolist()


def test_of_stretches_each_but_the_first_and_the_short_ones_is_a_part_of_whole_steps():
    begins = [64, 128, 192, 198, 256, 320, 384]
    parts = judged_parts(448, 12, begins)
    assert parts.tolist() == [[last - 60, last] for last in (127, 191, 319, 383, 447)]
    # Of steps that no stretch holds, nothing is whole.
    assert judged_parts(448, 100, begins).tolist() == judged_parts(448).tolist()


def test_the_interval_of_a_cost_holds_its_mean_whether_parts_are_independent_or_like_their_neighbours():
    """The share of intervals that hold the true sum, 0, of 12 parts; scripts/calibrate.py asks it of whole jobs."""
    rng = np.random.default_rng(0)
    for kept, least, most in ((0.0, 0.93, 0.97), (0.3, 0.91, 0.97)):
        parts = rng.normal(0, 1, (1000, 12))
        for number in range(1, 12):
            parts[:, number] = kept * parts[:, number - 1] + np.sqrt(1 - kept**2) * parts[:, number]
        held = np.mean([abs(each.sum()) <= half_width(each) for each in parts])
        by_spread = np.mean(np.abs(parts.sum(axis=1)) <= 2.201 * parts.std(axis=1, ddof=1) * np.sqrt(12))
        assert least <= held <= most
        assert by_spread < 0.89 or kept == 0.0
