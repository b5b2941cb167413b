"""Compare a baseline and a candidate as a whole: the entry point that calls the other comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nsysprof.analysis.comparison.compare_environments import (
    common_environment,
    compare_environments,
    noted_differences,
    unknown_facts,
)
from nsysprof.analysis.comparison.compare_findings import compare_findings, compare_memory_findings
from nsysprof.analysis.comparison.compare_latency import METHOD, Settings, compare_latencies
from nsysprof.analysis.comparison.compare_owners import compare_owners
from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.analysis.comparison.compare_turns import METHOD as TURNS_METHOD
from nsysprof.analysis.comparison.compare_turns import UNIT, compare_in_turn
from nsysprof.analysis.comparison.gate.gate import judge
from nsysprof.analysis.comparison.gate.gate_spec import GateRule
from nsysprof.analysis.comparison.judge_walls import METHOD as WALL_METHOD
from nsysprof.analysis.comparison.judge_walls import choose_headline
from nsysprof.analysis.comparison.range_facts import WHOLE
from nsysprof.analysis.steps.compare_steps import METHOD as STEP_METHOD
from nsysprof.analysis.steps.compare_steps import compare_steps, judge_steps_and_walls
from nsysprof.attention.case import Case
from nsysprof.errors import NotComparableError
from nsysprof.notes import Note, Severity, make_note
from nsysprof.results.allocator_memory import MemoryComparison
from nsysprof.results.comparison import (
    WHOLE_TRACE,
    Input,
    LatencyComparison,
    RangeChange,
    Side,
    VersionComparison,
)

_TRACE_METHOD = (
    "a range's numbers cover all its instances after the warm-up, divided by the traced calls of a capture or else by "
    "the instances; its wall time is the median of its instances; for several traces of a side it is the median",
    "steps are taken together (`step#`), and kernels are those that a range launched, adopted and captured",
    "of a range's wall time, kernels are when any kernel that it launched ran, copies and fills when only those did, "
    "gaps the idle time between them, before and after the rest; the parts add up to the nanosecond",
    "kernels that are on one side only are paired by role: category and direction, then the likeness of their names",
)
# Facts of the environment that change what is measured, without making two sides incomparable.
_MATTER = ("throttled", "tf32_matmul", "sdpa_flags")
_GATE_METHOD = (
    "a gate's number of a trace is a regression where every trace of the candidate is beyond the limit of every one of "
    "the baseline"
)


def compare_inputs(
    baseline: Sequence[Input],
    candidate: Sequence[Input],
    names: Mapping[Case, str],
    rules: Sequence[GateRule],
    settings: Settings,
    *,
    force: bool,
) -> VersionComparison:
    """Return the comparison of a baseline with a candidate; each may have several inputs.

    Raises NotComparableError where the two have nothing to compare.

    names: names of cases by their keys.
    force: whether to compare traces that have nothing in common, by their totals.
    """
    both = (*baseline, *candidate)
    sides = baseline, candidate
    old_traces, new_traces = ([each.ranges for each in side if each.ranges is not None] for side in sides)
    old_cases, new_cases = ([each.cases for each in side if each.cases] for side in sides)
    latency = LatencyComparison()
    if old_cases and new_cases:
        in_turn = measured_in_turn(baseline, candidate)
        latency = (
            compare_in_turn(old_cases[0], new_cases[0], names, settings)
            if in_turn
            else compare_latencies(old_cases, new_cases, names, settings)
        )
    ranges = compare_ranges(old_traces, new_traces) if old_traces and new_traces else ()
    # Where cases were measured, their latency is the answer.
    step = None if latency.changes else compare_steps(baseline, candidate)
    step, ranges = judge_steps_and_walls(step, ranges, baseline, candidate, settings)
    judged = any(change.wall_verdict for change in ranges) or (step is not None and step.verdict is not None)
    if any(WHOLE not in each for each in (*old_traces, *new_traces)):
        ranges = tuple(change for change in ranges if change.range != WHOLE_TRACE)
    _refuse_strangers(baseline, candidate, latency, ranges, force=force)
    lost = _losses(both)
    findings = None
    if all(any(each.savings is not None for each in side) for side in sides):
        findings = compare_findings([each.savings for each in baseline], [each.savings for each in candidate])
    of_memory = compare_memory_findings([each.memory for each in baseline], [each.memory for each in candidate])
    environments = [each.environment for each in baseline], [each.environment for each in candidate]
    latency_method = TURNS_METHOD if latency.unit == UNIT else METHOD
    method = [*(latency_method if latency.changes else METHOD if judged else ()), *(_TRACE_METHOD if ranges else ())]
    method += [*(WALL_METHOD if judged else ()), *(STEP_METHOD if step is not None else ())]
    method += [_GATE_METHOD] if rules else []
    return VersionComparison(
        _side(baseline),
        _side(candidate),
        compare_environments(*environments),
        latency,
        ranges,
        judge(rules, latency, ranges, lost, findings, step, of_memory),
        (*_notes(baseline, candidate, latency, ranges), *_input_notes(both)),
        force,
        tuple(method),
        (*(findings or ()), *(of_memory or ())),
        _memory(baseline, candidate),
        None if latency.changes else choose_headline(ranges, None if step is None else step.per),
        step,
    )


def _memory(baseline: Sequence[Input], candidate: Sequence[Input]) -> MemoryComparison | None:
    """Return which lines explain the difference of the memory peaks, by each side's first input that knows its own."""
    sides = [next((each for each in side if each.memory is not None), None) for side in (baseline, candidate)]
    old, new = sides
    if old is None or new is None or old.memory is None or new.memory is None:
        return None
    return replace(compare_owners(old.memory, new.memory), baseline=old.name, candidate=new.name)


