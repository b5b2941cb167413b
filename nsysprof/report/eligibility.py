"""What `explain` found, for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nsysprof.attention_call import AttentionCall
from nsysprof.constraints import Constraint
from nsysprof.eligibility import Answer
from nsysprof.nearest import changes
from nsysprof.report.console import render_table
from nsysprof.report.escape import clean
from nsysprof.report.tables import Table
from nsysprof.units import UNKNOWN, format_ns

_FLAGS = {True: "yes", False: "no", None: UNKNOWN}
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
_HEADERS = ("backend", "eligible", "in torch", "this GPU", "ran", "kernels", "kernel time", "why")
_CPU_NOTE = "no GPU was used: flash, math and auto are torch's paths for the CPU; efficient and cudnn are unknown"


def render_eligibility(
    blocks: Sequence[tuple[AttentionCall, Sequence[Answer]]], facts: dict[str, Any], width: int
) -> str:
    """One table a shape, and under it what each refusal needs, what auto does, and what ran something else."""
    where = facts.get("gpu_name") or "the CPU"
    parts = [f"torch {facts.get('torch_version', UNKNOWN)} on {clean(str(where), 100)}"]
    if facts.get("device") == "cpu":
        parts.append(_CPU_NOTE)
    for call, answers in blocks:
        parts += ["", render_table(_table(call, answers), width)]
        parts += [line for answer in answers for line in _lines(call, answer)]
    return "\n".join(parts)


def _table(call: AttentionCall, answers: Sequence[Answer]) -> Table:
    return Table(describe_call(call), _HEADERS, tuple(_row(each) for each in answers), frozenset({0, 1, 2, 3, 4, 7}))


def describe_call(call: AttentionCall) -> str:
    """`B=1 H=8 S=16 D=8192 fp16 causal fwd`, with what differs from the usual."""
    parts = [f"B={call.batch}", f"H={call.heads}"]
    parts += [f"KV_H={call.kv_heads}"] if call.kv_heads != call.heads else []
    parts.append(f"S={call.seq}")
    parts += [f"KV_S={call.kv_seq}"] if call.kv_seq != call.seq else []
    parts += [f"D={call.head_dim}", call.dtype, "causal" if call.causal else "full"]
    parts += [f"mask={call.mask}"] if call.mask != "none" else []
    parts += [f"dropout={call.dropout:g}"] if call.dropout else []
    return " ".join([*parts, call.pass_])


def _row(answer: Answer) -> tuple[str, ...]:
    ran = answer.ran
    kernel_count = sum(kernel["count"] for kernel in ran.kernels)
    total_ns = sum(kernel["total_ns"] for kernel in ran.kernels)
    why = "" if answer.eligible else answer.reason
    if answer.constraints:
        why = "; ".join(describe_constraint(each) for each in answer.constraints)
    return (
        answer.backend,
        _FLAGS[answer.eligible],
        _FLAGS[answer.built],
        _FLAGS[answer.supported],
        (ran.family or UNKNOWN) if ran.status in ("ok", "not_run") else ran.status.replace("_", " "),
        str(kernel_count) if ran.kernels else UNKNOWN,
        format_ns(total_ns) if ran.kernels else UNKNOWN,
        why,
    )


def describe_constraint(constraint: Constraint) -> str:
    """`head_dim 8192, must be at most 256`; torch's own words where they could not be read."""
    if constraint.property is None or constraint.bound is None:
        return constraint.text
    wanted = _RELATIONS[constraint.relation]
    bounds = constraint.bound if isinstance(constraint.bound, list) else [constraint.bound]
    if constraint.relation == "one of":
        bounds = [" or ".join(map(str, bounds))]
    name = constraint.property.removesuffix("_")
    value = UNKNOWN if constraint.value is None else str(constraint.value)
    return f"{name} {value}, must be {wanted.format(*bounds)}"


def _lines(call: AttentionCall, answer: Answer) -> list[str]:
    name, ran, lines = answer.backend, answer.ran, []
    lines += [f"{name}: torch says: {clean(each.text, 400)}" for each in answer.constraints]
    lines += [f"{name}: passes with {_describe_changes(call, each)}" for each in answer.nearest]
    if answer.eligible is False and not answer.nearest:
        lines.append(f"{name}: no change of the shape was found that passes")
    if answer.eligible is None:
        lines.append(f"{name}: unknown: {clean(answer.reason, 400)}")
    elif ran.status not in ("ok", "not_run") or (ran.status == "ok" and ran.reason):
        lines.append(f"{name}: {ran.status.replace('_', ' ')}: {clean(ran.reason, 400)}")
    if name == "auto":
        lines.append(f"auto: predicted {answer.predicted or UNKNOWN}, ran {ran.family or UNKNOWN}")
    if ran.as_asked is False:
        lines.append(f"{name}: asked for {answer.predicted or name}, but what ran is {ran.family}")
    lines += [f"{name}: ran {kernel['count']} x {clean(kernel['name'], 160)}" for kernel in ran.kernels]
    if not ran.kernels and ran.operator:
        lines.append(f"{name}: ran operator {ran.operator}")
    return lines


def _describe_changes(call: AttentionCall, other: AttentionCall) -> str:
    return ", ".join(f"{name} {each['to']}" for name, each in changes(call, other).items())
