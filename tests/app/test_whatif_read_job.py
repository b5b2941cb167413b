"""Which folders of traces are a job that can be replayed, and what is said of the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nsysprof.app.whatif import read_replayed_job
from nsysprof.errors import NotComparableError, UsageError
from nsysprof.ranks.identity import RankSource
from tests.conftest import REPOSITORY
from tests.ranks.replay.data_parallel import Training


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return Training().write(tmp_path_factory.mktemp("job"))


@pytest.mark.parametrize("name", ["fsdp-even", "fsdp-slow0"])
def test_a_recorded_job_is_replayed_as_it_was(name: str) -> None:
    folder = REPOSITORY / "traces/h200-programs"
    job = read_replayed_job([RankSource(rank, folder / f"{name}_rank{rank}.sqlite.xz") for rank in range(2)])
    assert job.replayed_ns == pytest.approx(job.recorded_ns, rel=0.005)
    assert job.shared.row.shape[0] == 2
    # All ranks end a collective together, on one clock.
    assert abs(job.shared.ended_ns[1] - job.shared.ended_ns[0]).max() < 100_000


def test_traces_that_are_no_job_are_refused(paths: list[Path], tmp_path: Path) -> None:
    other = Training(steps=6, buckets=1, reduces_always=True).write(tmp_path)[0]
    with pytest.raises(NotComparableError, match="not the ranks of one job") as raised:
        read_replayed_job([RankSource(0, paths[0]), RankSource(1, other)])
    assert "nsysprof compare" in raised.value.next_step
    alone = shutil.copy(REPOSITORY / "traces/sdpa22.sqlite.xz", tmp_path / "alone.sqlite.xz")
    with pytest.raises(NotComparableError, match=r"alone\.sqlite\.xz has no two steps"):
        read_replayed_job([RankSource(0, paths[0]), RankSource(1, Path(alone))])


def test_ranks_of_a_manifest_that_cannot_be_replayed(paths: list[Path], tmp_path: Path) -> None:
    other = Training(steps=6, buckets=1, reduces_always=True).write(tmp_path)[0]
    with pytest.raises(UsageError, match="do not share their collectives"):
        read_replayed_job([RankSource(0, paths[0], 0), RankSource(1, other, 1)])
    (tmp_path / "empty.sqlite").write_bytes(b"")
    with pytest.raises(Exception, match="zero bytes|empty"):
        read_replayed_job([RankSource(0, paths[0], 0), RankSource(1, tmp_path / "empty.sqlite", 1)])


def test_a_rank_that_recorded_fewer_steps_is_matched_at_the_end(paths: list[Path], tmp_path: Path) -> None:
    longer = Training(steps=9).write(tmp_path)
    job = read_replayed_job([RankSource(0, longer[0], 0), RankSource(1, paths[1], 1)])
    assert job.replayed_ns == pytest.approx(Training().step_ns(), rel=0.005)
