"""The time of a step on two sides is that of analyze, and it is judged with the ranges."""

import re
from dataclasses import replace

import pytest

from nsysprof.analysis.comparison.compare import STEP_CASE, compare_inputs, compare_steps
from nsysprof.analysis.comparison.compare_latency import Settings
from nsysprof.analysis.comparison.gate.gate import parse_gate
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.app.inputs.compare_inputs import read_input
from nsysprof.files.plain_file import encode_json
from nsysprof.report.formats.console import render_console
from nsysprof.report.formats.markdown import render_markdown
from nsysprof.report.pages.compare import compare_report, comparison_json, open_questions, step_line
from nsysprof.results.checks import Outcome
from nsysprof.results.comparison import Input, LatencyVerdict, StepWalls
from nsysprof.results.findings import STEP
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.published_schema import as_published
from tests.conftest import REPOSITORY

MS = 1_000_000


@pytest.fixture(scope="module")
def read(trace_path):
    """`read("train-eager")`: what compare reads of a trace in traces/."""
    found = {}

    def once(name):
        if name not in found:
            found[name] = read_input(trace_path(name), None, lambda _: None)
        return found[name]

    return once


def compared(baseline, candidate, **settings):
    sides = ([each] if isinstance(each, Input) else each for each in (baseline, candidate))
    return compare_inputs(*sides, {}, (), Settings(**settings), force=True)


def with_steps(walls_ns, per="train", name="a"):
    walls = tuple(walls_ns)
    steps = StepWalls(per, sum(walls) / len(walls), walls, is_marked=per != STEP)
    return Input(name, "trace", {}, ranges={}, steps=steps)


def told_by_analyze(path):
    with open_trace(path) as trace:
        times = summarize(read_tables(trace)).step_times
    return times.step_ns


def test_the_steps_of_two_trainings_are_those_that_analyze_tells_of(read, trace_path):
    names = "h200-ranges/train-eager", "h200-ranges/train-compiled"
    found = compared(*map(read, names), floor_pct=10.0)
    old, new = (told_by_analyze(trace_path(name)) for name in names)
    assert (found.step.baseline_ns, found.step.candidate_ns) == (old, new)
    assert found.step.change_pct == pytest.approx(100 * (new - old) / old)
    assert found.step.verdict.verdict is LatencyVerdict.FASTER
    assert found.step.verdict.low < new / old < found.step.verdict.high
    line = step_line(found)
    assert line in (REPOSITORY / "docs" / "compare.md").read_text(encoding="utf-8")
    for text in (render_console(compare_report(found), 200), render_markdown(compare_report(found))):
        assert text.index("A step takes") < text.index("on both sides")
    assert found.headline is None or found.headline.range != found.step.per, "its time is told once"
    printed = as_published("compare", encode_json({**comparison_json(found), "folder": None}).decode())
    assert printed["step"]["baseline_ns"] == old
    assert printed["step"]["verdict"]["case"] == STEP_CASE
    assert len([text for text in found.method if "the time of a step" in text]) == 1


def test_a_gate_judges_the_time_of_a_step(read):
    eager, compiled, other = map(read, ("h200-ranges/train-eager", "h200-ranges/train-compiled", "mem"))
    for old, new, outcome in (
        (compiled, eager, Outcome.REGRESSION), (eager, compiled, Outcome.PASS), (eager, other, Outcome.INCONCLUSIVE),
    ):  # fmt: skip
        found = compare_inputs([old], [new], {}, parse_gate("step:3%"), Settings(floor_pct=10.0), force=True)
        assert found.outcome is outcome
        assert (outcome is Outcome.REGRESSION) == ("19.4 ms to 26.6 ms" in str(found.gate))


def test_steps_whose_gpu_waits_for_the_host_have_no_verdict_from_one_trace_a_side(read):
    found = compared(read("h200-ranges/train-eager"), read("h200-ranges/train-compiled"))
    assert found.step.verdict.verdict is LatencyVerdict.INCONCLUSIVE
    assert found.step.verdict.low is None
    assert "the host determines this time" in found.step.verdict.reason


