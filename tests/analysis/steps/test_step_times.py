from types import SimpleNamespace

import numpy as np
import pytest

from nsysprof.analysis.steps import step_times
from nsysprof.app.trace_analysis.analyze_trace import analyze_trace
from nsysprof.results.analysis import OUTSIDE
from nsysprof.results.column_registry.analysis_columns import CAUSES, WORK_CATEGORIES, cause_column, work_column
from tests.builders.build_trace import TraceBuilder
from tests.builders.training import training
from tests.report import samples

PARTS = ["outside_ns", *map(work_column, WORK_CATEGORIES), *map(cause_column, CAUSES)]


def test_a_step_is_made_of_its_work_and_its_idle_time(tmp_path):
    times = samples.analysis(tmp_path, training()).step_times
    assert (times.per, times.devices, len(times.table)) == ("step#", [0], 10)
    assert (times.table[PARTS].sum(axis=1) == times.table["wall_ns"]).all()
    row = times.table.iloc[4]
    assert row["wall_ns"] == 1000
    assert row["busy_gemm_ns"] == 100
    assert row["busy_communication_ns"] == 50, "what computation hides does not count"
    parts = {part.name: part.mean_ns for part in times.parts_of(0)}
    assert sum(parts.values()) == pytest.approx(1000)
    assert parts[OUTSIDE] == pytest.approx((100 + 750) / 10), "before the first and after the last work"
    assert times.busy_pct(0) == pytest.approx(15)


@pytest.mark.parametrize("block", [1, 2, 3])
def test_work_that_is_joined_in_blocks_is_the_union_of_all_work(monkeypatch, block):
    monkeypatch.setattr(step_times, "_BLOCK", block)
    random = np.random.default_rng(block)
    start = np.sort(random.integers(0, 300, 60))
    work = SimpleNamespace(start_ns=start, ends_ns=lambda rows: start[rows] + 1 + rows % 7)
    busy = np.unique(np.concatenate([np.arange(start[row], start[row] + 1 + row % 7) for row in range(60)]))
    begun, ended = step_times._union_of_rows(work, np.arange(60, dtype=np.int32))
    assert np.concatenate([np.arange(*pair) for pair in zip(begun, ended, strict=True)]).tolist() == busy.tolist()
    assert (begun[1:] > ended[:-1]).all(), "intervals that touch are one"
    halves = [
        step_times._union_of_rows(work, np.arange(60, dtype=np.int32)[which]) for which in (slice(40), slice(40, 60))
    ]
    for pair in (halves, halves[::-1], [halves[1], (begun, ended)]):
        joined = step_times._join(*pair)
        assert [each.tolist() for each in joined] == [begun.tolist(), ended.tolist()]
    odd, even = (step_times._union_of_rows(work, np.arange(each, 60, 2, dtype=np.int32)) for each in (1, 0))
    assert [each.tolist() for each in step_times._join(odd, even)] == [begun.tolist(), ended.tolist()]


def test_slow_steps_are_marked_and_a_typical_one_is_the_median(tmp_path):
    walls = [5000, *[1000] * 7, 1010, 2000, *[1000] * 4]
    times = samples.analysis(tmp_path, training(walls)).step_times
    assert times.steps["is_warmup"].tolist() == [True] + [False] * 13
    assert times.steps.loc[times.steps["is_slow"].to_numpy(dtype=bool), "step"].tolist() == [9]
    assert times.usual_window_ns() == (15_000, 16_000)
    assert sorted(times.steady_walls_ns().tolist())[-2:] == [1010, 2000]
    assert sum(part.mean_ns for part in times.parts_of(0)) < 1002, "slow steps are not usual"


def test_a_trace_without_steps_is_one(tmp_path):
    made = TraceBuilder()
    made.kernel(100, 200, None, name="sgemm")
    made.kernel(300, 400, None, name="sgemm")
    times = samples.analysis(tmp_path, made).step_times
    assert not times.are_steps
    assert times.steps[["start_ns", "wall_ns"]].to_numpy().tolist() == [[100, 300]]
    assert times.busy_pct(0) == pytest.approx(200 / 3)


@pytest.mark.parametrize("name", ["ddp_rank0", "two_gpus", "graph_node", "managed"])
def test_steps_of_real_traces_add_up(trace_path, name):
    analysis = analyze_trace(trace_path(name))
    table = analysis.step_times.table
    assert (table[PARTS].sum(axis=1) == table["wall_ns"]).all()
    assert (table[PARTS] >= 0).all().all()
