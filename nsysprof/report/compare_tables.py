"""The tables of a comparison as text cells, the same for the terminal and Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.comparison import (
    METRICS,
    PARTS,
    Comparison,
    Difference,
    GateResult,
    KernelChange,
    LatencyChange,
    MetricChange,
    Outcome,
    RangeChange,
    Verdict,
)
from nsysprof.report.escape import clean
from nsysprof.report.tables import Table
from nsysprof.units import UNKNOWN, format_bytes, format_count, format_ns, format_percent

_FORMATS = {"count": format_count, "bytes": format_bytes, "ns": format_ns}
_JSON = "compare.json"
_ORDER = (Verdict.SLOWER, Verdict.INCONCLUSIVE, Verdict.FASTER, Verdict.SAME)
_PART_TITLES = ("before", "kernels", "copies", "fills", "graphs", "gaps", "after")
# A change of a kernel's time that is worth a line, in percent, and of the range's kernel time.
_KERNEL_PCT, _SHARE = 5.0, 0.01
_SHORT = ("launches", "kernel_time", "wall")


def latency_table(found: Comparison, limit: int = 1000) -> Table:
    """One row a case, the verdicts that need a look first."""
    order = [*_ORDER, None]
    changes = sorted(found.latency.changes, key=lambda change: (order.index(change.verdict), -(change.ratio or 1)))
    rows = [
        (
            change.case,
            _latency_cell(change, "baseline"),
            _latency_cell(change, "candidate"),
            format_ratio_interval(change),
            _probability(change.p),
            UNKNOWN if change.delta is None else f"{change.delta:+.2f}",
            change.verdict.value if change.verdict else "",
        )
        for change in changes
    ]
    headers = ("case", "baseline", "candidate", "ratio [95 %]", "p (Holm)", "delta", "verdict")
    return Table("Latency", headers, tuple(rows[:limit]), frozenset({0, 6}), len(rows), _JSON)


def _latency_cell(change: LatencyChange, side: str) -> str:
    one = change.baseline if side == "baseline" else change.candidate
    return one.status if one.median_ns is None else format_ns(one.median_ns)


def format_ratio_interval(change: LatencyChange) -> str:
    """`1.052 [1.041, 1.063]`."""
    if change.ratio is None:
        return UNKNOWN
    if change.low is None or change.high is None:
        return f"{change.ratio:.3f}"
    return f"{change.ratio:.3f} [{change.low:.3f}, {change.high:.3f}]"


def _probability(p: float | None) -> str:
    return UNKNOWN if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def open_questions(found: Comparison) -> list[str]:
    """Why a case has no verdict, and what to do, cases of one reason together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for change in found.latency.changes:
        if change.verdict is Verdict.INCONCLUSIVE:
            groups.setdefault((change.reason, change.next_step), []).append(change.case)
    return [f"{_some(cases)}: {reason}" + (f" -> {step}" if step else "") for (reason, step), cases in groups.items()]


def range_table(found: Comparison, limit: int = 1000, *, short: bool = False) -> Table:
    """One row a range: the candidate's numbers of a call with the change from the baseline's.

    short: as wide as a terminal, with few columns beside those in which something changed.
    """
    shown = [name for name in METRICS if any(_says_something(change.metrics[name]) for change in found.ranges)]
    if short:
        changed = {name for name in shown if any(_has_changed(change.metrics[name]) for change in found.ranges)}
        shown = [name for name in shown if name in _SHORT or (name in changed and name not in ("busy", "gaps"))]
    rows = [
        (_range_label(change), *(_metric_cell(change, name) for name in shown))
        for change in sorted(found.ranges, key=lambda change: change.how == "both")
    ]
    headers = ("range", *(METRICS[name].title for name in shown))
    title = "Ranges (the candidate's numbers of a call or instance, and the change)"
    return Table(title, headers, tuple(rows[:limit]), frozenset({0}), len(rows), _JSON)


def _range_label(change: RangeChange) -> str:
    return change.label if change.how == "both" else f"{change.how}: {change.label}"


def _has_changed(metric: MetricChange) -> bool:
    return metric.baseline != metric.candidate


def _says_something(metric: MetricChange) -> bool:
    return any(value for value in (*metric.baselines, *metric.candidates))


def _metric_cell(change: RangeChange, name: str) -> str:
    metric = change.metrics[name]
    render = _FORMATS[METRICS[name].unit]
    if change.how != "both":
        return render(metric.baseline if change.how == "vanished" else metric.candidate)
    if metric.change is None:
        return f"{render(metric.baseline)} → {render(metric.candidate)}" if _says_something(metric) else UNKNOWN
    if metric.change == 0:
        return render(metric.candidate)
    text = signed(metric.change_pct, format_percent) if METRICS[name].unit != "count" else ""
    text = text or signed(metric.change, render)
    within = " within its error" if abs(metric.change) <= metric.error else ""
    return f"{render(metric.candidate)} ({text}{within})"


