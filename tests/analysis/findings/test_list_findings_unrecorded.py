"""Savings are of a step without the profiler where its time was measured: against what changes really save."""

import json
import statistics
from pathlib import Path

import pytest

from nsysprof.app.trace_analysis.assemble import assemble
from nsysprof.results.findings import UNRECORDED, UnrecordedSteps

FOLDER = Path(__file__).parents[3] / "traces/h200-faults"
TRUE_MS = json.loads((FOLDER / "step_times.json").read_text(encoding="utf-8"))["train_llama"]


def step_ms(form):
    return statistics.median(map(statistics.median, TRUE_MS[form]))


def findings_of(trace_path, tmp_path, form, steps_ms):
    trace = trace_path(f"h200-faults/{form}")
    (tmp_path / "nsys.sqlite").write_bytes(trace.read_bytes())
    if steps_ms:
        data = {
            "format_version": 1,
            "steps_ns": [round(ms * 1e6) for ms in steps_ms],
            "source": "steps of the optimizer",
        }
        (tmp_path / UNRECORDED).write_text(json.dumps(data))
    return assemble(tmp_path, tmp_path / "nsys.sqlite").analysis.findings


@pytest.mark.parametrize("form", ["sync", "sleeping-loader", "all"])
def test_savings_are_nearer_to_the_truth_than_those_of_a_replay_alone(trace_path, tmp_path, form):
    truth_ms = step_ms(form) - step_ms("none")

    def off_ms(found):
        codes = {"sync": "sync", "sleeping-loader": "host-bound"}
        saving = {item.code: item.saving_ns for item in found.items}
        return abs((found.together_ns if form == "all" else saving[codes[form]]) / 1e6 - truth_ms)

    replayed = findings_of(trace_path, tmp_path, form, [])
    steps = replayed.warmup + replayed.usual_steps
    measured = findings_of(trace_path, tmp_path, form, [step_ms(form)] * (steps - 1))
    assert replayed.unrecorded_ns is None
    assert (measured.unrecorded_ns, measured.whole_ns) == (round(step_ms(form) * 1e6),) * 2
    assert measured.unrecorded_low_ns == measured.unrecorded_high_ns == measured.unrecorded_ns, "of equal steps"
    assert measured.whole_ns < measured.step_ns
    assert off_ms(measured) < off_ms(replayed)
    assert off_ms(measured) < 0.02 * step_ms(form)


@pytest.mark.parametrize(("form", "code"), [("sync", "sync"), ("sleeping-loader", "host-bound")])
def test_bounds_hold_what_another_run_would_have_said_whose_host_is_slower_or_faster_as_programs_were(
    trace_path, tmp_path, form, code
):
    """Eight programs that ran twice differed by 2 to 16 %."""

    def finding(times):
        found = findings_of(trace_path, tmp_path, form, [times * step_ms(form)] * 11)
        return next(item for item in found.items if item.code == code)

    told = finding(1.0)
    assert all(told.saving_low_ns <= finding(times).saving_ns <= told.saving_high_ns for times in (1 / 1.16, 1.16))


def steps_of(*steps_ns):
    return UnrecordedSteps(format_version=1, steps_ns=list(steps_ns), source="")


def test_the_later_half_counts():
    assert steps_of(900, 500, 100, 110, 400, 120, 100).steps_of(8) == [110, 400, 120, 100]
    assert steps_of(900, 500, 100, 110, 400, 120, 100).steps_of(7) == [110, 400, 120, 100]


def test_several_steps_may_be_one_of_the_trace():
    assert steps_of(*[9] * 5, *[1, 2, 3] * 6).steps_of(8) == [6] * 4


@pytest.mark.parametrize("count", [28, 80])
def test_other_steps_than_those_of_the_trace_tell_nothing(count):
    assert steps_of(*[100] * 39).steps_of(40) == [100] * 20
    assert steps_of(*[100] * 39).steps_of(count) is None


def test_too_few_steps_tell_nothing():
    assert steps_of(100, 100, 100).steps_of(4) is None
    assert steps_of().steps_of(1) is None


def test_a_step_of_another_length_is_not_that_of_the_trace(trace_path, tmp_path):
    found = findings_of(trace_path, tmp_path, "sync", [step_ms("sync") * 2] * 17)
    assert found.unrecorded_ns is None
