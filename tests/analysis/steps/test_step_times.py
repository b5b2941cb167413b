from types import SimpleNamespace

import numpy as np
import pytest

from nsysprof.analysis.steps import step_times
from nsysprof.app.analyze import analyze_trace
from nsysprof.report.pages.analysis import first_report
from nsysprof.results.analysis import OUTSIDE
from nsysprof.results.column_registry.analysis_columns import CAUSES, WORK_CATEGORIES, cause_column, work_column
from tests.analysis.programs import MS, US, Program
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


def test_only_work_that_overlaps_other_work_is_joined(tmp_path, monkeypatch):
    joined = []

    def union(work, rows):
        joined.append(len(rows))
        return union_of_rows(work, rows)

    union_of_rows = step_times._union_of_rows
    monkeypatch.setattr(step_times, "_union_of_rows", union)
    times = samples.analysis(tmp_path, training()).step_times
    assert (times.table[PARTS].sum(axis=1) == times.table["wall_ns"]).all()
    assert 0 < sum(joined) <= 2 * len(times.table), "a gemm and a collective of each step"


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


def lines(tmp_path, program):
    analysis = analyze_trace(program.builder.write(tmp_path / "trace.sqlite"))
    texts = [text for section in first_report(analysis).sections for part in section.parts for text in texts_of(part)]
    return analysis, " ".join(texts)


def texts_of(part):
    return getattr(part, "texts", ())


@pytest.mark.parametrize("falls", [True, False])
def test_steps_that_change_from_first_to_last_are_a_trend_and_not_a_warm_up(tmp_path, falls):
    program = Program()
    for size in range(200, 0, -1) if falls else range(200):
        begin = program.now
        program.launch(20 * US + size * US, "eliminate")
        program.wait()
        program.step(begin)
    analysis, said = lines(tmp_path, program)
    assert not analysis.step_times.table["is_warmup"].any()
    assert not analysis.step_times.table["is_slow"].any()
    assert ("they become shorter" if falls else "they become longer") in said
    assert "steady" not in said
    assert "warm-up" not in said


def test_steps_that_settle_are_no_trend(tmp_path):
    program = Program()
    for number in range(80):
        begin = program.now
        program.launch(max(200 - 10 * number, 50) * US)
        program.wait()
        program.step(begin)
    analysis, said = lines(tmp_path, program)
    assert analysis.step_times.steps["is_warmup"].sum() > 5
    assert "they become" not in said


def paced(period_ns, work, varies_ns, *, steps=30):
    """Return a program that works in each step and then sleeps until the next one is due."""
    program, random = Program(), np.random.default_rng(1)
    for _ in range(steps):
        begin = program.now
        program.copy(1 << 20, 200 * US)
        program.launch(work + int(random.integers(200 * US)), "blur")
        program.wait()
        program.host(begin + period_ns + int(random.integers(varies_ns)) - program.now)
        program.step(begin, "frame")
    return program


def test_no_saving_is_promised_of_a_loop_whose_pace_something_sets(tmp_path):
    analysis, said = lines(tmp_path, paced(40 * MS, 1 * MS, 50 * US))
    assert analysis.findings is None
    assert "something outside CUDA sets the pace: a step begins every 40.0" in said
    assert "the GPU works for 3 % of the time" in said


@pytest.mark.parametrize(
    ("work", "varies_ns"), [(1 * MS, 8 * MS), (30 * MS, 50 * US)], ids=["a loader whose time varies", "a busy GPU"]
)
def test_other_loops_are_not_paced(tmp_path, work, varies_ns):
    analysis, said = lines(tmp_path, paced(40 * MS, work, varies_ns))
    assert analysis.findings is not None
    assert "sets the pace" not in said
