"""Holds a comparison against the rules of `--fail-on`: pass, regression, or inconclusive, which is neither."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nsysprof.comparison import (
    METRICS,
    SAME_SAMPLES,
    Finding,
    GateResult,
    LatencyChange,
    LatencyComparison,
    MetricChange,
    Outcome,
    RangeChange,
    Verdict,
)
from nsysprof.gate_spec import LATENCY_METRICS, Rule
from nsysprof.units import format_bytes, format_count, format_ns, format_percent

_FORMATS = {"count": format_count, "bytes": format_bytes, "ns": format_ns}
# Float noise of a division by the number of calls.
_TINY = 1e-9


def judge(
    rules: Sequence[Rule], latency: LatencyComparison, ranges: Sequence[RangeChange], lost: Sequence[str]
) -> tuple[GateResult, ...]:
    """One result a rule. lost: what the profiler lost, by input; counts of such traces decide nothing."""
    return tuple(_judge_rule(rule, latency, ranges, lost) for rule in rules)


def _judge_rule(
    rule: Rule, latency: LatencyComparison, ranges: Sequence[RangeChange], lost: Sequence[str]
) -> GateResult:
    if rule.metric in LATENCY_METRICS:
        checked = [(change.case, _judge_latency(rule, change)) for change in latency.changes]
    else:
        checked = list(_judge_metrics(rule, latency, ranges, lost))
    findings = tuple(found for _, found in checked if found.outcome is not Outcome.PASS)
    if not checked:
        step = "Give captures or benches." if rule.metric in LATENCY_METRICS else "Give captures or traces."
        text = f"nothing here has a number for {rule.metric}"
        findings = (Finding("", Outcome.INCONCLUSIVE, text, step),)
    outcomes = {found.outcome for found in findings}
    worst = next((each for each in (Outcome.REGRESSION, Outcome.INCONCLUSIVE) if each in outcomes), Outcome.PASS)
    return GateResult(rule.text, worst, len(checked), findings)


def _judge_latency(rule: Rule, change: LatencyChange) -> Finding:
    """`slower` fails where the candidate is SLOWER and its median is beyond the limit; it passes where the whole
    interval is below."""
    failed = _failed(change)
    if failed is not None:
        return failed
    if change.reason == SAME_SAMPLES:
        return Finding(change.case, Outcome.PASS, change.reason)
    if change.ratio is None or change.low is None or change.high is None:
        return Finding(change.case, Outcome.INCONCLUSIVE, change.reason, change.next_step)
    ratio, high, verdict = change.ratio, change.high, Verdict.SLOWER
    if rule.metric == "faster":
        ratio, high, verdict = 1 / change.ratio, 1 / change.low, Verdict.FASTER
    limit = 1 + rule.limit / 100
    text = f"{change.ratio:.3f} times as long [{change.low:.3f}, {change.high:.3f}]"
    if change.verdict is verdict and ratio >= limit:
        return Finding(change.case, Outcome.REGRESSION, text)
    if high <= limit:
        return Finding(change.case, Outcome.PASS, text)
    why = change.reason or "the limit is within the interval"
    return Finding(change.case, Outcome.INCONCLUSIVE, f"{text}; {why}", change.next_step)


def _failed(change: LatencyChange) -> Finding | None:
    """A case that the baseline measured and the candidate could not is broken, however fast it was."""
    old, new = change.baseline, change.candidate
    if old.status == "ok" and new.status not in ("ok", "absent"):
        return Finding(change.case, Outcome.REGRESSION, f"was measured, and now is {new.status}: {new.reason}")
    if old.status != "ok" and new.status == "ok":
        return Finding(change.case, Outcome.PASS, "new")
    if old.status not in ("ok", "absent") and new.status not in ("ok", "absent"):
        return Finding(change.case, Outcome.PASS, f"{new.status} on both sides")
    if old.status == "ok" and new.status == "absent":
        return Finding(change.case, Outcome.INCONCLUSIVE, "is not in the candidate", "Measure the same cases.")
    return None


def _judge_metrics(
    rule: Rule, latency: LatencyComparison, ranges: Sequence[RangeChange], lost: Sequence[str]
) -> Iterable[tuple[str, Finding]]:
    for change in ranges:
        if change.how == "vanished":
            text = "is not in the candidate's trace"
            yield change.label, Finding(change.label, Outcome.INCONCLUSIVE, text, "Trace the same ranges.")
        elif change.how == "both":
            metric = _moved(change) if rule.metric == "moved" else change.metrics[rule.metric]
            if _never_known(metric):
                continue  # what neither trace records (wall time of a whole trace, DRAM without counters)
            finding = _judge_metric(rule, change.label, metric, "bytes" if rule.metric == "moved" else "")
            yield change.label, _doubt(finding, lost)
    if rule.metric == "vram":
        for case in latency.changes:
            old, new = case.baseline.peak_bytes, case.candidate.peak_bytes
            if old is not None and new is not None:
                yield case.case, _judge_metric(rule, case.case, MetricChange("vram", (old,), (new,), old, new), "")


def _never_known(metric: MetricChange) -> bool:
    return all(value is None for value in (*metric.baselines, *metric.candidates))


def _moved(change: RangeChange) -> MetricChange:
    """Bytes copied and set together."""
    copied, filled = change.metrics["copied"], change.metrics["filled"]

    def add(one: Sequence[float | None], other: Sequence[float | None]) -> tuple[float | None, ...]:
        return tuple(None if a is None or b is None else a + b for a, b in zip(one, other, strict=True))

    old, new = add(copied.baselines, filled.baselines), add(copied.candidates, filled.candidates)
    both = add((copied.baseline, copied.candidate), (filled.baseline, filled.candidate))
    return MetricChange("moved", old, new, both[0], both[1])


def _judge_metric(rule: Rule, where: str, metric: MetricChange, unit: str) -> Finding:
    """A regression where every trace of the candidate is beyond the limit of every one of the baseline; inconclusive
    where only their medians are, or where the error of a sampled number reaches across."""
    render = _FORMATS[unit or METRICS[metric.metric].unit]
    if metric.baseline is None or metric.candidate is None:
        side = "baseline" if metric.baseline is None else "candidate"
        text = f"{rule.metric} is unknown in the {side}"
        return Finding(where, Outcome.INCONCLUSIVE, text, "The notes of nsysprof analyze say why.")
    change = metric.candidate - metric.baseline
    old = max(value for value in metric.baselines if value is not None)
    new = min(value for value in metric.candidates if value is not None)
    percent = metric.change_pct
    told = "" if percent is None or change == 0 else f", {'+' if change > 0 else ''}{format_percent(percent)}"
    text = f"{rule.metric} {render(metric.baseline)} to {render(metric.candidate)}{told}"
    if _reaches(rule, old, new - old - metric.error):
        return Finding(where, Outcome.REGRESSION, text)
    if _reaches(rule, metric.baseline, change + metric.error):
        doubt = "within the sampling error" if metric.error else "the traces of the two sides overlap"
        return Finding(where, Outcome.INCONCLUSIVE, f"{text}, {doubt}", "Trace each side more often.")
    return Finding(where, Outcome.PASS, text)


def _reaches(rule: Rule, baseline: float, change: float) -> bool:
    limit = rule.limit / 100 * baseline if rule.percent else rule.limit
    return change > 0 and change >= limit * (1 - _TINY)


def _doubt(finding: Finding, lost: Sequence[str]) -> Finding:
    """Counts of a trace that lost data prove neither a regression nor its absence."""
    if not lost:
        return finding
    return Finding(finding.where, Outcome.INCONCLUSIVE, f"{finding.text}; {lost[0]}", "Record the trace again.")
