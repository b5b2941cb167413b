"""Samples of energy are found in the folder of a capture, and beside the trace of a rank."""

import shutil

import pytest

from nsysprof.app.trace_analysis.assemble import read_power
from tests.conftest import REPOSITORY

SAMPLES = REPOSITORY / "traces" / "h200-ranges" / "power.csv"


def test_a_rank_has_the_samples_beside_its_trace(trace_path, tmp_path):
    trace = trace_path("h200-ranges/power")
    one, job = tmp_path / "one", tmp_path / "job"
    (job / "ranks").mkdir(parents=True)
    one.mkdir()
    shutil.copy(SAMPLES, one / "power.csv")
    rank = job / "ranks" / "rank00000.sqlite"
    rank.symlink_to(trace)
    assert read_power(rank, rank) == ()
    shutil.copy(SAMPLES, rank.with_suffix(".power.csv"))
    (alone,), (found,) = read_power(one, trace), read_power(rank, rank)
    assert (found.uuid, found.energy_mj.tolist()) == (alone.uuid, alone.energy_mj.tolist())
    assert found.time_ns.tolist() == alone.time_ns.tolist()
    assert found.period_ns == pytest.approx(100e6, rel=0.1)
