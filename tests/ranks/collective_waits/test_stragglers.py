"""Stragglers in simulated jobs: none is named where there is none, and one costs what the job takes less without it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nsysprof.analysis.stragglers.late_ranks import COLLECTIVES
from nsysprof.ranks.collective_waits.collectives import Arrivals
from nsysprof.ranks.collective_waits.stragglers import find_late, judged_collectives, replay_like_peers
from tests.builders.simulated_job import SimulatedJob

EVEN = {
    "GPU-bound": SimulatedJob(2),
    "GPU-bound, eight ranks": SimulatedJob(8),
    "launch-bound": SimulatedJob(2, host_ns=2_500_000.0, gpu_ns=500_000.0),
    "without waits": SimulatedJob(4, waits=False, host_ns=2_200_000.0, gpu_ns=1_000_000.0),
    "a constant lag": SimulatedJob(2, waits=False, host_ns=2_500_000.0, gpu_ns=500_000.0, lag_ns=[0, 3_000_000.0]),
    "lasting deviations": SimulatedJob(4, rho=0.5),
}


@pytest.mark.parametrize("job", EVEN.values(), ids=EVEN)
def test_jittered_jobs_have_no_straggler(job: SimulatedJob) -> None:
    named = [seed for seed in range(8) if find_late(COLLECTIVES, job.run(seed)[0], [])[1]]
    # scripts/calibrate.py counts them in many more jobs.
    assert len(named) <= 1


SLOW = {
    "on the GPU": SimulatedJob(4, slow_gpu_ns=[0, 0, 1_500_000.0]),
    "on the host": SimulatedJob(4, host_ns=2_000_000.0, gpu_ns=1_500_000.0, slow_host_ns=[0, 0, 5_000_000.0]),
    "on the host, without waits": SimulatedJob(
        3, host_ns=2_000_000.0, gpu_ns=1_000_000.0, waits=False, slow_host_ns=[0, 0, 2_000_000.0]
    ),
    "of two": SimulatedJob(3, slow_gpu_ns=[0, 0, 2_000_000.0], jitter=0.01),
}


@pytest.mark.parametrize("job", SLOW.values(), ids=SLOW)
def test_a_straggler_costs_what_the_job_takes_less_without_it(job: SimulatedJob) -> None:
    for seed in range(5):
        arrived, slow = job.run(seed)
        _, quick = replace(job, slow_host_ns=(), slow_gpu_ns=()).run(seed)
        (late,) = find_late(COLLECTIVES, arrived, [])[1]
        assert late.rank == 2
        assert late.cost_ns is not None
        assert late.cost_ns == pytest.approx((slow - quick) * judged_share(arrived), rel=0.1)


def judged_share(arrived: Arrivals) -> float:
    first, last = judged_collectives(arrived) or (0, 0)
    return (last - first) / (arrived.begin_ns.shape[1] - 1)


VARYING = {
    "two ranks that vary by 15 %": SimulatedJob(2, jitter=0.15),
    "two ranks that vary by 20 %": SimulatedJob(2, jitter=0.2),
    "two ranks, the slower one in turn": SimulatedJob(2, in_turn_ns=2_000_000.0),
    "eight ranks that vary by 10 %": SimulatedJob(8, jitter=0.1),
}


@pytest.mark.parametrize("plain", VARYING.values(), ids=VARYING)
def test_what_varying_ranks_cost_by_turns_is_no_cost_of_a_straggler(plain: SimulatedJob) -> None:
    found = true = 0.0
    for seed in range(8):
        arrived, slow = replace(plain, slow_gpu_ns=[3_000_000.0]).run(seed)
        true += (slow - plain.run(seed)[1]) * judged_share(arrived)
        (late,) = find_late(COLLECTIVES, arrived, [])[1]
        found += late.cost_ns or 0
    # Where ranks take turns, chance moves no work to its own place.
    assert found == pytest.approx(true, rel=0.03 if plain.in_turn_ns else 0.08)


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_jitter_of_ranks_is_no_cost_of_a_straggler(ranks: int) -> None:
    """A rank is slower by three times of what a rank's steps differ by."""
    job = SimulatedJob(ranks, slow_gpu_ns=[0] * (ranks - 1) + [500_000.0])
    off, true = [], []
    for seed in range(8):
        arrived, slow = job.run(seed)
        quick = SimulatedJob(ranks).run(seed)[1]
        (late,) = find_late(COLLECTIVES, arrived, [])[1]
        assert late.cost_ns is not None
        true.append((slow - quick) * judged_share(arrived))
        off.append(late.cost_ns - true[-1])
    assert abs(sum(off)) < 0.06 * sum(true)


