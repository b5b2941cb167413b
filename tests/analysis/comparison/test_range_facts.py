"""What is compared of two traces: steady instances, steps together, and work per execution."""

import numpy as np
import pytest

from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.analysis.comparison.range_facts import collect_range_facts
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.attribution.test_adoption import training
from tests.analysis.attribution.test_calls_graph_work import create, replay
from tests.builders.build_trace import TraceBuilder


def facts(builder, path, **options):
    with open_trace(builder.write(path)) as trace:
        tables = read_tables(trace)
        return collect_range_facts(tables, summarize(tables), {}, **options)


def run(steps, warm_up, scale, seed):
    """Return a training whose first steps are slow: the first 20 times, the others 4 times; 2 % of noise."""
    builder, at, random = TraceBuilder(), 0, np.random.default_rng(seed)
    for step in range(steps):
        slow = 20 if step == 0 else 4 if step < warm_up else 1
        wall = int(scale * slow * 100_000 * (1 + 0.02 * random.standard_normal()))
        builder.range(at, at + wall, f"step{step}")
        builder.range(at + 10, at + wall // 2, "forward")
        builder.launch(at + 20, step + 1)
        at += wall + 1000
    return builder


@pytest.mark.parametrize("ratio", [1.0, 1.25, 0.8])
def test_two_trainings_with_different_warm_up_have_their_true_ratio(tmp_path, ratio):
    old = facts(run(30, 2, 1.0, 1), tmp_path / "old.sqlite")
    new = facts(run(50, 13, ratio, 2), tmp_path / "new.sqlite")
    found = {change.range: change for change in compare_ranges([old], [new])}
    assert not any(name.startswith("step") and name != "step#" for name in found)
    for name in ("step#", "forward"):
        metric = found[name].metrics["wall"]
        assert metric.candidate / metric.baseline == pytest.approx(ratio, rel=0.03)
        assert found[name].metrics["launches"].change == 0
    change = found["step#"]
    assert change.wall_ratio_low < ratio < change.wall_ratio_high
    assert change.wall_ratio_high / change.wall_ratio_low < 1.06
    assert (found["step#"].baseline_calls, found["step#"].candidate_calls) == (28, 37)
    assert sum(found["step#"].parts.values()) == found["step#"].wall_change_ns


def test_eager_code_lines_up_with_a_replayed_graph(tmp_path):
    eager = TraceBuilder()
    for step in range(5):
        eager.range(1000 * step, 1000 * step + 900, "layer0")
        for number in range(2):
            eager.launch(1000 * step + 100 * number + 10, 10 * step + number + 1)
    graph = TraceBuilder()
    for step in range(2):  # eager executions before the capture
        graph.range(1000 * step, 1000 * step + 900, "layer0")
        for number in range(2):
            graph.launch(1000 * step + 100 * number + 10, 100 + 10 * step + number)
    graph.range(4_000, 4_500, "layer0")
    for number in range(2):
        create(graph, 4_100 + number, 100 + number)
        create(graph, 4_600, 200 + number, 100 + number)
    create(graph, 4_550, 102)
    create(graph, 4_600, 202, 102)
    for number in range(4):
        replay(graph, 10_000 + 2_000 * number, 1 + number, 200)
    traces = [facts(eager, tmp_path / "e.sqlite")], [facts(graph, tmp_path / "g.sqlite")]
    found = {change.range: change for change in compare_ranges(*traces)}
    metric = found["layer0"].metrics["kernels"]
    assert (metric.baseline, metric.candidate) == (2, 2)
    assert found["layer0"].candidate_calls == 6


def test_adopted_kernels_count_unless_only_launched_ones_are_asked_for(tmp_path):
    path = tmp_path / "t.sqlite"
    found = facts(training(TraceBuilder()), path)["backward", ""]
    assert (found.metrics["kernels"], found.instances) == (27, 3)
    assert found.metrics["busy"] == found.metrics["kernel_time"] == 27 * 50
    assert found.parts["kernels_ns"] == 27 * 50 and sum(found.parts.values()) == found.metrics["wall"]
    with open_trace(path) as trace:
        tables = read_tables(trace)
        alone = collect_range_facts(tables, summarize(tables, launched_only=True), {}, launched_only=True)
    assert alone["backward", ""].metrics["kernels"] == 3


def test_busy_time_is_of_all_instances_where_only_some_adopted_kernels(tmp_path):
    builder = training(TraceBuilder())
    builder.range(43_100, 48_000, "backward")
    builder.launch(43_150, 999)
    found = facts(builder, tmp_path / "t.sqlite")["backward", ""]
    assert found.metrics["busy"] == found.metrics["kernel_time"] == 28 * 50


def test_operators_of_emit_nvtx_pair_by_name_and_domain_and_not_by_number(tmp_path):
    """Each call has a name of its own there, which the other side has by coincidence or not at all."""
    sides = []
    for shift in (0, 5):
        builder = TraceBuilder()
        for number in range(6):
            builder.range(1000 * number, 1000 * number + 500, f"aten::mm, op_id = {7 * number + shift}", domain=3)
            builder.range(1000 * number + 600, 1000 * number + 700, f"aten::mm, seq = {number + shift}")
            builder.launch(1000 * number + 10, number + 1)
        sides.append(facts(builder, tmp_path / f"{shift}.sqlite"))
    found = {(change.range, change.domain): change for change in compare_ranges(*([side] for side in sides))}
    assert set(found) == {("(whole trace)", ""), ("aten::mm", "domain 3"), ("aten::mm", "")}
    assert {change.how for change in found.values()} == {"both"}
    assert (
        found["aten::mm", "domain 3"].baseline_calls,
        found["aten::mm", "domain 3"].metrics["kernels"].baseline,
    ) == (6, 1)
    assert found["aten::mm", ""].metrics["kernels"].baseline == 0
