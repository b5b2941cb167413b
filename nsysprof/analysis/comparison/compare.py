"""Compare a baseline and a candidate as a whole: the entry point that calls the other comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nsysprof.analysis.attribution.range_names import same_in_runs
from nsysprof.analysis.comparison.compare_latency import (
    METHOD,
    Settings,
    choose_headline,
    compare_latencies,
    judge_walls,
)
from nsysprof.analysis.comparison.compare_latency import METHOD as WALL_METHOD
from nsysprof.analysis.comparison.compare_owners import compare_owners
from nsysprof.analysis.comparison.compare_ranges import MOST_RANGES, compare_ranges, middle_time
from nsysprof.analysis.comparison.compare_turns import METHOD as TURNS_METHOD
from nsysprof.analysis.comparison.compare_turns import UNIT, compare_in_turn
from nsysprof.analysis.comparison.gate.gate import GateRule, judge
from nsysprof.analysis.comparison.range_facts import WHOLE
from nsysprof.attention.shape import Case
from nsysprof.errors import NotComparableError
from nsysprof.notes import Note, Severity, make_note
from nsysprof.results.allocator_memory import AllocatorMemory, MemoryComparison
from nsysprof.results.checks import COMPARABLE_FIELDS
from nsysprof.results.comparison import (
    METRICS,
    WHOLE_TRACE,
    Difference,
    FindingChange,
    Input,
    LatencyComparison,
    RangeChange,
    RangeFacts,
    Side,
    StepChange,
    StepWalls,
    VersionComparison,
)

_TRACE_METHOD = (
    "a range's numbers cover all its instances after the warm-up, divided by the traced calls of a capture or else by "
    "the instances; its wall time is the median of its instances; for several traces of a side it is the median, and "
    "of times the geometric mean",
    "steps are taken together (`step#`), and kernels are those that a range and its helper threads launched, and those "
    "that it captured",
    "of a range's wall time, kernels are when any kernel that it launched ran, copies and fills when only those did, "
    "gaps the idle time between them, before and after the rest; the parts add up to the nanosecond",
    "kernels that are on one side only are paired by role: category and direction, then the likeness of their names",
)
# Facts of the environment that change what is measured, without making two sides incomparable.
_MATTER = ("throttled", "tf32_matmul", "sdpa_flags")
_GATE_METHOD = (
    "a gate's count or bytes of a trace is a regression where every trace of the candidate is beyond the limit of "
    "every one of the baseline; its times are judged by verdict and interval, without ranges of libraries and single "
    "instances"
)
# SM clocks that differ by this much while measuring (percent) count as different.
_CLOCK_GAP_PCT = 2.0


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
    old_traces, new_traces = ([source.ranges for source in side if source.ranges is not None] for side in sides)
    old_cases, new_cases = ([source.cases for source in side if source.cases] for side in sides)
    latency = LatencyComparison()
    if old_cases and new_cases:
        in_turn = measured_in_turn(baseline, candidate)
        latency = (
            compare_in_turn(old_cases[0], new_cases[0], names, _level_that_is_left(settings, both))
            if in_turn
            else compare_latencies(old_cases, new_cases, names, settings)
        )
    ranges = compare_ranges(old_traces, new_traces) if old_traces and new_traces else ()
    left_out = len({key for facts in (*old_traces, *new_traces) for key in facts}) - len(ranges) if ranges else 0
    # Where cases were measured, their latency is the answer.
    step = None if latency.changes else compare_steps(baseline, candidate)
    step, ranges = judge_steps_and_walls(step, ranges, baseline, candidate, settings)
    judged = any(change.wall_verdict for change in ranges) or (step is not None and step.verdict is not None)
    if any(WHOLE not in facts for facts in (*old_traces, *new_traces)):
        ranges = tuple(change for change in ranges if change.range != WHOLE_TRACE)
    _refuse_strangers(baseline, candidate, latency, ranges, force=force)
    lost = _losses(both)
    findings = None
    if all(any(source.savings is not None for source in side) for side in sides):
        findings = compare_findings([source.savings for source in baseline], [source.savings for source in candidate])
    of_memory = compare_memory_findings([source.memory for source in baseline], [source.memory for source in candidate])
    environments = [source.environment for source in baseline], [source.environment for source in candidate]
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
        (*_notes(baseline, candidate, latency, ranges, left_out), *_input_notes(both)),
        force,
        tuple(method),
        (*(findings or ()), *(of_memory or ())),
        _memory(baseline, candidate),
        None if latency.changes else choose_headline(ranges, None if step is None else step.per),
        step,
        tuple(dict.fromkeys(f"{source.name}: {loss.note.text}" for source in both for loss in source.losses[:1])),
    )


def _memory(baseline: Sequence[Input], candidate: Sequence[Input]) -> MemoryComparison | None:
    """Return which lines explain the difference of the memory peaks, by each side's first input that knows its own."""
    sides = [next((source for source in side if source.memory is not None), None) for side in (baseline, candidate)]
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
        tuple(source.name for source in inputs),
        tuple(dict.fromkeys(source.kind for source in inputs)),
        common_environment([source.environment for source in inputs]),
    )


