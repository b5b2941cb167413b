"""One step of all ranks on one clock: who computes, who communicates, and who waits for whom."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nsysprof.ranks.collective_waits.step_views import draw_together
from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.summarize import summarize_rank
from tests.ranks.job import MS, slow_in_backward, usual, write_job
from tests.ranks.replay.data_parallel import US, Training


def views_of(paths: list[Path]) -> dict[int, tuple]:
    return {n: summarize_rank(RankSource(n, path)).detail.facts.views for n, path in enumerate(paths)}


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple]:
    return views_of(write_job(tmp_path_factory.mktemp("job"), 4, slow_in_backward, skew_ns=lambda _: 0))


def test_the_late_rank_is_marked_and_the_others_wait_for_it(views: dict[int, tuple]) -> None:
    picture = draw_together(views, dict.fromkeys(views, 0), 9.5 * MS, ())
    assert picture is not None
    assert picture.late == 2
    assert picture.waited_ns == 3 * 2 * MS
    for lane in picture.lanes:
        waited = sum(end - start for start, end in lane.waits)
        assert waited == (0 if lane.rank == 2 else 2 * MS)
        assert sum(end - start for start, end in lane.moves) == MS // 2
        assert len(lane.compute_pct) == 400
        assert {name for name, _, _ in lane.ranges} <= {"forward", "backward"}
        assert lane.ranges


def test_clocks_are_put_on_one(tmp_path: Path) -> None:
    skew = [0, 37 * MS, -5 * MS]
    apart = views_of(write_job(tmp_path, 3, usual, skew_ns=lambda rank: skew[rank]))
    picture = draw_together(apart, dict(enumerate(skew)), 7 * MS, ())
    assert picture is not None
    assert picture.late is None
    assert picture.waited_ns == 0
    assert picture.wall_ns < 10 * MS
    # By clocks that differ, one rank seems to be late.
    wrong = draw_together(apart, dict.fromkeys(apart, 0), 7 * MS, ())
    assert wrong is None or wrong.wall_ns > 30 * MS


def test_ranks_without_a_clock_are_left_out(views: dict[int, tuple]) -> None:
    assert draw_together(views, {0: 0}, 9.5 * MS, ()) is None
    picture = draw_together(views, {0: 0, 1: 0}, 9.5 * MS, ())
    assert picture is not None
    assert [lane.rank for lane in picture.lanes] == [0, 1]
    assert picture.late is None


def test_computation_is_counted_by_slices(tmp_path: Path) -> None:
    training = Training(transfer_ns=900 * US, reduces_always=True)
    picture = draw_together(views_of(training.write(tmp_path)), {0: 0, 1: 0}, training.step_ns(), ())
    assert picture is not None
    busy = np.mean(picture.lanes[0].compute_pct) / 100
    assert busy * training.step_ns() == pytest.approx(3 * (8 * 200 + 2 * 50) * US + 100 * US, rel=0.02)
