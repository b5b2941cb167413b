"""Comparisons of real traces whose truth is known: the same layers in several ways, and trainings that warm up."""

import json
import statistics

import pytest

from nsysprof.analysis.comparison.compare_latency import Settings, judge_walls
from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.analysis.comparison.range_facts import collect_range_facts
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.results.comparison import LatencyVerdict
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.conftest import REPOSITORY

LAYERS = [f"layer{number}{part}" for number in range(4) for part in ("", " backward")]


@pytest.fixture(scope="module")
def facts(trace_path):
    """`facts("layers-eager")`: what is compared of a trace in traces/h200-ranges."""
    found = {}

    def collect(name):
        if name not in found:
            with open_trace(trace_path(f"h200-ranges/{name}")) as trace:
                tables = read_tables(trace)
                found[name] = collect_range_facts(tables, summarize(tables), {})
        return found[name]

    return collect


@pytest.mark.parametrize(("baseline", "candidate"), [("eager", "graph")])
def test_each_layer_has_the_same_kernels_in_both_ways(facts, baseline, candidate):
    changes = compare_ranges([facts(f"layers-{baseline}")], [facts(f"layers-{candidate}")])
    kernels = {change.range: change.metrics["kernels"] for change in changes}
    forward, backward = kernels["layer0"].baseline, kernels["layer0 backward"].baseline
    assert min(forward, backward) > 4
    for name in LAYERS:
        expected = backward if name.endswith("backward") else forward
        assert (kernels[name].baseline, kernels[name].candidate) == (expected, expected), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("baseline", "candidate", "more"), [("eager", "cudagraphs", 1.3), ("compiled", "reduce-overhead", 0.3)]
)
def test_a_layer_that_replays_its_own_graph_has_its_kernels_once(facts, baseline, candidate, more):
    changes = compare_ranges([facts(f"layers-{baseline}")], [facts(f"layers-{candidate}")])
    kernels = {change.range: change.metrics["kernels"] for change in changes}
    # torch first copies what a graph cannot read in place into its memory. The outer layers have inputs of their own,
    # and the compiled ones tune themselves before.
    for name in ("layer1", "layer2", "layer1 backward", "layer2 backward"):
        metric = kernels[name]
        assert metric.baseline == {"eager": (6, 11), "compiled": (6, 9)}[baseline]["backward" in name]
        assert metric.baseline <= metric.candidate <= metric.baseline + more, name


@pytest.mark.slow  # range_facts tests the same on traces that are built
def test_two_trainings_with_different_warm_up_have_their_true_ratio(facts):
    times = json.loads((REPOSITORY / "traces" / "h200-ranges" / "times.json").read_text())
    sides = [facts("train-eager")], [facts("train-compiled")]
    known = Settings(floor_pct=10.0)
    steps = {change.range: change for change in judge_walls(compare_ranges(*sides), *sides, known)}["step#"]
    # A mean over all steps, warm-up included, would say that the faster training takes twice as long.
    means = [statistics.mean(times[f"train-{way}"]["traced"]) for way in ("eager", "compiled")]
    assert means[1] / means[0] > 2
    for how in ("traced", "untraced"):
        usual = [statistics.median(times[f"train-{way}"][how][6:]) for way in ("eager", "compiled")]
        metric = steps.metrics["wall"]
        assert metric.candidate / metric.baseline == pytest.approx(usual[1] / usual[0], rel=0.03), how
    assert steps.wall_verdict.verdict is LatencyVerdict.FASTER


@pytest.mark.slow  # range_names tests the same on names
def test_two_recordings_of_one_jax_program_line_up(trace_path):
    sides = []
    for name in ("h200-programs/jax", "h200-forms/lost_import"):
        with open_trace(trace_path(name)) as trace:
            tables = read_tables(trace)
            sides.append(collect_range_facts(tables, summarize(tables), {}))
    changes = compare_ranges([sides[0]], [sides[1]])
    both = [change for change in changes if change.how == "both"]
    assert len(both) > 5 * (len(changes) - len(both)) / 2
    steps = next(change for change in changes if change.range == "XlaModule:#hlo_module=jit_step#")
    assert (steps.how, steps.is_library) == ("both", False)
    passes = [number for number, change in enumerate(changes) if change.range.startswith("XlaPass")]
    assert passes[0] > max(number for number, change in enumerate(changes) if change.range.startswith("XlaModule"))
