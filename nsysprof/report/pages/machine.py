"""Compose what a machine can run: the checks of doctor, and which backends run a call and why, by explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nsysprof.attention.eligibility import AttentionCall, Constraint, EligibilityAnswer, changes
from nsysprof.report.document import Cell, Column, Lines, Paragraph, Part, Report, Section, Unit, make_table
from nsysprof.results.checks import Check, State
from nsysprof.units import UNKNOWN

_COLUMNS = (Column("what"), Column("state"), Column("found", Unit.PROSE))
# Every check matters, so no format leaves any out.
_ALL = 1000


def doctor_report(checks: Sequence[Check]) -> Report:
    """Return the table of all checks, a line with the fix of each that has one, and the number of problems."""
    rows = [(check.name, check.state.value, check.found) for check in checks]
    table = make_table("This machine", _COLUMNS, rows, terminal_rows=_ALL, document_rows=_ALL)
    fixes = tuple(f"{check.state.value}: {check.name}: {check.found} -> {check.fix}" for check in checks if check.fix)
    count = sum(check.state is State.PROBLEM for check in checks)
    problems = "no problem found" if not count else "1 problem" if count == 1 else f"{count} problems"
    return Report(
        "doctor",
        (
            Section("", (table, Lines(fixes, terminal_lines=_ALL))),
            Section("", (Lines((problems,), is_verdict=True),), is_conclusion=True),
        ),
    )


_RELATIONS = {
    "at most": "at most {0}",
    "at least": "at least {0}",
    "multiple of": "a multiple of {0}",
    "one of": "{0}",
    "equal to": "{0}",
    "between": "between {0} and {1}",
    "outside": "outside ({0}, {1}]",
    "divisor of": "a divisor of {0}",
    "unlike": "other than {0}",
}
_ANSWER_COLUMNS = (
    Column("backend"), Column("eligible"), Column("in torch", drop=3), Column("this GPU", drop=2), Column("ran"),
    Column("kernels", Unit.COUNT, drop=1), Column("kernel time", Unit.NS), Column("why", Unit.PROSE),
)  # fmt: skip
_CPU_NOTE = "No GPU was used: flash, math and auto are torch's paths for the CPU; efficient and cudnn are unknown."


def explain_report(
    blocks: Sequence[tuple[AttentionCall, Sequence[EligibilityAnswer]]], facts: Mapping[str, Any]
) -> Report:
    """Return one table for each call, then what each refusal requires, what auto does, and what ran instead.

    blocks: each call with the answers about it.
    facts: the torch and GPU that answered.
    """
    where = facts.get("gpu_name") or "the CPU"
    head: list[Part] = [Paragraph(f"torch {facts.get('torch_version', UNKNOWN)} on {where}")]
    if facts.get("device") == "cpu":
        head.append(Paragraph(_CPU_NOTE))
    sections = [Section("", tuple(head))]
    for call, answers in blocks:
        lines = tuple(line for answer in answers for line in _lines(call, answer))
        sections.append(
            Section(
                "",
                (
                    make_table(describe_call(call), _ANSWER_COLUMNS, map(_row, answers)),
                    Lines(lines, terminal_lines=1000),
                ),
            )
        )
    return Report("explain", tuple(sections))


def describe_call(call: AttentionCall) -> str:
    """Return `B=1 H=8 S=16 D=8192 fp16 causal fwd`, and where the call differs from the default."""
    parts = [f"B={call.batch}", f"H={call.heads}"]
    parts += [f"KV_H={call.kv_heads}"] if call.kv_heads != call.heads else []
    parts.append(f"S={call.seq}")
    parts += [f"KV_S={call.kv_seq}"] if call.kv_seq != call.seq else []
    parts += [f"D={call.head_dim}", call.dtype, "causal" if call.causal else "full"]
    parts += [f"mask={call.mask}"] if call.mask != "none" else []
    parts += [f"dropout={call.dropout:g}"] if call.dropout else []
    return " ".join([*parts, *call.served_words, call.pass_])


def _row(answer: EligibilityAnswer) -> tuple[Any, ...]:
    ran = answer.ran
    why = "" if answer.eligible else answer.reason
    if answer.constraints:
        why = "; ".join(describe_constraint(constraint) for constraint in answer.constraints)
    return (
        answer.backend,
        answer.eligible,
        answer.built,
        answer.supported,
        ran.family if ran.status in ("ok", "not_run") else ran.status.replace("_", " "),
        sum(kernel["count"] for kernel in ran.kernels) if ran.kernels else None,
        sum(kernel["total_ns"] for kernel in ran.kernels) if ran.kernels else None,
        Cell(why),
    )


def describe_constraint(constraint: Constraint) -> str:
    """Return `head_dim 8192, must be at most 256`, or torch's own words where these could not be parsed."""
    if constraint.property is None or constraint.bound is None:
        return constraint.text
    wanted = _RELATIONS[constraint.relation]
    bounds = list(map(str, constraint.bound if isinstance(constraint.bound, list) else [constraint.bound]))
    if constraint.relation == "one of":
        bounds = [" or ".join(bounds)]
    name = constraint.property.removesuffix("_")
    value = UNKNOWN if constraint.value is None else str(constraint.value)
    return f"{name} {value}, must be {wanted.format(*bounds)}"


def _lines(call: AttentionCall, answer: EligibilityAnswer) -> list[str]:
    name, ran, lines = answer.backend, answer.ran, []
    lines += [f"{name}: torch says: {constraint.text}" for constraint in answer.constraints]
    lines += [f"{name}: passes with {_describe_changes(call, nearest)}" for nearest in answer.nearest]
    # Without a constraint, no other shape was tried: the reason says all.
    if answer.eligible is False and answer.constraints and not answer.nearest:
        lines.append(f"{name}: no change of the shape was found that passes")
    if answer.eligible is None:
        lines.append(f"{name}: unknown: {answer.reason}")
    elif ran.status not in ("ok", "not_run") or (ran.status == "ok" and ran.reason):
        lines.append(f"{name}: {ran.status.replace('_', ' ')}: {ran.reason}")
    if name == "auto":
        lines.append(f"auto: predicted {answer.predicted or UNKNOWN}, ran {ran.family or UNKNOWN}")
    if ran.as_asked is False:
        lines.append(f"{name}: asked for {answer.predicted or name}, but what ran is {ran.family}")
    lines += [f"{name}: ran {kernel['count']} x {kernel['name']}" for kernel in ran.kernels]
    if not ran.kernels and ran.operator:
        lines.append(f"{name}: ran operator {ran.operator}")
    return lines


def _describe_changes(call: AttentionCall, other: AttentionCall) -> str:
    return ", ".join(f"{name} {bounds['to']}" for name, bounds in changes(call, other).items())
