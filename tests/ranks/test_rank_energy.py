"""The energy of a job's boards: each rank's as its trace alone tells it, and all boards together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.app.trace_analysis.assemble import read_power
from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.rank_energy import SHARED, UNKNOWN, energy_over_ranks
from nsysprof.ranks.summarize import part_path
from nsysprof.report.formats.console import render_console
from nsysprof.report.pages.ranks import ranks_report
from nsysprof.results.power_samples import power_beside
from nsysprof.results.rank_results import RanksAnalysis
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import OTHER_TID, TraceBuilder
from tests.ranks.job import UTC
from tests.ranks.test_ranks import analyze, codes

MS = 1_000_000
WATTS = {"forward": 300, "backward": 700, "rest": 100}


def write_rank(folder: Path, rank: int, *, more_w: int = 0, board: int | None = None) -> Path:
    """Write a rank whose board takes WATTS in each range, with its samples; autograd's thread launches backward."""
    builder, energy, at, number = TraceBuilder(), [0], 0, 0
    board = rank if board is None else board
    builder.gpu(board, cuda=0)
    builder.row("TARGET_INFO_SESSION_START_TIME", "utcEpochNs INTEGER", (UTC,))
    for step in range(3):
        begin = at
        for name, watts in WATTS.items():
            number += 1
            builder.range(at * MS, (at + 500) * MS, name)
            if name != "rest":
                tid = {"tid": OTHER_TID} if name == "backward" else {}
                builder.call(at * MS + 10, at * MS + 20, number, **tid)
                builder.kernel(at * MS + 30, (at + 500) * MS, number)
            energy += [watts + more_w] * 500
            at += 500
        builder.range(begin * MS, at * MS, f"step{step}")
    path = builder.write(folder / f"rank{rank}.sqlite")
    counter = np.cumsum(energy)
    rows = [f"{UTC + time * MS},GPU-{board},{counter[time]}" for time in range(0, at + 1, 50)]
    power_beside(path).write_text("\n".join(["time_ns,gpu,energy_mj", *rows, ""]), encoding="ascii")
    return path


@pytest.fixture
def job(tmp_path: Path) -> list[Path]:
    """Two ranks with a board each; that of rank 1 takes 50 W more."""
    return [write_rank(tmp_path, rank, more_w=50 * rank) for rank in (0, 1)]


def text_of(found: RanksAnalysis) -> str:
    return render_console(ranks_report(found), 120)


def test_each_rank_has_what_its_trace_alone_tells(job: list[Path], tmp_path: Path) -> None:
    found = analyze(job, tmp_path / "out").rank_energy
    assert found is not None
    for rank, path in enumerate(job):
        with open_trace(path) as trace:
            alone = summarize(read_tables(trace), power=read_power(path, path)).energy
        mine = found[found["rank"] == rank]
        assert set(mine["gpu"]) == {f"GPU-{rank}"}
        assert mine["range"].fillna("").tolist() == alone["range"].fillna("").tolist()
        assert {"step#", "forward", "backward"} <= set(mine["range"])
        for column in ("instances", "covered_ns", "energy_j", "error_j", "mean_w"):
            assert mine[column].tolist() == alone[column].tolist(), column


def test_boards_are_added_with_their_errors(job: list[Path], tmp_path: Path) -> None:
    found = analyze(job, tmp_path / "out")
    assert found.energy is not None
    whole = found.energy.iloc[0]
    assert whole["range"] is None or whole["range"] != whole["range"]
    by_range = found.energy.set_index("range")
    backward = by_range.loc["backward"]
    assert (backward["ranks"], backward["boards"], backward["instances"]) == (2, 2, 6)
    assert backward["energy_j"] == pytest.approx(1.5 * (700 + 750), rel=0.02)
    assert backward["error_j"] >= abs(backward["energy_j"] - 1.5 * (700 + 750))
    assert (backward["board_least_w"], backward["board_most_w"]) == (
        pytest.approx(700, rel=0.02),
        pytest.approx(750, rel=0.02),
    )
    assert (backward["most_rank"], backward["reason"]) == (1, "")
    assert by_range.loc["forward", "energy_j"] < backward["energy_j"]
    assert "rest" not in by_range.index, "no board worked in it"
    text = text_of(found)
    assert "Energy of the boards" in text
    assert text.index("(the whole trace)") < text.index("backward  ", text.index("Energy of the boards"))


def test_a_board_that_ranks_share_is_not_added_twice(tmp_path: Path) -> None:
    found = analyze([write_rank(tmp_path, rank, board=0) for rank in (0, 1)], tmp_path / "out")
    assert found.energy is not None
    assert found.energy["energy_j"].isna().all()
    assert set(found.energy["reason"]) == {SHARED}
    assert SHARED in text_of(found)


def test_damaged_samples_leave_everything_else(job: list[Path], tmp_path: Path) -> None:
    power_beside(job[1]).write_text("time_ns,gpu,energy_mj\n5,GPU-1,\n")
    found = analyze(job, tmp_path / "out")
    assert "power-unreadable" in codes(found)
    assert [row.kernel_count for row in found.rows] == [6, 6]
    assert found.energy is not None
    assert set(found.energy["boards"]) == {1}


def test_a_reason_that_all_ranks_share_is_that_of_the_sum():
    short = "its work is too short"
    rows = [{"gpu": f"GPU-{rank}", "range": "step#", "style": "PushPop", "domain": "", "rank": rank, "instances": 2,
             "energy_j": None, "error_j": None, "mean_w": None, "reason": short} for rank in range(2)]  # fmt: skip
    assert energy_over_ranks(pd.DataFrame(rows))["reason"].tolist() == [short]
    known = pd.DataFrame([rows[0], rows[1] | {"energy_j": 3.0, "error_j": 1.0, "mean_w": 5.0, "reason": ""}])
    assert energy_over_ranks(known)["reason"].tolist() == [UNKNOWN]


def test_samples_that_end_early_leave_the_sum_unknown(job: list[Path], tmp_path: Path) -> None:
    samples = power_beside(job[1])
    samples.write_text("".join(samples.read_text().splitlines(keepends=True)[:10]))
    found = analyze(job, tmp_path / "out")
    assert found.energy is not None
    assert set(found.energy["reason"]) == {UNKNOWN}
    assert found.energy["energy_j"].isna().all()
    assert found.energy["board_least_w"].notna().all(), "that of the other rank is known"


def test_without_samples_there_is_no_table(job: list[Path], tmp_path: Path) -> None:
    before = part_path(RankSource(0, job[0]), tmp_path)
    for path in job:
        power_beside(path).unlink()
    assert part_path(RankSource(0, job[0]), tmp_path) != before, "the result of the trace with its samples is not used"
    found = analyze(job, tmp_path / "out")
    assert found.energy is not None
    assert len(found.energy) == 0
    assert "Energy" not in text_of(found)


def test_the_samples_of_a_compressed_trace_have_the_name_of_the_trace() -> None:
    names = {power_beside(Path(f"rank00003.{end}")).name for end in ("sqlite", "sqlite.xz", "sqlite.gz", "nsys-rep")}
    assert names == {"rank00003.power.csv"}
