"""Estimate how long the steps would take with changes that the user names, by replaying them."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import numpy as np
import pandas as pd

from nsysprof.analysis.findings.attention_alternative import find_attention_alternative
from nsysprof.analysis.findings.candidates import Candidate, estimate_tracing_cost, list_candidates, without_tracing
from nsysprof.analysis.findings.host_candidates import list_host_candidates
from nsysprof.analysis.findings.kernel_candidates import list_kernel_candidates
from nsysprof.analysis.findings.situation import Situation, describe_steps, look_at, threads_of_calls
from nsysprof.analysis.idle_time.call_classes import classify_calls
from nsysprof.analysis.replay.replay import ExecutionGraph, ReplayChange, build_graph, combine, no_change, replay
from nsysprof.analysis.steps.find_steps import find_steps
from nsysprof.arrays import Floats
from nsysprof.attention.policy_file import PolicyFile
from nsysprof.errors import UsageError
from nsysprof.results.findings import WhatIf, WhatIfAnswer, WhatIfQuestion
from nsysprof.trace.schema import Bools, Tables

_MOST_NAMED = 500  # letters
_NEXT_STEPS = {
    "attention-backend": "The policy must be for the trace's GPU, and contain a faster backend for a shape of it: "
    "record with capture --attention, and tune --from that capture."
}


def ask(
    tables: Tables,
    ranges: pd.DataFrame,
    questions: tuple[WhatIfQuestion, ...],
    policy: PolicyFile | None = None,
) -> WhatIf:
    """Return how long the steps of a trace would take with each change alone, and with all of them.

    Raises UsageError for a trace that cannot be replayed, and for a change to something that the trace does not have.

    policy: the attention backends that were measured to be the fastest; None where there are none.
    """
    launch = tables.launch
    steps = find_steps(tables, ranges)
    classes = classify_calls(tables, launch)
    graph = None if steps is None else build_graph(tables, launch, classes, steps)
    if graph is None or steps is None:
        raise UsageError(
            "The trace cannot be replayed: it has no CUDA API calls that issued work.", "Record with --trace=cuda,nvtx."
        )
    situation = look_at(tables, graph, classes, ranges, steps)
    known: dict[str, list[Candidate]] = {}
    others = find_attention_alternative(situation, threads_of_calls(tables, graph), ranges, policy)
    for candidate in (
        *list_candidates(situation), *list_host_candidates(situation), *list_kernel_candidates(situation), *others,
    ):  # fmt: skip
        known.setdefault(candidate.code, []).append(candidate)
    answers, all_of = [], [no_change(graph)] * 3
    # Factors last, because a combination takes the shorter of two times.
    for question in sorted(questions, key=_has_factor):
        if _has_factor(question):
            changes = _scaled(situation, [no_change(graph)] * 3, question)
        elif question.code in known:
            changes = [
                _within(graph, reduce(combine, parts), question, situation)
                for parts in zip(
                    *((candidate.change, candidate.low, candidate.high) for candidate in known[question.code]),
                    strict=True,
                )
            ]
        else:
            next_step = _NEXT_STEPS.get(question.code, "Leave it out.")
            raise UsageError(f"{question.option} would change nothing in the steps of this trace.", next_step)
        if _has_factor(question):  # these may become slower
            all_of = _scaled(situation, all_of, question)
        else:
            all_of = [combine(one, other) for one, other in zip(all_of, changes, strict=True)]
        answers.append(_answer(question.option, changes, situation))
    together = _answer("all", all_of, situation)
    return WhatIf(
        **describe_steps(situation, steps),
        answers=tuple(answers),
        together=together,
    )


def _answer(option: str, changes: list[ReplayChange], situation: Situation) -> WhatIfAnswer:
    """Return how long a step takes with the best of three estimates of a change, and the bounds.

    As for findings, the saving is measured without the profiler; the saving under the profiler is one of the bounds.
    """
    graph = situation.graph
    tracing_ns = estimate_tracing_cost(situation)
    base = no_change(graph)
    traced = replay(graph)
    bare = replay(graph, without_tracing(situation, base, tracing_ns))
    times = [traced - bare + replay(graph, without_tracing(situation, change, tracing_ns)) for change in changes]
    best, *bounds = (int(time_ns / situation.periods) for time_ns in (*times, replay(graph, changes[0])))
    return WhatIfAnswer(option, best, min(best, *bounds), max(best, *bounds))


def _within(
    graph: ExecutionGraph, change: ReplayChange, question: WhatIfQuestion, situation: Situation
) -> ReplayChange:
    """Return the change, limited to calls in one range where the question names one."""
    if not question.range:
        return change
    calls: Bools = situation.range_of == question.range
    if not calls.any():
        names = ", ".join(sorted({str(name) for name in situation.range_of if name})[:12])
        raise UsageError(f"No call of the steps is in a range {question.range!r}.", f"Innermost ranges: {names}.")
    base, work = no_change(graph), situation.work_of(calls)
    return ReplayChange(
        np.where(calls, change.gap_ns, base.gap_ns),
        np.where(calls, change.cost_ns, base.cost_ns),
        np.where(calls, change.waits, base.waits),
        np.where(work, change.duration_ns, base.duration_ns),
        np.where(work, change.needs_other, base.needs_other),
    )


def _has_factor(question: WhatIfQuestion) -> bool:
    return bool(question.kernel or question.range_factors)


def _scaled(situation: Situation, changes: list[ReplayChange], question: WhatIfQuestion) -> list[ReplayChange]:
    """Return the changes with the time of kernels, or of what ranges launch, multiplied by the question's factor."""
    read = _factors_of_ranges if question.range_factors else _factors_of_kernels
    return [
        replace(change, duration_ns=(change.duration_ns * factor).astype(np.int64))
        for change, factor in zip(changes, read(situation, question), strict=True)
    ]


def _factors_of_kernels(situation: Situation, question: WhatIfQuestion) -> list[Floats]:
    """Return the factor of each piece of work, once for the estimate and for each of its bounds.

    The factor applies to kernels whose name contains the question's text.
    """
    names, code = np.unique(situation.kernel_name.astype(str), return_inverse=True)
    chosen = np.array([question.kernel in name for name in names], dtype=bool)[code]
    if not chosen.any():
        raise UsageError(f"No kernel of the steps has {question.kernel!r} in its name.", "See kernels.csv for names.")
    return [np.where(chosen, question.factor, 1.0)] * 3


def _factors_of_ranges(situation: Situation, question: WhatIfQuestion) -> list[Floats]:
    """Return the factor of each piece of work: the best estimate, and its bounds."""
    factors = dict(question.range_factors)
    names, code = np.unique(situation.range_of.astype(str), return_inverse=True)
    if not any(name in factors for name in names.tolist()):
        inner = ", ".join(name for name in names.tolist() if name) or "none"
        raise UsageError(
            f"No work of the steps was launched in the ranges of {question.option}.",
            f"Work belongs to the innermost range; those of the steps: {inner[:_MOST_NAMED]}.",
        )
    table = np.array([factors.get(name, (1.0, 1.0, 1.0)) for name in names.tolist()])
    return [table[code, which][situation.call] for which in range(3)]
