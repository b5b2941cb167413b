"""What the replay reads out of recorded collectives: steps, what waiting kernels cost, work in a rank's own order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nsysprof.analysis.stragglers.late_ranks import judged_parts
from nsysprof.ranks.collective_waits.stragglers import add_usual_work, find_period, has_whole_steps, read_job, replay
from tests.builders.simulated_job import SimulatedJob


def ends(step: list[float], steps: int, jitter: float) -> np.ndarray:
    lengths = np.tile(step, steps) * np.random.default_rng(0).normal(1.0, jitter, len(step) * steps)
    return np.cumsum(lengths).astype(np.int64)


def period(kind: np.ndarray, end_ns: np.ndarray, begins: tuple[int, ...] = ()) -> int:
    return find_period(kind, end_ns, np.isin(np.arange(len(kind)), begins))


@pytest.mark.parametrize("jitter", [0.0, 0.02, 0.1])
def test_a_step_is_found_by_the_times_between_ends(jitter: float) -> None:
    found = ends([2e6, 3e6, 2e6, 9e6, 1e6], 20, jitter)
    assert period(np.zeros(100, dtype=np.int64), found) == 5


def test_a_step_is_found_by_the_kinds_of_its_collectives() -> None:
    found = ends([1e6] * 7, 12, 0.05)
    assert period(np.tile([0, 0, 0, 0, 0, 0, 1], 12), found) == 7


def test_a_step_is_found_in_stretches_that_begin_anywhere_in_it() -> None:
    found = ends([2e6, 3e6, 2e6, 9e6, 1e6], 60, 0.05)
    kept = np.concatenate([np.arange(begin, begin + 24) for begin in (0, 63, 126, 189, 252)])
    begins = tuple(range(24, len(kept), 24))
    assert period(np.zeros(len(kept), dtype=np.int64), found[kept], begins) == 5


def test_collectives_that_are_all_alike_have_no_step() -> None:
    assert period(np.zeros(90, dtype=np.int64), ends([1e6], 90, 0.0)) == 1
    assert period(np.zeros(3, dtype=np.int64), ends([1e6, 2e6, 3e6], 1, 0.0)) == 1


@pytest.mark.parametrize(("collectives", "whole"), [(1, True), (4, True), (32, True), (40, False), (100, False)])
def test_parts_of_stretches_have_whole_steps_where_steps_fit(collectives: int, whole: bool) -> None:
    arrived, _ = SimulatedJob(2, steps=2400 // collectives, collectives=collectives).run(0)
    job = read_job(arrived, [0, 1])
    assert job is not None
    parts = judged_parts(len(job.end_ns), job.period, np.flatnonzero(job.fresh).tolist())
    assert has_whole_steps(job, parts) == whole
    assert not has_whole_steps(replace(job, is_even=False), parts)


def slowed_while_waiting(share: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the computing of a rank that waits for a slow one, as it was and as it is taken to be without the wait."""
    arrived, _ = SimulatedJob(2, slow_gpu_ns=[0, 3_000_000.0]).run(1)
    first, second = arrived.matched
    own = np.diff(first.collectives.computed_ns, prepend=0)
    slower = np.cumsum((own * np.where(np.arange(len(own)) % 4 == 0, 1.0, 1 + share)).astype(np.int64))
    first = replace(first, collectives=replace(first.collectives, computed_ns=slower))
    job = read_job(replace(arrived, matched=(first, second)), [0, 1])
    assert job is not None
    assert job.period % 4 == 0
    return own, job.uncontended.busy_ns[0]


def test_what_computing_beside_a_waiting_collective_costs_is_taken_off() -> None:
    own, without = slowed_while_waiting(0.25)
    assert without[1:].sum() == pytest.approx(own[1:].sum(), rel=0.01)
    # What the rank's steps differ by is left.
    assert np.corrcoef(own[1:], without[1:])[0, 1] > 0.95


def test_computing_that_a_wait_does_not_slow_is_left_as_it_is() -> None:
    own, without = slowed_while_waiting(0.0)
    assert without[1:].sum() == pytest.approx(own[1:].sum(), rel=0.002)


def usual_work(plain: SimulatedJob) -> tuple[np.ndarray, np.ndarray]:
    """Return the busy times in all chains of a job of two ranks, and how long its judged part takes in their variants.

    The variants are: both ranks, the second one like the first in its own order, and in the order of the first.
    """
    arrived, _ = plain.run(3)
    job = read_job(arrived, [0, 1])
    assert job is not None
    parts = judged_parts(160, job.period)
    chains, _ = add_usual_work(replace(job, uncontended=job.chains), np.array([1, 0]), parts)
    ended = replay(job, chains, np.array([[0, 1], [0, 3], [0, 5]]))
    return chains.busy_ns, ended[:, parts[-1, 1]] - ended[:, parts[0, 0]]


def test_a_rank_does_the_work_of_another_one_in_its_own_order() -> None:
    busy, (both, in_order, at_once) = usual_work(SimulatedJob(2))
    assert busy.shape[0] == 6
    assert sorted(busy[3]) == sorted(busy[0])
    assert busy[5].tolist() == busy[0].tolist()
    judged = np.arange(20, 160, 4)
    assert np.corrcoef(busy[3, judged], busy[1, judged])[0, 1] > 0.9
    assert abs(np.corrcoef(busy[3, judged], busy[0, judged])[0, 1]) < 0.4
    # It waits as ranks do that vary by themselves.
    assert in_order == pytest.approx(both, rel=0.003)
    assert at_once < 0.995 * both


def test_ranks_that_are_the_slower_one_in_turn_stay_so() -> None:
    _, (both, in_order, at_once) = usual_work(SimulatedJob(2, in_turn_ns=2_000_000.0))
    assert in_order == pytest.approx(both, rel=0.005)
    assert at_once < 0.95 * both
