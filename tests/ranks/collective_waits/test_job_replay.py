"""What the replay reads out of recorded collectives: steps, what waiting kernels cost, and a rank's later work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nsysprof.analysis.stragglers.late_ranks import judged_parts
from nsysprof.ranks.collective_waits.job_replay import add_later_work, find_period, has_whole_steps, read_job, replay
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


def test_the_work_of_later_steps_takes_as_long_in_all() -> None:
    arrived, _ = SimulatedJob(2).run(3)
    job = read_job(arrived, [0, 1])
    assert job is not None
    chains = add_later_work(job.chains, np.array([[11, 85], [85, 159]]), 16)
    assert chains.busy_ns.shape[0] == 4
    assert chains.busy_ns[2, 12:86].sum() == chains.busy_ns[0, 12:86].sum()
    assert chains.busy_ns[2, 12] == chains.busy_ns[0, 28]
    assert chains.busy_ns[2, 70] == chains.busy_ns[0, 12]
    assert chains.busy_ns[2, 86] == chains.busy_ns[0, 102]
    both, like, later = replay(job, chains, np.array([[0, 1], [0, 0], [0, 2]]))[:, -1]
    assert like < both
    assert later == pytest.approx(both, rel=0.01)
    assert later > like