def test_where_the_host_runs_ahead_neither_the_step_nor_its_range_takes_longer(read):
    found = compared(read("ddp_rank0"), read("ddp_rank1"))
    assert abs(found.step.change_pct) < 1
    assert found.step.verdict.verdict is LatencyVerdict.INCONCLUSIVE
    (time,) = set(re.findall(r"A step takes ([\d.]+ ms)", step_line(found)))
    assert step_line(found).startswith(f"A step takes {time} on both sides: less than 0.1 %")
    (table_row,) = (change for change in found.ranges if change.range == found.step.per)
    assert table_row.wall_verdict.verdict is LatencyVerdict.INCONCLUSIVE
    assert found.headline is None, "neither the range of the steps nor what NCCL does at the end"
    assert [text for text in open_questions(found) if STEP_CASE in text]
    assert not [change for change in found.ranges if "\0" in change.range], "no row of the table"


def test_a_rank_that_waits_in_collectives_is_not_bound_by_its_gpu(read):
    waiting, working = read("h200-ddp/rank00000"), read("h200-ddp/rank00001")
    assert (waiting.steps.host_bound, working.steps.host_bound) == (True, False)
    found = compared(read("h200-ddp-even/rank00000"), waiting)
    assert (found.step.verdict.verdict, found.step.verdict.low) == (LatencyVerdict.INCONCLUSIVE, None)


def test_two_ranks_a_side_tell_what_one_cannot(read):
    even, slow = ([read(f"{job}/rank0000{rank}") for rank in (0, 1)] for job in ("h200-ddp-even", "h200-ddp"))
    found = compare_inputs(even, slow, {}, parse_gate("step:3%,busy:5%"), Settings(), force=True)
    assert found.step.verdict.verdict is LatencyVerdict.SLOWER
    step, busy = found.gate
    assert (step.outcome, busy.outcome) == (Outcome.REGRESSION, Outcome.REGRESSION)
    assert not [finding for finding in busy.findings if "--rounds" in finding.next_step]


def test_traces_without_steps_say_nothing(read):
    found = compared(read("mem"), read("mem"))
    assert found.step is None
    assert step_line(found) == ""
    assert not [text for text in found.method if "the time of a step" in text]


def test_steps_of_other_ranges_or_of_one_trace_alone_are_not_compared():
    train, epoch = with_steps([MS] * 8), with_steps([MS] * 8, per="epoch")
    without = replace(train, steps=None)
    for old, new in (([train], [epoch]), ([train], [without]), ([train, without], [train]), ([train], [])):
        assert compare_steps(old, new) is None
    assert compare_steps([train], [train]).change_pct == 0


def test_a_range_may_be_called_as_steps_without_one_are(read):
    without = with_steps([MS] * 8, per="step")
    marked = replace(without, steps=replace(without.steps, is_marked=True))
    assert compare_steps([marked], [without]) is None, "they are no steps of the same range"
    of_any = compared(read("mem"), read("mem"))
    for each in (without, marked):
        said = step_line(replace(of_any, step=compare_steps([each], [each])))
        assert ("No range marks" in said) == (each is without)


def test_of_several_traces_it_is_the_geometric_mean_which_is_what_is_tested():
    old = [with_steps([wall * MS] * 8) for wall in (10, 12, 14.4)]
    found = compare_steps(old, [with_steps([6 * MS] * 8)])
    assert (found.baseline_ns, found.candidate_ns) == pytest.approx((12 * MS, 6 * MS))


def test_few_steps_have_no_verdict(read):
    old, new = (replace(read("mem"), steps=with_steps([wall] * 3, per="step").steps) for wall in (MS, 2 * MS))
    found = compared(old, new)
    assert step_line(found) == (
        "A step takes 2.00 ms instead of 1.00 ms: 100 % longer; there are too few steps for a verdict. "
        "No range marks the steps: on each side they are where its own kernels repeat."
    )
    assert "no difference" in step_line(compared(old, old))


def test_it_counts_in_the_correction_of_the_ranges(read):
    old, new = read("h200-ranges/train-eager"), read("h200-ranges/train-compiled")
    alone, together = (compared(each, new, floor_pct=10.0) for each in (replace(old, steps=None), old))
    before, after = (
        {change.range: change.wall_verdict.p for change in each.ranges if change.wall_verdict is not None}
        for each in (alone, together)
    )
    assert before.keys() == after.keys()
    assert before != after
