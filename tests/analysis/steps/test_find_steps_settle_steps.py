"""The warm-up of the step range is that of the steps, however far the host runs ahead."""

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, US, Program


def analyze(program, tmp_path):
    with open_trace(program.builder.write(tmp_path / "t.sqlite")) as trace:
        return summarize(read_tables(trace))


def test_a_host_that_runs_ahead_for_some_steps_makes_no_warm_up(tmp_path):
    program = Program(queue=40)
    for _ in range(24):
        begin = program.now
        for _ in range(4):
            program.launch(500 * US)
        program.step(begin)
    found = analyze(program, tmp_path)
    walls = found.range_instances["wall_ns"]
    assert walls[:9].max() < 0.1 * walls[12:].min(), "the queue is empty at first"
    assert found.step_times.steps["is_warmup"].sum() == 0
    (row,) = found.ranges.to_dict("records")
    assert row["warmup_instances"] == 0


@pytest.mark.parametrize("warm_up", [1, 3])
def test_steps_that_take_the_gpu_longer_are_warm_up_in_both(tmp_path, warm_up):
    program = Program()
    for number in range(16):
        begin = program.now
        program.launch(20 * MS if number < warm_up else 2 * MS)
        program.host(100 * US)
        program.step(begin)
    found = analyze(program, tmp_path)
    assert found.step_times.steps["is_warmup"].tolist() == [True] * warm_up + [False] * (16 - warm_up)
    assert found.range_instances["is_warmup"].tolist() == [True] * warm_up + [False] * (16 - warm_up)
    assert found.range_instances["wall_ns"].max() < 1 * MS, "the host's time tells nothing of it"


def test_each_thread_that_has_steps_settles_by_itself(trace_path):
    with open_trace(trace_path("h200-forms/mps")) as trace:
        found = summarize(read_tables(trace))
    instances = found.range_instances[found.range_instances["range"] == found.step_times.per]
    assert len(instances) == 2 * found.step_times.steps["step"].nunique()
    # Two processes: two steps of one were slow for the GPU, one of the other.
    assert instances["is_warmup"].sum() == 3
    assert found.step_times.steps.drop_duplicates("step")["is_warmup"].sum() == 2