def part_table(found: Comparison, limit: int = 1000) -> Table:
    """Where the change of each range's wall time is, in parts that add up to it."""
    changes = [change for change in found.ranges if change.parts is not None and any(change.parts.values())]
    changes.sort(key=lambda change: -abs(change.wall_change_ns or 0))
    used = [part for part in PARTS if any((change.parts or {})[part] for change in changes)]
    titles = dict(zip(PARTS, _PART_TITLES, strict=True))
    rows = [
        (
            change.label + (" (a call)" if change.per_call else ""),
            signed(change.wall_change_ns, format_ns),
            *(signed((change.parts or {})[part], format_ns) for part in used),
        )
        for change in changes
    ]
    headers = ("range", "wall", *(titles[part] for part in used))
    return Table("Where the time went", headers, tuple(rows[:limit]), frozenset({0}), len(rows), _JSON)


def kernel_table(found: Comparison, limit: int = 1000, *, name_width: int = 80) -> Table:
    """Kernels that appeared, vanished, were renamed, run more or less often, or take another time."""
    rows = []
    for change in found.ranges:
        total = sum(kernel.baseline_ns for kernel in change.kernels)
        for kernel in change.kernels:
            if _is_changed(kernel, total):
                rows.append(_kernel_row(change, kernel, name_width))
    headers = ("range", "kernel", "what", "role", "instances", "total")
    return Table("Kernels that changed", headers, tuple(rows[:limit]), frozenset({0, 1, 2, 3}), len(rows), _JSON)


def _is_changed(kernel: KernelChange, range_total: float) -> bool:
    if kernel.how != "both" or kernel.baseline_instances != kernel.candidate_instances:
        return True
    moved = abs(kernel.candidate_ns - kernel.baseline_ns)
    return moved > _KERNEL_PCT / 100 * kernel.baseline_ns and moved > _SHARE * range_total


def _kernel_row(change: RangeChange, kernel: KernelChange, name_width: int) -> tuple[str, ...]:
    names = [clean(name, name_width) for name in (kernel.baseline_name, kernel.candidate_name) if name is not None]
    instances = _from_to(kernel.baseline_instances, kernel.candidate_instances, format_count(kernel.baseline_instances),
                         format_count(kernel.candidate_instances))  # fmt: skip
    total = _from_to(kernel.baseline_ns, kernel.candidate_ns, format_ns(kernel.baseline_ns),
                     format_ns(kernel.candidate_ns))  # fmt: skip
    return (
        change.label,
        " → ".join(dict.fromkeys(names)),
        "changed" if kernel.how == "both" else kernel.how,
        kernel.role,
        instances,
        total,
    )


def _from_to(old: float, new: float, old_text: str, new_text: str) -> str:
    return new_text if old == new else f"{old_text} → {new_text}"


def gate_lines(results: Sequence[GateResult], limit: int = 20) -> list[str]:
    """A line a rule, and one a finding."""
    lines = []
    for result in results:
        count = f"{result.checked} checked" if result.checked else "nothing to check"
        lines.append(f"{result.rule}: {result.outcome.value} ({count})")
        worst_first = sorted(result.findings, key=lambda finding: finding.outcome != Outcome.REGRESSION)
        for finding in worst_first[:limit]:
            step = f" -> {finding.next_step}" if finding.next_step else ""
            where = f"{finding.where}: " if finding.where else ""
            lines.append(f"  {finding.outcome.value}: {where}{finding.text}{step}")
        if len(worst_first) > limit:
            lines.append(f"  and {len(worst_first) - limit} more")
    return lines


def difference_lines(differences: Sequence[Difference]) -> list[str]:
    """`driver_version: 580.1 in the baseline, 590.4 in the candidate`."""
    return [
        f"{each.fact}: {' and '.join(each.baseline)} in the baseline, {' and '.join(each.candidate)} in the candidate"
        for each in differences
    ]


def verdict_line(found: Comparison) -> str:
    """`2 SLOWER, 13 SAME` and what changed in the traces."""
    judged = [change for change in found.latency.changes if change.verdict is not None]
    counts = {name: sum(change.verdict is name for change in judged) for name in _ORDER}
    parts = [f"{count} {name.value}" for name, count in counts.items() if count]
    text = f"Latency of {len(judged)} cases: {', '.join(parts)}." if parts else ""
    alone = len(found.latency.changes) - len(judged)
    text += f" {alone} cases were not measured on both sides." if alone else ""
    ranges = [change for change in found.ranges if change.how == "both"]
    if not found.ranges:
        return text
    said = [f"{sum(c.how == how for c in found.ranges)} {how}" for how in ("appeared", "vanished")]
    more = sum((change.metrics["launches"].change or 0) > 0 for change in ranges)
    less = sum((change.metrics["launches"].change or 0) < 0 for change in ranges)
    said += [f"{more} with more launches", f"{less} with fewer"]
    nonzero = [each for each in said if not each.startswith("0 ")]
    tail = ", ".join(nonzero) if nonzero else "the same launches in all"
    return f"{text} {len(ranges)} ranges on both sides; {tail}.".strip()


def signed(value: float | None, render: object) -> str:
    """With its sign; nothing for unknown."""
    if value is None or not callable(render):
        return ""
    return f"{'+' if value > 0 else ''}{render(value)}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