def _level_that_is_left(settings: Settings, inputs: Sequence[Input]) -> Settings:
    """Return the settings with the significance level that earlier looks at the inputs left."""
    return replace(settings, alpha=min(settings.alpha, *(source.alpha or settings.alpha for source in inputs)))


def _refuse_strangers(
    baseline: Sequence[Input],
    candidate: Sequence[Input],
    latency: LatencyComparison,
    ranges: Sequence[RangeChange],
    *,
    force: bool,
) -> None:
    if not latency.changes and not ranges:
        kinds = [" and ".join(dict.fromkeys(source.kind for source in side)) for side in (baseline, candidate)]
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
        f"the trace of {source.name} is not complete ({code})"
        for source in inputs
        for code in dict.fromkeys(loss.note.code for loss in source.losses)
    ]


def _input_notes(inputs: Sequence[Input]) -> list[Note]:
    """Return warnings and errors of the inputs, each once, with the inputs that it concerns."""
    about: dict[tuple[str, str], tuple[Note, list[str]]] = {}
    for source in inputs:
        for note in source.notes:
            if note.severity != Severity.INFO:
                names = about.setdefault((note.code, note.text), (note, []))[1]
                names += [source.name] if source.name not in names else []
    return [replace(note, text=f"{', '.join(names[:3])}: {note.text}") for note, names in about.values()]


def _notes(
    baseline: Sequence[Input],
    candidate: Sequence[Input],
    latency: LatencyComparison,
    ranges: Sequence[RangeChange],
    left_out: int,
) -> list[Note]:
    notes = []
    old, new = ([source.environment for source in side] for side in (baseline, candidate))
    same = {source.digest for source in baseline if source.digest} & {source.digest for source in candidate}
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
    if latency.floor_from == "assumed" and latency.uses_floor:
        notes.append(make_note("floor-assumed", floor_pct=latency.floor_pct))
    elif latency.changes and latency.unit == "process" and latency.floor_from != "assumed":
        on_cpu = any(environment.get("device") == "cpu" for environment in (*old, *new))
        notes.append(make_note("one-run", severity=Severity.WARNING if on_cpu else Severity.INFO))
    if left_out:
        notes.append(make_note("ranges-left-out", most=MOST_RANGES, left_out=left_out))
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


# More facts that must match. They come from the trace and from the method of measuring.
MEASURED_FIELDS = ("latency_method", "trace_tool", "work_kind", "memory_kind")
# Facts that may differ between what is compared, and that a reader wants to know.
TOLD_FIELDS = ("git_commit", "python_version", "os", "tf32_matmul", "sdpa_flags", "cudnn_loaded_from")