def test_the_jitter_of_two_ranks_is_no_cost_in_a_job_of_which_stretches_are_kept() -> None:
    job = SimulatedJob(2, steps=300, slow_gpu_ns=[0, 500_000.0])
    found = true = 0.0
    for seed in range(3):
        arrived, slow = job.run(seed)
        assert arrived.begin_ns.shape[1] < 300 * job.collectives
        (late,) = find_late(COLLECTIVES, arrived, [])[1]
        assert late.cost_ns is not None
        first, last = judged_collectives(arrived) or (0, 0)
        ordinal = arrived.matched[0].collectives.ordinal
        less = slow - replace(job, slow_gpu_ns=()).run(seed)[1]
        true += less * int(ordinal[last] - ordinal[first]) / (300 * job.collectives - 1)
        found += late.cost_ns
    assert found == pytest.approx(true, rel=0.06)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("waits", [True, False])
def test_what_a_straggler_costs_is_unknown_where_a_step_does_not_fit_into_a_stretch(ranks: int, waits: bool) -> None:
    job = SimulatedJob(ranks, steps=40, collectives=40, waits=waits, slow_gpu_ns=[0] * (ranks - 1) + [5_000_000.0])
    arrived, _ = job.run(0)
    (late,) = find_late(COLLECTIVES, arrived, [])[1]
    assert late.rank == ranks - 1
    assert late.about_ns is not None
    assert [late.cost_ns, late.cost_low_ns, late.cost_high_ns, late.cost_pct] == [None] * 4
    found = replay_like_peers(arrived, ranks - 1)
    assert found is not None
    assert not found.has_whole_steps


def test_the_jitter_of_two_ranks_is_no_cost_in_a_long_job_with_one_collective_a_step() -> None:
    job = SimulatedJob(2, steps=1200, collectives=1, slow_gpu_ns=[0, 500_000.0])
    arrived, slow = job.run(0)
    (late,) = find_late(COLLECTIVES, arrived, [])[1]
    assert late.cost_ns is not None
    assert late.cost_low_ns is not None
    assert late.cost_high_ns is not None
    first, last = judged_collectives(arrived) or (0, 0)
    ordinal = arrived.matched[0].collectives.ordinal
    less = slow - replace(job, slow_gpu_ns=()).run(0)[1]
    assert late.cost_low_ns < less * int(ordinal[last] - ordinal[first]) / 1199 < late.cost_high_ns


def test_a_rank_that_is_slow_once_in_a_step_costs_each_part_the_same() -> None:
    """No part has more steps than another, so the interval has only what ranks differ by from step to step."""
    arrived, _ = SimulatedJob(4, slow_gpu_ns=[0, 0, 0, 5_000_000.0]).run(0)
    (late,) = find_late(COLLECTIVES, arrived, [])[1]
    assert late.cost_ns is not None
    assert late.cost_low_ns is not None
    assert 0.005 < (late.cost_ns - late.cost_low_ns) / late.cost_ns < 0.04


def test_what_computation_hides_costs_nothing() -> None:
    """The host of a rank is 1 ms late in each step of a job whose GPUs have 8 ms to do."""
    arrived, slow = (job := SimulatedJob(2, waits=False, jitter=0.0, slow_host_ns=[0, 1_000_000.0])).run(0)
    assert slow == pytest.approx(replace(job, slow_host_ns=()).run(0)[1], rel=1e-3)
    assert find_late(COLLECTIVES, arrived, []) == (COLLECTIVES, [])


@pytest.mark.parametrize("job", SLOW.values(), ids=SLOW)
def test_a_job_with_the_straggler_like_its_peers_is_the_quick_one(job: SimulatedJob) -> None:
    arrived, slow = job.run(0)
    _, quick = replace(job, slow_host_ns=(), slow_gpu_ns=()).run(0)
    found = replay_like_peers(arrived, arrived.ranks.index(2))
    assert found is not None
    assert found.replayed_ns == pytest.approx(found.recorded_ns, rel=0.01)
    assert found.low_ns <= found.job_ns <= found.high_ns
    assert found.replayed_ns - found.job_ns == pytest.approx((slow - quick) * judged_share(arrived), rel=0.1)
    other = replay_like_peers(arrived, arrived.ranks.index(0))
    assert other is not None
    assert other.replayed_ns - other.job_ns < 0.2 * (found.replayed_ns - found.job_ns)
