"""The whole comparison of two sides of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nsysprof.analysis.compare_environments import (
    common_environment,
    compare_environments,
    told_differences,
    unknown_facts,
)
from nsysprof.analysis.compare_latency import METHOD, Settings, compare_latencies
from nsysprof.analysis.compare_ranges import compare_ranges
from nsysprof.analysis.gate import judge
from nsysprof.analysis.range_facts import WHOLE
from nsysprof.comparison import (
    WHOLE_TRACE,
    Comparison,
    Input,
    LatencyComparison,
    RangeChange,
    Side,
)
from nsysprof.errors import NotComparableError
from nsysprof.gate_spec import Rule
from nsysprof.notes import Note, Severity

_TRACE_METHOD = (
    "a range's numbers are of all its instances, divided by the traced calls of a capture or else by the instances; of "
    "several traces of a side the median",
    "of a range's wall time, kernels are when any kernel that it launched ran, copies and fills when only those did, "
    "gaps the idle time between them, before and after the rest; the parts add up to the nanosecond",
    "kernels that are on one side only are paired by role: category and direction, then the likeness of their names",
)
_GATE_METHOD = (
    "a gate's number of a trace is a regression where every trace of the candidate is beyond the limit of every one of "
    "the baseline"
)


def compare_inputs(
    baseline: Sequence[Input],
    candidate: Sequence[Input],
    names: Mapping[str, str],
    rules: Sequence[Rule],
    settings: Settings,
    *,
    force: bool,
) -> Comparison:
    """names: of cases by their keys. force: compare traces that have nothing in common, by their totals.

    Raises NotComparableError where there is nothing to compare.
    """
    both = (*baseline, *candidate)
    sides = baseline, candidate
    old_traces, new_traces = ([each.ranges for each in side if each.ranges is not None] for side in sides)
    old_cases, new_cases = ([each.cases for each in side if each.cases] for side in sides)
    latency = LatencyComparison()
    if old_cases and new_cases:
        latency = compare_latencies(old_cases, new_cases, names, settings)
    ranges = compare_ranges(old_traces, new_traces) if old_traces and new_traces else ()
    if any(WHOLE not in each for each in (*old_traces, *new_traces)):
        ranges = tuple(change for change in ranges if change.range != WHOLE_TRACE)
    _refuse_strangers(baseline, candidate, latency, ranges, force=force)
    lost = _losses(both)
    environments = [each.environment for each in baseline], [each.environment for each in candidate]
    method = [*(METHOD if latency.changes else ()), *(_TRACE_METHOD if ranges else ())]
    method += [_GATE_METHOD] if rules else []
    return Comparison(
        _side(baseline),
        _side(candidate),
        compare_environments(*environments),
        latency,
        ranges,
        judge(rules, latency, ranges, lost),
        (*_notes(baseline, candidate, latency, ranges), *_input_notes(both)),
        force,
        tuple(method),
    )


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
            f"A {kinds[0]} and a {kinds[1]} hold nothing of one kind.",
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
        f"The traces have no {what} in common, and so are of different programs"
        + (f": {old} in the baseline, {new} in the candidate." if old and new else "."),
        "Compare traces of one program, or give --force to compare their totals.",
    )


def _examples(names: Sequence[str]) -> str:
    shown = list(dict.fromkeys(names))
    return ", ".join(name[:60] for name in shown[:2]) + (f" and {len(shown) - 2} more" if len(shown) > 2 else "")


def _losses(inputs: Sequence[Input]) -> list[str]:
    """What profilers lost, in words."""
    return [
        f"the trace of {each.name} is not whole ({note.code})"
        for each in inputs
        for note in each.notes
        if note.severity == Severity.ERROR
    ]


def _input_notes(inputs: Sequence[Input]) -> list[Note]:
    """Warnings and errors of the inputs, each said once with the inputs it is about."""
    about: dict[tuple[str, str], tuple[Note, list[str]]] = {}
    for each in inputs:
        for note in each.notes:
            if note.severity != Severity.INFO:
                names = about.setdefault((note.code, note.text), (note, []))[1]
                names += [each.name] if each.name not in names else []
    return [
        Note(note.code, note.severity, f"{', '.join(names[:3])}: {note.text}", note.next_step)
        for note, names in about.values()
    ]


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
        text = "An input is on both sides: nothing can differ there."
        notes.append(Note("same-input", Severity.WARNING, text, "Give two measurements."))
    unknown = [fact for fact in unknown_facts(old) if fact in unknown_facts(new)] or list(
        dict.fromkeys((*unknown_facts(old), *unknown_facts(new)))
    )
    if unknown:
        text = f"Not recorded, and so perhaps not the same on both sides: {', '.join(unknown)}."
        notes.append(Note("environment-unknown", Severity.WARNING, text, "Captures and benches record them."))
    for difference in told_differences(old, new):
        text = f"{difference.fact} is {' and '.join(difference.baseline)} in the baseline and "
        text += f"{' and '.join(difference.candidate)} in the candidate."
        severity = Severity.WARNING if difference.fact in ("throttled", "tf32_matmul", "sdpa_flags") else Severity.INFO
        notes.append(Note("environment-differs", severity, text))
    if latency.floor_from == "assumed":
        text = f"Nothing was measured in two processes; that they differ by up to {latency.floor_pct:g} % is assumed."
        notes.append(Note("floor-assumed", Severity.WARNING, text, "Give several of each side, or --floor."))
    elif latency.changes and latency.unit == "process":
        text = "Each side is one run: another day or another board would look like a change of the code."
        severity = Severity.WARNING if any(each.get("device") == "cpu" for each in (*old, *new)) else Severity.INFO
        notes.append(Note("one-run", severity, text, "Give several of each side, measured in turn."))
    return notes + _range_notes(ranges)


def _range_notes(ranges: Sequence[RangeChange]) -> list[Note]:
    notes = []
    for change in ranges:
        old, new = change.baseline_family, change.candidate_family
        if change.how == "both" and old and new and old != new:
            text = f"{change.label} ran {old} in the baseline and runs {new} in the candidate."
            notes.append(Note("backend-changed", Severity.WARNING, text))
    uneven = [change for change in ranges if change.how == "both" and change.baseline_calls != change.candidate_calls]
    if uneven:
        first = uneven[0]
        text = (
            f"{len(uneven)} ranges ran more often on one side than on the other ({first.label}: "
            f"{first.baseline_calls} and {first.candidate_calls}); numbers are of one call."
        )
        notes.append(Note("calls-differ", Severity.WARNING, text))
    return notes
