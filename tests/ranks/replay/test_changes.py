"""What a job gains by another communication, by replaying its ranks together, against the same job that has it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nsysprof.app.whatif import read_replayed_job
from nsysprof.errors import UsageError
from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.replay.changes import CommunicationChange, ReplayedJob, replay_change
from tests.ranks.replay.data_parallel import US, Training

MB = 1_000_000


def job_of(training: Training, folder: Path) -> ReplayedJob:
    paths = training.write(folder)
    return read_replayed_job([RankSource(rank, path, rank) for rank, path in enumerate(paths)])


def with_sizes(job: ReplayedJob, size: float) -> ReplayedJob:
    ranks = [replace(rank, collectives=rank.collectives.assign(bytes=size)) for rank in job.ranks]
    return ReplayedJob(ranks, job.shared)


@pytest.mark.parametrize("slower_ns", [0, 40 * US])
@pytest.mark.parametrize("transfer_ns", [100 * US, 900 * US])
def test_the_unchanged_replay_takes_what_was_recorded(tmp_path: Path, slower_ns: int, transfer_ns: int) -> None:
    training = Training(ranks=3, slower_ns=slower_ns, transfer_ns=transfer_ns)
    job = job_of(training, tmp_path)
    assert job.replayed_ns == pytest.approx(training.step_ns(), rel=0.002)
    assert job.recorded_ns == pytest.approx(training.step_ns(), rel=0.01)


@pytest.mark.parametrize("launch_ns", [0, 300 * US])
def test_without_redundant_reductions_a_step_takes_what_it_takes_without_them(tmp_path: Path, launch_ns: int) -> None:
    training = Training(reduces_always=True, transfer_ns=900 * US, launch_ns=launch_ns)
    job = job_of(training, tmp_path)
    truth = replace(training, reduces_always=False).step_ns()
    answer = replay_change(job, CommunicationChange(no_sync=True))
    saved, gained = training.step_ns() - truth, job.replayed_ns - answer.step_ns
    assert saved > 1e6
    assert gained == pytest.approx(saved, rel=0.15)
    assert answer.low_ns <= answer.step_ns <= answer.high_ns


def test_a_rank_that_saves_time_waits_for_the_others(tmp_path: Path) -> None:
    even = job_of(Training(transfer_ns=10 * US), tmp_path / "even")
    uneven = job_of(Training(transfer_ns=10 * US, slower_ns=100 * US), tmp_path / "uneven")
    # Half as long communication saves next to nothing where a rank waits for the other one for longer than that.
    for job in (even, uneven):
        answer = replay_change(job, CommunicationChange(link_scale=1000))
        assert job.replayed_ns - answer.step_ns <= 6 * 10 * US
    assert uneven.replayed_ns > even.replayed_ns + 3 * 8 * 90 * US


def test_a_faster_link_and_more_ranks(tmp_path: Path) -> None:
    training = Training(transfer_ns=900 * US)
    job = with_sizes(job_of(training, tmp_path), 64 * MB)
    faster = replay_change(job, CommunicationChange(link_scale=2))
    truth = replace(training, transfer_ns=450 * US).step_ns()
    assert faster.low_ns <= truth * 1.002
    assert faster.high_ns >= truth * 0.998
    assert faster.step_ns < job.replayed_ns
    more = [replay_change(job, CommunicationChange(ranks=ranks)).step_ns for ranks in (2, 4, 64)]
    assert more[0] == pytest.approx(job.replayed_ns, rel=1e-3)
    assert more[0] < more[1] < more[2]


def test_messages_that_are_sent_together(tmp_path: Path) -> None:
    training = Training(kernel_ns=20 * US, transfer_ns=20 * US, buckets=8, launch_ns=250 * US)
    job = with_sizes(job_of(training, tmp_path), 1 * MB)
    answer = replay_change(job, CommunicationChange(bucket_bytes=4 * MB))
    truth = replace(training, buckets=2, transfer_ns=30 * US).step_ns()
    assert job.replayed_ns - answer.step_ns == pytest.approx(training.step_ns() - truth, rel=0.2)


def test_changes_that_change_nothing_are_refused(tmp_path: Path) -> None:
    job = job_of(Training(), tmp_path / "even")
    for known, change, says in (
        (job, CommunicationChange(no_sync=True), "not reduced more often"),
        (job, CommunicationChange(bucket_bytes=MB), "sizes of this job's messages are unknown"),
        (with_sizes(job, 2 * MB), CommunicationChange(bucket_bytes=MB), "nothing to send together"),
    ):
        with pytest.raises(UsageError, match=says):
            replay_change(known, change)
    unknown = ReplayedJob([replace(rank, has_passes=False) for rank in job.ranks], job.shared)
    with pytest.raises(UsageError, match="which reductions the optimizer needs"):
        replay_change(unknown, CommunicationChange(no_sync=True))


def test_both_changes_save_more_than_one(tmp_path: Path) -> None:
    job = with_sizes(job_of(Training(reduces_always=True, transfer_ns=900 * US), tmp_path), 1 * MB)
    one, other, both = (
        replay_change(job, change).step_ns
        for change in (
            CommunicationChange(no_sync=True),
            CommunicationChange(link_scale=2),
            CommunicationChange(no_sync=True, link_scale=2),
        )
    )
    assert both < min(one, other) < job.replayed_ns
    assert np.isfinite(both)