def measured_in_turn(baseline: Sequence[Input], candidate: Sequence[Input]) -> bool:
    """Return whether both sides come from one bench that measured them in turn."""
    if len(baseline) != 1 or len(candidate) != 1 or baseline[0].digest == candidate[0].digest:
        return False
    return bool(baseline[0].session) and baseline[0].session == candidate[0].session


def _side(inputs: Sequence[Input]) -> Side:
    return Side(
        tuple(each.name for each in inputs),
        tuple(dict.fromkeys(each.kind for each in inputs)),
        common_environment([each.environment for each in inputs]),
    )


def _refuse_strangers(
    baseline: Sequence[Input],
    candidate: Sequence[Input],
    latency: LatencyComparison,
    ranges: Sequence[RangeChange],
    *,
    force: bool,
) -> None:
    if not latency.changes and not ranges:
        kinds = [" and ".join(dict.fromkeys(each.kind for each in side)) for side in (baseline, candidate)]
        raise NotComparableError(
            f"A {kinds[0]} and a {kinds[1]} have nothing that can be compared.",
            "Compare captures or benches with each other, or traces with traces.",
        )
    if any("absent" not in (change.baseline.status, change.candidate.status) for change in latency.changes):
        return
    named = [change for change in ranges if change.range != WHOLE_TRACE]
    if any(change.how == "both" for change in named):
        return
    if latency.changes:
        old = _examples([change.case for change in latency.changes if change.baseline.status != "absent"])
        new = _examples([change.case for change in latency.changes if change.candidate.status != "absent"])
        raise NotComparableError(
            f"The two sides have no case in common: {old} in the baseline, {new} in the candidate.",
            "Measure the same backends and shapes on both sides.",
        )
    old, new = (_examples([change.label for change in named if change.how == how]) for how in ("vanished", "appeared"))
    whole = next((change for change in ranges if change.range == WHOLE_TRACE and change.how == "both"), None)
    alike = whole is not None and any(kernel.how == "both" for kernel in whole.kernels)
    if force or (alike and not (old and new)):
        return
    what = "ranges" if old and new else "ranges and kernels"
    raise NotComparableError(
        f"The traces have no {what} in common, so they come from different programs"
        + (f": {old} in the baseline, {new} in the candidate." if old and new else "."),
        "Compare traces of one program, or give --ignore-conditions to compare their totals.",
    )


def _examples(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    return ", ".join(name[:60] for name in shown[:2]) + (f" and {len(shown) - 2} more" if len(shown) > 2 else "")


def _losses(inputs: Sequence[Input]) -> list[str]:
    """Return which inputs lost data while they were recorded, as one text for each."""
    return [
        f"the trace of {each.name} is not complete ({code})"
        for each in inputs
        for code in dict.fromkeys(loss.note.code for loss in each.losses)
    ]


def _input_notes(inputs: Sequence[Input]) -> list[Note]:
    """Return warnings and errors of the inputs, each once, with the inputs that it concerns."""
    about: dict[tuple[str, str], tuple[Note, list[str]]] = {}
    for each in inputs:
        for note in each.notes:
            if note.severity != Severity.INFO:
                names = about.setdefault((note.code, note.text), (note, []))[1]
                names += [each.name] if each.name not in names else []
    return [replace(note, text=f"{', '.join(names[:3])}: {note.text}") for note, names in about.values()]


def _notes(
    baseline: Sequence[Input],
    candidate: Sequence[Input],
    latency: LatencyComparison,
    ranges: Sequence[RangeChange],
) -> list[Note]:
    notes = []
    old, new = ([each.environment for each in side] for side in (baseline, candidate))
    same = {each.digest for each in baseline if each.digest} & {each.digest for each in candidate}
    if same:
        notes.append(make_note("same-input"))
    unknown = [fact for fact in unknown_facts(old) if fact in unknown_facts(new)] or list(
        dict.fromkeys((*unknown_facts(old), *unknown_facts(new)))
    )
    if unknown:
        notes.append(make_note("environment-unknown", facts=", ".join(unknown)))
    for difference in noted_differences(old, new):
        notes.append(
            make_note(
                "environment-differs",
                severity=Severity.WARNING if difference.fact in _MATTER else Severity.INFO,
                fact=difference.fact,
                baseline=" and ".join(difference.baseline),
                candidate=" and ".join(difference.candidate),
            )
        )
    if latency.floor_from == "assumed":
        notes.append(make_note("floor-assumed", floor_pct=latency.floor_pct))
    elif latency.changes and latency.unit == "process":
        on_cpu = any(each.get("device") == "cpu" for each in (*old, *new))
        notes.append(make_note("one-run", severity=Severity.WARNING if on_cpu else Severity.INFO))
    return notes + _range_notes(ranges)


def _range_notes(ranges: Sequence[RangeChange]) -> list[Note]:
    notes = []
    for change in ranges:
        old, new = change.baseline_family, change.candidate_family
        if change.how == "both" and old and new and old != new:
            notes.append(make_note("backend-changed", range=change.label, baseline=old, candidate=new))
    uneven = [change for change in ranges if change.how == "both" and change.baseline_calls != change.candidate_calls]
    if uneven:
        first = uneven[0]
        calls: dict[str, Any] = {"baseline": first.baseline_calls, "candidate": first.candidate_calls}
        notes.append(make_note("calls-differ", ranges=len(uneven), first=first.label, **calls))
    return notes
