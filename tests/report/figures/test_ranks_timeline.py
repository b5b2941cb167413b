"""The timeline of ranks: one clock, one name for a collective on all ranks, and who comes last."""

from dataclasses import replace

import numpy as np

from nsysprof.report.figures.ranks import ranks_timeline_data
from nsysprof.results.rank_results import ClockFit, Lanes, RankCollectives
from tests.report.fixed_results import MS, ranks_analysis
from tests.report.formats.test_timeline_data import column


def test_collectives_end_together_on_one_clock_and_the_last_to_come_is_named():
    data = ranks_timeline_data(ranks_analysis())
    assert [(lane["label"], lane["rows"]) for lane in data["lanes"]] == [
        ("rank 0", 0), ("rank 0, NCCL", 4), ("rank 1 ▲ straggler", 0), ("rank 1 ▲ straggler, NCCL", 4)
    ]  # fmt: skip
    starts, lengths = (column(data, name, "<u8") for name in ("start", "length"))
    ends = [np.cumsum(starts[part]) + lengths[part] for part in (slice(0, 4), slice(4, 8))]
    assert ends[0].tolist() == ends[1].tolist() == [MS * each for each in (50, 100, 150, 200)]
    assert column(data, "name", "<u4").tolist() == [1, 2, 3, 4] * 2
    assert data["nameCounts"] == [0, 2, 2, 2, 2]
    assert data["places"][0] == ("AllReduce 0: rank 1 comes last, 14.0 ms after the first", [1])
    assert data["spanNs"] == 200 * MS


def test_ranks_that_recorded_other_parts_share_no_names():
    found = ranks_analysis()
    one = found.collectives[1]
    shifted = replace(one, start_ns=one.start_ns + 50 * MS, end_ns=one.end_ns + 50 * MS)
    data = ranks_timeline_data(replace(found, collectives={0: found.collectives[0], 1: shifted}))
    assert data["nameCounts"] == [0] + [1] * 8
    assert data["places"] == []


def test_a_rank_without_the_clock_is_left_out_and_said_to_be():
    found = ranks_analysis()
    data = ranks_timeline_data(replace(found, clocks=(found.clocks[0], ClockFit(1, "none", None, 0, None, None, "x"))))
    assert [lane["label"] for lane in data["lanes"]] == ["rank 0", "rank 0, NCCL"]
    assert "1 rank without a common clock left out" in data["detail"]
    assert ranks_timeline_data(replace(found, clocks=())) is None


def test_of_many_ranks_those_that_stand_out_stay():
    found = ranks_analysis()
    lane, nothing = Lanes(0, MS, np.ones(4, np.float32), np.zeros(4, np.float32)), np.zeros(0, np.int64)
    collectives = RankCollectives((), nothing, nothing, nothing, nothing)
    data = ranks_timeline_data(
        replace(
            found,
            rows=tuple(replace(found.rows[0], position=rank, rank=rank) for rank in range(64)),
            clocks=tuple(ClockFit(rank, "utc", 0, 9, 0, 0) for rank in range(64)),
            lanes=dict.fromkeys(range(64), lane),
            collectives=dict.fromkeys(range(64), collectives),
            outliers={63: "compute +20 %"},
        )
    )
    labels = [lane["label"] for lane in data["lanes"][::2]]
    assert len(labels) == 20
    assert {"rank 0", "rank 1 ▲ straggler", "rank 63 outlier"} < set(labels)
    assert "44 more ranks left out" in data["detail"]