def compare_environments(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> tuple[Difference, ...]:
    """Return the facts that must agree and do not.

    The inputs of one side must agree among themselves too. A fact that one side does not know is not a difference.
    """
    differences = [
        difference
        for fact in (*COMPARABLE_FIELDS, *MEASURED_FIELDS)
        if (difference := _differs(fact, baseline, candidate)) is not None
    ]
    clocks = _clocks(baseline), _clocks(candidate)
    if clocks[0] and clocks[1] and _apart(clocks[0], clocks[1]):
        differences.append(Difference("sm_clock_mhz", (_range(clocks[0]),), (_range(clocks[1]),)))
    return tuple(differences)


def noted_differences(
    baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> tuple[Difference, ...]:
    """Return facts that differ but do not prevent a comparison, such as throttling."""
    differences = [
        difference
        for fact in (*TOLD_FIELDS, "throttled")
        if (
            difference := _differs(
                fact, *([_with_throttle(environment) for environment in side] for side in (baseline, candidate))
            )
        )
        is not None
    ]
    return tuple(differences)


def unknown_facts(environments: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the COMPARABLE_FIELDS that no input knows."""
    # An untraced measurement has no nsys version, and one on the CPU has no cuDNN version: these are not unknown.
    asked = [fact for fact in COMPARABLE_FIELDS if fact not in ("nsys_version", "clocks_locked")]
    if any(environment.get("device") == "cpu" for environment in environments):
        asked = ["torch_version", "device", "cpu_model"]
    return tuple(fact for fact in asked if all(environment.get(fact) is None for environment in environments))


def common_environment(environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the facts on which all inputs that know them agree."""
    facts = (*COMPARABLE_FIELDS, *MEASURED_FIELDS, *TOLD_FIELDS)
    known = {fact: _known(fact, environments) for fact in facts}
    return {fact: values[0] for fact, values in known.items() if len(values) == 1}


def _differs(
    fact: str, baseline: Sequence[Mapping[str, Any]], candidate: Sequence[Mapping[str, Any]]
) -> Difference | None:
    old, new = _known(fact, baseline), _known(fact, candidate)
    if not old or not new or (old == new and len(old) == 1):
        return None
    return Difference(fact, old, new)


def _known(fact: str, environments: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the distinct known values of a fact, as texts."""
    return tuple(
        dict.fromkeys(str(environment[fact]) for environment in environments if environment.get(fact) is not None)
    )


def _clocks(environments: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Return the lowest and the highest SM clock while measuring (MHz)."""
    clocks = [during for environment in environments if (during := _during(environment)) is not None]
    if not clocks:
        return None
    return min(d["sm_clock_mhz_min"] for d in clocks), max(d["sm_clock_mhz_max"] for d in clocks)


def _during(environment: Mapping[str, Any]) -> Mapping[str, Any] | None:
    clocks = environment.get("clocks")
    during = clocks.get("during") if isinstance(clocks, Mapping) else None
    if not isinstance(during, Mapping):
        return None
    whole = all(isinstance(during.get(f"sm_clock_mhz_{end}"), int | float) for end in ("min", "max"))
    return during if whole else None


def _apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    gap = max(one[0] - other[1], other[0] - one[1])
    return gap > _CLOCK_GAP_PCT / 100 * max(one[1], other[1])


def _range(clocks: tuple[float, float]) -> str:
    return f"{clocks[0]:g} to {clocks[1]:g}"


def _with_throttle(environment: Mapping[str, Any]) -> Mapping[str, Any]:
    during = _during(environment)
    if during is None:
        return environment
    reasons = set(during.get("throttle_reasons") or ()) - {"gpu_idle", "applications_clocks_setting"}
    return {**environment, "throttled": ", ".join(sorted(reasons)) or "no"}


# The saving per step (ns) by code and range.
Savings = dict[tuple[str, str], int]


def compare_findings(
    baseline: Sequence[Savings | None], candidate: Sequence[Savings | None]
) -> tuple[FindingChange, ...]:
    """Return the findings of both sides: first those that only the candidate has, each part by saving.

    A side has a finding when any of its traces has it. None stands for a trace whose findings are unknown.
    """
    old, new = _most(baseline), _most(candidate)
    changes = []
    for code, where in dict.fromkeys((*new, *old)):
        before, after = old.get((code, where)), new.get((code, where))
        changes.append(FindingChange(code, where, _how(before, after), before, after))
    order = ("appeared", "vanished", "both")
    return tuple(
        sorted(changes, key=lambda change: (order.index(change.how), -(change.candidate_ns or change.baseline_ns or 0)))
    )


def compare_memory_findings(
    baseline: Sequence[AllocatorMemory | None], candidate: Sequence[AllocatorMemory | None]
) -> tuple[FindingChange, ...] | None:
    """Return the findings about torch's memory of both sides; None where one side did not record it."""
    old, new = _most_bytes(baseline), _most_bytes(candidate)
    if old is None or new is None:
        return None
    changes = []
    for code in dict.fromkeys((*new, *old)):
        before, after = old.get(code), new.get(code)
        changes.append(FindingChange(code, "", _how(before, after), None, None, before, after))
    return tuple(changes)


def _how(before: int | None, after: int | None) -> str:
    return "appeared" if before is None else "vanished" if after is None else "both"


def _most_bytes(side: Sequence[AllocatorMemory | None]) -> dict[str, int] | None:
    """Return the most bytes that any trace of a side would save, by code; None where none recorded memory."""
    known = [memory for memory in side if memory is not None]
    most_by_code: dict[str, int] = {}
    for memory in known:
        for finding in memory.findings:
            most_by_code[finding.code] = max(finding.bytes, most_by_code.get(finding.code, 0))
    return most_by_code if known else None


def _most(side: Sequence[Savings | None]) -> Savings:
    most_by_finding: Savings = {}
    for savings in side:
        for key, saving in (savings or {}).items():
            most_by_finding[key] = max(saving, most_by_finding.get(key, 0))
    return most_by_finding


STEP_CASE = "a step"
# The key of the steps among the ranges. No range has it: a name of NVTX ends before such a character.
_KEY = ("\0step", "")
# So many times of steps are kept. A verdict takes at most 200 stretches of them.
_MOST_SAMPLES = 10_000

STEP_METHOD = (
    "the time of a step is the mean of its steady steps without slow ones, the same as analyze tells: a step ends when "
    "the host has begun the next one and the GPU has done everything issued until then; for several traces of a side "
    "it is the geometric mean; the verdict is made from the steady steps, together with those on ranges",
)


def compare_steps(baseline: Sequence[Input], candidate: Sequence[Input]) -> StepChange | None:
    """Return how the time of a step changed, without a verdict; None unless all traces have steps of the same range."""
    old, new = (_steps(side) for side in (baseline, candidate))
    names = {(same_in_runs(steps.per), steps.is_marked) for steps in (*old, *new)}
    if not old or not new or len(names) > 1:
        return None
    before, after = (middle_time([steps.step_ns for steps in side]) or 0.0 for side in (old, new))
    ((name, is_marked),) = names
    return StepChange(name, before, after, is_marked=is_marked) if min(before, after) > 0 else None


def judge_steps_and_walls(
    step: StepChange | None,
    changes: Sequence[RangeChange],
    baseline: Sequence[Input],
    candidate: Sequence[Input],
    settings: Settings,
) -> tuple[StepChange | None, tuple[RangeChange, ...]]:
    """Return the step and the ranges with their verdicts; None where there are too few steps or instances.

    step: what compare_steps returned for these sides.
    changes: what compare_ranges returned for them.
    """
    old, new = ([source.ranges for source in side if source.ranges is not None] for side in (baseline, candidate))
    if step is None:
        return None, judge_walls(changes, old, new, settings)
    old_steps, new_steps = ([{_KEY: _facts(steps)} for steps in _steps(side)] for side in (baseline, candidate))
    first, *others = judge_walls(
        (*compare_ranges(old_steps, new_steps), *changes),
        [{**ranges, **steps} for ranges, steps in zip(old, old_steps, strict=True)],
        [{**ranges, **steps} for ranges, steps in zip(new, new_steps, strict=True)],
        settings,
    )
    verdict = first.wall_verdict
    return replace(step, verdict=None if verdict is None else replace(verdict, case=STEP_CASE)), tuple(others)


def _steps(side: Sequence[Input]) -> list[StepWalls]:
    """Return the steps of each trace of a side; nothing where any of its traces has none."""
    steps_of_traces = [source.steps for source in side if source.ranges is not None]
    known = [steps for steps in steps_of_traces if steps is not None]
    return known if len(known) == len(steps_of_traces) else []


def _facts(steps: StepWalls) -> RangeFacts:
    walls = steps.walls_ns[:_MOST_SAMPLES]
    metrics = dict.fromkeys(METRICS) | {"wall": sum(walls)}
    return RangeFacts(len(walls), None, metrics, None, {}, walls_ns=walls, host_bound=steps.host_bound)
