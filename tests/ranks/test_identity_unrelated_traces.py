"""Traces that are no ranks of one job are refused; a job is not."""

import shutil

import pandas as pd
import pytest

from nsysprof.app.analyze import AnalyzeRequest, analyze
from nsysprof.errors import NotComparableError
from nsysprof.ranks.identity import why_unrelated
from nsysprof.results.rank_results import RankRow

SHARED = pd.DataFrame({"total_ns": [900, 100], "ranks": [2, 1]})
OWN = pd.DataFrame({"total_ns": [900, 100], "ranks": [1, 2]})


def _row(position, **facts):
    return RankRow(position, f"{position}.sqlite", **{"rank_from": "order", "kernel_count": 5, "comm_ns": 0, **facts})


@pytest.mark.parametrize(
    ("first", "second", "kernels", "reason"),
    [
        ({}, {}, SHARED, ""),
        ({}, {}, OWN, "they ran different kernels"),
        ({"comm_ns": 7}, {}, SHARED, "some of them have collectives, and others have none"),
        ({"comm_ns": 7}, {"kernel_count": 0}, SHARED, "some of them have kernels, and others have none"),
        # A launcher numbered them: they are a job, whatever they ran.
        ({"rank_from": "environment"}, {"rank_from": "environment"}, OWN, ""),
    ],
)
def test_what_two_traces_have_in_common_decides(first, second, kernels, reason):
    assert why_unrelated([_row(0, **first), _row(1, **second)], kernels) == reason


@pytest.mark.parametrize(("start", "host", "is_job"), [(50, "a", True), (200, "a", False), (200, "b", True)])
def test_traces_of_one_host_without_a_common_moment_are_no_job(start, host, is_job):
    one = _row(0, session_start_utc_ns=0, first_ns=0, last_ns=100, host="a")
    other = _row(1, session_start_utc_ns=start, first_ns=0, last_ns=100, host=host)
    assert (why_unrelated([one, other], SHARED) == "") is is_job


def test_a_folder_of_unrelated_traces_is_refused_with_what_fits(trace_path, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    for name in ("ddp_rank0", "sdpa", "mem"):
        shutil.copy(trace_path(name), folder / f"{name}.sqlite")
    with pytest.raises(NotComparableError, match="not the ranks of one job") as refused:
        analyze(AnalyzeRequest((folder,), out=tmp_path / "out", figures=False))
    assert refused.value.exit_code == 15
    assert f"nsysprof compare {folder}/ddp_rank0.sqlite {folder}/mem.sqlite" in refused.value.next_step
    assert "sdpa.sqlite" in refused.value.text


def test_a_real_job_without_numbers_of_a_launcher_is_analysed(trace_path, tmp_path):
    inputs = (trace_path("ddp_rank0"), trace_path("ddp_rank1"))
    assert len(analyze(AnalyzeRequest(inputs, out=tmp_path / "out", figures=False)).analysis.rows) == 2
