"""Make the answer to an agent that compares two traces: the verdict, and rows of what changed most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nsysprof.app.agents.bounded_answers import bound, page
from nsysprof.app.agents.named_range import refuse_unknown_range
from nsysprof.errors import UsageError
from nsysprof.files.json_file import json_value
from nsysprof.report.pages.compare import open_questions, step_line, verdict_line, wall_line
from nsysprof.results.comparison import KernelChange, RangeChange, VersionComparison

# How many rows of each list the overview has.
_OVERVIEW = {"ranges": 12, "kernels": 15, "latency": 15, "memory": 10, "findings": 30}
_HOW_TO_SEE_MORE = (
    "Ask compare again with part = ranges, kernels, latency, findings or memory, and offset. With range_name, kernels "
    "are of that range."
)


def overview_answer(found: VersionComparison) -> dict[str, Any]:
    """Return the verdict in sentences, how the step changed, and the first rows of each part."""
    rows = {name: make(found, "") for name, make in _PARTS.items()}
    shown = {name: each[: _OVERVIEW[name]] for name, each in rows.items()}
    missing = {name: len(each) - len(shown[name]) for name, each in rows.items() if len(each) > len(shown[name])}
    first = _kernel_range(found, "")
    step = found.step
    facts: dict[str, Any] = {
        "said": [line for line in (step_line(found), wall_line(found), verdict_line(found)) if line],
        "baseline": {"inputs": found.baseline.inputs, "kinds": found.baseline.kinds},
        "candidate": {"inputs": found.candidate.inputs, "kinds": found.candidate.kinds},
        "differences": json_value(found.differences),
        "step": None
        if step is None
        else {
            "per": step.per, "baseline_ns": step.baseline_ns, "candidate_ns": step.candidate_ns,
            "change_pct": step.change_pct, "verdict": None if step.verdict is None else step.verdict.verdict,
        },
        "peak_bytes": None
        if found.memory is None
        else {"baseline": found.memory.baseline_peak_bytes, "candidate": found.memory.candidate_peak_bytes},
        **shown,
        "kernels_of": None if first is None else first.label,
        "undecided": list(open_questions(found)),
        "notes": [{"text": note.text, "next_step": note.next_step} for note in found.notes],
    }  # fmt: skip
    answer = bound(json_value(facts), _HOW_TO_SEE_MORE)
    lost = answer.get("left_out", {})
    left_out = {name: missing.get(name, 0) + lost.get(name, 0) for name in {**missing, **lost}}
    return {**answer, "left_out": left_out, "how_to_see_more": _HOW_TO_SEE_MORE} if left_out else answer


def part_answer(found: VersionComparison, part: str, range_name: str, offset: int, limit: int) -> dict[str, Any]:
    """Return rows of one part, most important first. Raises UsageError for one that does not exist."""
    if part not in _PARTS:
        raise UsageError(f"{part[:100]!r} is not a part of a comparison.", f"Known: {', '.join(_PARTS)}.")
    rows = json_value(_PARTS[part](found, range_name))
    answer = page(part, lambda first, last: rows[first:last], len(rows), offset, limit)
    if part == "kernels":
        of = _kernel_range(found, range_name)
        answer["kernels_of"] = None if of is None else of.label
    return answer


def _ranges(found: VersionComparison, _range_name: str) -> list[dict[str, Any]]:
    """Return the ranges as compare orders them: those of the program with the most time first."""
    return [
        {
            "range": change.range,
            "domain": change.domain,
            "how": change.how,
            "baseline_calls": change.baseline_calls,
            "candidate_calls": change.candidate_calls,
            # What did not change is left out, and so is what neither side knows.
            "changed": {
                name: {"baseline": metric.baseline, "candidate": metric.candidate}
                for name, metric in change.metrics.items()
                if metric.baseline != metric.candidate
            },
            "wall_parts_ns": {name: value for name, value in (change.parts or {}).items() if value},
            "wall_ratio": change.wall_ratio,
            "wall_verdict": None if change.wall_verdict is None else change.wall_verdict.verdict,
            "baseline_backend": change.baseline_family,
            "candidate_backend": change.candidate_family,
        }
        for change in found.ranges
    ]


def _kernels(found: VersionComparison, range_name: str) -> list[dict[str, Any]]:
    """Return the kernels of one range, those whose time changed most first."""
    change = _kernel_range(found, range_name)
    if change is None:
        return []

    def moved(kernel: KernelChange) -> float:
        return -abs(kernel.candidate_ns - kernel.baseline_ns)

    return [
        {
            "how": kernel.how,
            "role": kernel.role,
            "baseline": kernel.baseline_label or kernel.baseline_name,
            "candidate": kernel.candidate_label or kernel.candidate_name,
            "baseline_instances": kernel.baseline_instances,
            "candidate_instances": kernel.candidate_instances,
            "baseline_ns": kernel.baseline_ns,
            "candidate_ns": kernel.candidate_ns,
        }
        for kernel in sorted(change.kernels, key=moved)
    ]


def _kernel_range(found: VersionComparison, range_name: str) -> RangeChange | None:
    """Return the range with this name, or the first that has kernels. Raises UsageError for an unknown one."""
    if not range_name:
        return next((change for change in found.ranges if change.kernels), None)

    names = list(dict.fromkeys(change.range for change in found.ranges))
    refuse_unknown_range(range_name, names)
    return next(change for change in found.ranges if change.range == range_name)


def _latency(found: VersionComparison, _range_name: str) -> list[dict[str, Any]]:
    """Return the cases, those that differ first."""
    order = ["SLOWER", "INCONCLUSIVE", "FASTER", "SAME", ""]
    rows = [
        {
            "case": change.case,
            "verdict": "" if change.verdict is None else change.verdict.value,
            "ratio": change.ratio,
            "low": change.low,
            "high": change.high,
            "baseline_ns": change.baseline.median_ns,
            "candidate_ns": change.candidate.median_ns,
            "reason": change.reason,
        }
        for change in found.latency.changes
    ]
    return sorted(rows, key=lambda row: (order.index(str(row["verdict"])), -(row["ratio"] or 1.0)))


def _findings(found: VersionComparison, _range_name: str) -> list[Any]:
    return list(found.findings)


def _memory(found: VersionComparison, _range_name: str) -> list[Any]:
    return [] if found.memory is None else list(found.memory.changes)


_PARTS: dict[str, Callable[[VersionComparison, str], list[Any]]] = {
    "findings": _findings, "ranges": _ranges, "kernels": _kernels, "latency": _latency, "memory": _memory,
}  # fmt: skip
