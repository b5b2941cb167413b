"""The energy of ranges, from the counter of a board whose power is known in every millisecond."""

import json

import numpy as np
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.analysis.ranges.range_traffic import NOT_SAMPLED, TOO_SHORT
from nsysprof.analysis.traffic.energy import LAG_NS
from nsysprof.app.trace_analysis.analyze_snapshot import session_start_ns
from nsysprof.ranks.rank_energy import parse_power
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder
from tests.conftest import REPOSITORY

MS = 1_000_000


def energy_of(tmp_path, last_ms=4000):
    """Return energy.csv by range: `hard` works for a second at 700 W, `rest` for one at 100 W, `short` for 1 ms."""
    builder = TraceBuilder()
    builder.gpu()
    for number, (name, at, length) in enumerate((("hard", 0, 1000), ("rest", 1000, 1000), ("short", 2000, 1))):
        builder.range(at * MS, (at + length) * MS, name)
        builder.call(at * MS, at * MS + 10, number + 1)
        builder.kernel(at * MS, (at + length) * MS, number + 1)
    power = [700] * 1000 + [100] * 1000 + [400] * 2000
    energy = np.concatenate([[0], np.cumsum(power)])
    at = np.arange(0, last_ms + 1, 100)
    samples = GpuEnergy("GPU-0", 0, at * MS, energy[at].astype(np.int64))
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        return summarize(read_tables(trace), power=[samples]).energy.set_index("range", drop=False)


def test_ranges_have_the_energy_of_the_time_of_their_work(tmp_path):
    found = energy_of(tmp_path)
    assert found.loc["hard", ["energy_j", "mean_w"]].tolist() == [
        pytest.approx(700, rel=1e-3),
        pytest.approx(700, rel=1e-3),
    ]
    assert found.loc["rest", "energy_j"] == pytest.approx(100, rel=1e-3)
    assert (found["error_j"].dropna() <= 2 * LAG_NS / 1e9 * 600 + 1).all()
    assert found.loc["short", ["energy_j", "error_j"]].isna().all()
    assert found.loc["short", "reason"] == TOO_SHORT
    assert found.iloc[0]["range"] is None
    assert found.iloc[0]["period_ns"] == 100 * MS


def test_energy_is_unknown_where_sampling_ended_early(tmp_path):
    found = energy_of(tmp_path, last_ms=1500)
    assert found.loc["hard", "energy_j"] == pytest.approx(700, rel=1e-3)
    assert found.loc["rest", "reason"] == NOT_SAMPLED


def test_the_energy_of_a_real_program_agrees_with_the_boards_counter(trace_path):
    folder = REPOSITORY / "traces" / "h200-ranges"
    truth = json.loads((folder / "times.json").read_text())["power"]
    path = trace_path("h200-ranges/power")
    with open_trace(path) as trace:
        power = parse_power(folder / "power.csv", session_start_ns(path))
        found = summarize(read_tables(trace), power=power).energy.set_index("range")
    # Three instances of 1.5 s each, and a counter that changes every 100 ms.
    for name, watts in (("matmul", 690), ("copy", 424)):
        energy, error = found.loc[name, ["energy_j", "error_j"]]
        assert abs(energy - sum(truth[name])) < error
        assert error < 0.06 * energy
        assert found.loc[name, "mean_w"] == pytest.approx(watts, rel=0.01)
    assert 90e6 < found["period_ns"].iloc[0] < 110e6


def test_a_board_without_work_is_left_out(tmp_path):
    builder = TraceBuilder()
    for number in (0, 1):
        builder.gpu(number)
    builder.range(0, 1000 * MS, "hard")
    builder.call(0, 10, 1)
    builder.kernel(0, 1000 * MS, 1)
    at = np.arange(0, 2001, 100)
    boards = [GpuEnergy(f"GPU-{number}", number, at * MS, at.astype(np.int64) * 100) for number in (0, 1)]
    with open_trace(builder.write(tmp_path / "t.sqlite")) as trace:
        assert set(summarize(read_tables(trace), power=boards).energy["device_id"]) == {0}
