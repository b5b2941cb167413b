"""Check a comparison against the rules of `--fail-on`. The result is pass, regression, or inconclusive (neither).

Compare the times of ranges for a gate: as a case's latency is, with a trace as a run, by verdict and interval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from nsysprof.analysis.comparison.compare_latency import (
    ASSUMED_FLOOR_PCT,
    LEAST_BLOCKS,
    MOST_FREEDOM,
    NORMAL_95,
    Settings,
    compare_latencies,
)
from nsysprof.analysis.sampling.significance import ALPHA, MARGIN_PCT, false_discovery
from nsysprof.analysis.sampling.student_t import t_sf
from nsysprof.attention.shape import Case
from nsysprof.errors import UsageError
from nsysprof.results.checks import GateFinding, GateResult, Outcome
from nsysprof.results.comparison import (
    METRICS,
    SAME_SAMPLES,
    THROTTLED,
    WHOLE_TRACE,
    FindingChange,
    LatencyChange,
    LatencyComparison,
    LatencyVerdict,
    Measured,
    MetricChange,
    RangeChange,
    SideOfCase,
    StepChange,
)
from nsysprof.results.findings import CODES, MEMORY_CODES
from nsysprof.units import format_apart, format_bytes, format_count, format_ns, format_percent

# The times of ranges, and those of them that the GPU determines, of which one trace says something.
TIMES, _OF_GPU = ("wall", "busy", "gaps", "kernel_time"), ("busy", "kernel_time")
# Where collectives take more of the kernel time of a range (percent), other ranks determine how long its GPU is busy.
_MOST_COLLECTIVE_PCT = 10.0


def compare_range_times(metric: str, ranges: Sequence[RangeChange], margin_pct: float) -> dict[int, LatencyChange]:
    """Return how a time of ranges changed, by the position of the range: of those that a gate judges.

    Ranges of libraries are not judged. A range with a single instance is judged only if each side has enough traces for
    a test. The wall time has the verdict of its instances, where it has one.

    metric: one of TIMES.
    """
    judged = {number: change for number, change in enumerate(ranges) if _is_judged(metric, change)}
    of_traces = [number for number, change in judged.items() if metric != "wall" or change.wall_verdict is None]
    by_number = _compare_traces(metric, {number: judged[number] for number in of_traces}, margin_pct)
    for number, change in judged.items():
        if number not in by_number and change.wall_verdict is not None:
            by_number[number] = replace(change.wall_verdict, case=change.label)
    return by_number


def _is_judged(metric: str, change: RangeChange) -> bool:
    time = change.metrics[metric]
    if change.how != "both" or change.is_library or time.baseline is None or time.candidate is None:
        return False
    is_repeated = min(change.baseline_calls, change.candidate_calls) > 1
    has_traces = min(len(time.baselines), len(time.candidates)) >= LEAST_BLOCKS
    return is_repeated or has_traces or (change.range == WHOLE_TRACE and metric in _OF_GPU)


def _compare_traces(metric: str, judged: dict[int, RangeChange], margin_pct: float) -> dict[int, LatencyChange]:
    """Return the changes of times that have one number in each trace."""
    if not judged:
        return {}
    counts = [min(len(change.metrics[metric].baselines), len(change.metrics[metric].candidates))
              for change in judged.values()]  # fmt: skip
    if max(counts) == 1:
        return {number: _of_one_trace(metric, change, margin_pct) for number, change in judged.items()}
    of_gpu = {number for number, change in judged.items() if _is_of_gpu(metric, change)}
    sides = []
    for of_side in ("baselines", "candidates"):
        values = {number: getattr(change.metrics[metric], of_side) for number, change in judged.items()}
        most = max(map(len, values.values()))
        sides.append([
            {number: Measured("ok", processes=(((max(1, round(own[trace])),),),), host_bound=number not in of_gpu)
             for number, own in values.items() if trace < len(own)}
            for trace in range(most)
        ])  # fmt: skip
    # The key only has to distinguish ranges.
    old, new = (cast("list[dict[Case, Measured]]", side) for side in sides)
    names = cast("dict[Case, str]", {number: change.label for number, change in judged.items()})
    answer = compare_latencies(old, new, names, Settings(margin_pct))
    return dict(zip(judged, answer.changes, strict=True))


def _is_of_gpu(metric: str, change: RangeChange) -> bool:
    """Return whether the GPU of a trace determines this time: not where it waits in collectives for other ranks."""
    sides = [(kernel.role.startswith("communication"), kernel.baseline_ns, kernel.candidate_ns)
             for kernel in change.kernels]  # fmt: skip
    shares = (
        sum(side[place] for side in sides if side[0]) / (sum(side[place] for side in sides) or 1) for place in (1, 2)
    )
    return metric in _OF_GPU and max(shares) <= _MOST_COLLECTIVE_PCT / 100


def _of_one_trace(metric: str, change: RangeChange, margin_pct: float) -> LatencyChange:
    """Return what one trace a side says: of GPU time by the assumed difference of two processes, else nothing."""
    time = change.metrics[metric]
    old, new = max(1.0, time.baseline or 0.0), max(1.0, time.candidate or 0.0)
    sides = SideOfCase("ok", median_ns=old), SideOfCase("ok", median_ns=new)
    is_none, step = time.baseline == time.candidate == 0, f"Give {LEAST_BLOCKS} traces of each side."
    # Two traces may have none of it by chance; where all times are equal, they are the same one.
    are_one = all(change.metrics[name].baseline == change.metrics[name].candidate for name in TIMES)
    if are_one or (old == new and (metric in _OF_GPU or not is_none)):
        return LatencyChange(change.label, LatencyVerdict.SAME, *sides, SAME_SAMPLES, ratio=1.0, low=1.0, high=1.0)
    if not _is_of_gpu(metric, change):
        who = "other ranks determine" if metric in _OF_GPU else "the host determines"
        reason = f"each side is one trace, and {who} this time"
        return LatencyChange(change.label, LatencyVerdict.INCONCLUSIVE, *sides, reason, step, ratio=new / old)
    reach, ratio = math.log1p(ASSUMED_FLOOR_PCT / 100), new / old
    low, high = ratio * math.exp(-reach), ratio * math.exp(reach)
    verdict = LatencyVerdict.SLOWER if low > 1 else LatencyVerdict.FASTER if high < 1 else LatencyVerdict.INCONCLUSIVE
    reason = "" if verdict is not LatencyVerdict.INCONCLUSIVE else (
        f"each side is one trace, and {ASSUMED_FLOOR_PCT:g} % between two of the same code are assumed"
    )  # fmt: skip
    return LatencyChange(
        change.label, verdict, *sides, reason, step if reason else "", ratio, low, high, margin_pct=margin_pct,
        error=reach / NORMAL_95, freedom=MOST_FREEDOM,
    )  # fmt: skip


_FORMATS = {"count": lambda value, _digits: format_count(value), "bytes": format_bytes, "ns": format_ns}
# The tolerance for rounding in a division by the number of calls.
_TINY = 1e-9
# The level of the one-sided test against the limit, as a part of the level of two-sided tests: a half for one side, and
# a half of that for the looks of a bench in turn before its last.
_SHARE_OF_ALPHA = 0.25
_BY_CHANCE = "beyond the limit, but among so many cases one may be by chance"
_MEASURE_MORE = "Measure more processes, runs or turns."
# What a range that is not there any more does less often, or moves less of.
_COUNTS = ("launches", "kernels", "copied", "filled", "moved")
_MORE_STEPS = "Trace more steps of each side."


def judge(
    rules: Sequence[GateRule],
    latency: LatencyComparison,
    ranges: Sequence[RangeChange],
    lost: Sequence[str],
    findings: Sequence[FindingChange] | None = None,
    step: StepChange | None = None,
    of_memory: Sequence[FindingChange] | None = None,
) -> tuple[GateResult, ...]:
    """Return one result per rule.

    lost: what the profiler lost, by input. Counts of such traces decide nothing.
    findings: the compared findings; None where those of one side are unknown.
    step: how the time of a step changed; None where it is unknown.
    of_memory: the compared findings about torch's memory; None where one side did not record it.
    """
    return tuple(
        _judge_findings(rule, findings, of_memory) if rule.metric == FINDING
        else _judge_step(rule, step, lost) if rule.metric == STEP_TIME
        else _judge_rule(rule, latency, ranges, lost)
        for rule in rules
    )  # fmt: skip


def _judge_findings(
    rule: GateRule, findings: Sequence[FindingChange] | None, of_memory: Sequence[FindingChange] | None
) -> GateResult:
    """Return a regression for each finding that the candidate has and the baseline does not."""
    is_of_memory = rule.code in MEMORY_CODES
    if (of_memory if is_of_memory else findings) is None:
        text, step = "findings are unknown on one side", "Give traces with CUDA API calls."
        if is_of_memory:
            text, step = "torch's memory was not recorded on one side", "Record both with nsysprof capture --memory."
        return GateResult(rule.text, Outcome.INCONCLUSIVE, 0, (GateFinding("", Outcome.INCONCLUSIVE, text, step),))
    broken = tuple(
        GateFinding(
            change.range,
            Outcome.REGRESSION,
            _what_it_costs(change),
            "nsysprof analyze says what to change.",
        )
        for change in (*(findings or ()), *(of_memory or ()))
        if change.how == "appeared" and rule.code in (change.code, ANY_FINDING)
    )
    return GateResult(rule.text, Outcome.REGRESSION if broken else Outcome.PASS, 1, broken)


def _what_it_costs(change: FindingChange) -> str:
    if change.candidate_bytes is not None:
        return f"{change.code} appeared: {format_bytes(change.candidate_bytes)} could be given back"
    return f"{change.code} appeared. Without it a step would take {format_ns(change.candidate_ns or 0)} less"


def _judge_step(rule: GateRule, step: StepChange | None, lost: Sequence[str]) -> GateResult:
    """Return the judgement of the time of a step, as of a case's latency: by its verdict and its interval."""
    if step is None:
        text = "the time of a step is unknown, or the two sides have steps of different ranges"
        next_step = "Give traces of a program that repeats the same range, such as step, on both sides."
        return GateResult(rule.text, Outcome.INCONCLUSIVE, 0, (GateFinding("", Outcome.INCONCLUSIVE, text, next_step),))
    times = " to ".join(format_apart(format_ns, step.baseline_ns, step.candidate_ns))
    if step.verdict is None:
        text = f"{times}; there are too few steps for a verdict"
        finding = GateFinding(step.per, Outcome.INCONCLUSIVE, text, _MORE_STEPS)
    else:
        percent = rule.limit if rule.percent else 100 * rule.limit / step.baseline_ns
        slower = GateRule(rule.text, "slower", percent, True)
        ((_, finding),) = _judge_latencies(slower, LatencyComparison((step.verdict,)))
        about = "" if step.verdict.ratio is None or step.verdict.low is None else "the median step takes "
        finding = replace(finding, where=step.per, text=f"{times}; {about}{finding.text}")
    finding = _doubt(finding, lost)
    return GateResult(rule.text, finding.outcome, 1, () if finding.outcome is Outcome.PASS else (finding,))


def _judge_rule(
    rule: GateRule, latency: LatencyComparison, ranges: Sequence[RangeChange], lost: Sequence[str]
) -> GateResult:
    if rule.metric in LATENCY_METRICS:
        checked = list(_judge_latencies(rule, latency))
    elif rule.metric in TIMES:
        checked = list(_judge_times(rule, ranges, lost))
    else:
        checked = list(_judge_metrics(rule, latency, ranges, lost))
    findings = tuple(finding for _, finding in checked if finding.outcome is not Outcome.PASS)
    if not checked:
        step = "Give captures or benches." if rule.metric in LATENCY_METRICS else "Give captures or traces."
        text = f"nothing here has a number for {rule.metric}"
        findings = (GateFinding("", Outcome.INCONCLUSIVE, text, step),)
    outcomes = {finding.outcome for finding in findings}
    worst = next(
        (outcome for outcome in (Outcome.REGRESSION, Outcome.INCONCLUSIVE) if outcome in outcomes), Outcome.PASS
    )
    return GateResult(rule.text, worst, len(checked), findings)


def _judge_latencies(rule: GateRule, latency: LatencyComparison) -> Iterable[tuple[str, GateFinding]]:
    """Yield the judgement of each case.

    A gate asks whether any case is beyond the limit. With many cases at the limit, the interval of one or another is
    beyond it by chance, so that the tests against the limit are corrected over all cases (Benjamini and Hochberg).
    """
    return _judge_corrected([(rule, change) for change in latency.changes], latency.alpha)


def _judge_corrected(
    pairs: Sequence[tuple[GateRule, LatencyChange]], alpha: float
) -> Iterable[tuple[str, GateFinding]]:
    """Yield the judgement of each change by its rule, whose limit is a percentage, corrected over all of them."""
    tested = [number for number, (_, change) in enumerate(pairs) if _is_tested(change)]
    raw = [_p_of_limit(*pairs[number]) for number in tested]
    corrected = dict(zip(tested, false_discovery(raw), strict=True))
    for number, (rule, change) in enumerate(pairs):
        is_certain = corrected.get(number, 1.0) < _SHARE_OF_ALPHA * alpha
        yield change.case, _judge_latency(rule, change, is_certain=is_certain)


def _judge_times(
    rule: GateRule, ranges: Sequence[RangeChange], lost: Sequence[str]
) -> Iterable[tuple[str, GateFinding]]:
    """Yield the judgement of a time of each range by its verdict and interval, and of the ranges that vanished."""
    for change in ranges:
        if change.how == "vanished" and not change.is_library:
            yield change.label, _vanished(change)
    by_number = compare_range_times(rule.metric, ranges, rule.limit if rule.percent else MARGIN_PCT)
    pairs = []
    for number, judged in by_number.items():
        baseline = ranges[number].metrics[rule.metric].baseline or 1.0
        percent = rule.limit if rule.percent else 100 * rule.limit / max(1.0, baseline)
        pairs.append((GateRule(rule.text, "slower", percent, True), judged))
    for number, (where, finding) in zip(by_number, _judge_corrected(pairs, ALPHA), strict=True):
        time, judged = ranges[number].metrics[rule.metric], by_number[number]
        levels = judged.baseline.median_ns if time.baseline else 0, judged.candidate.median_ns if time.candidate else 0
        times = " to ".join(format_apart(format_ns, *levels))
        text = f"{rule.metric} {times}; {finding.text}"
        yield where, _doubt(replace(finding, text=text), lost)


def _vanished(change: RangeChange) -> GateFinding:
    text = "is not in the candidate's trace"
    return GateFinding(change.label, Outcome.INCONCLUSIVE, text, "Trace the same ranges.")


def _is_tested(change: LatencyChange) -> bool:
    known = None not in (change.ratio, change.low, change.high)
    return known and change.reason != SAME_SAMPLES and not change.reason.startswith(THROTTLED)


def _p_of_limit(rule: GateRule, change: LatencyChange) -> float:
    """Return the one-sided p of a t test that the case is no further than the limit; 0 where its error is unknown."""
    sign = 1 if rule.metric == "slower" else -1
    beyond = sign * math.log(change.ratio or 1.0) - math.log1p(rule.limit / 100)
    if not change.error or change.freedom is None:
        return 0.0 if beyond > 0 else 1.0
    return t_sf(beyond / change.error, change.freedom)


def _judge_latency(rule: GateRule, change: LatencyChange, *, is_certain: bool) -> GateFinding:
    """Return a regression where the whole interval is beyond the limit, a pass where it is within.

    is_certain: whether the test against the limit says so too, corrected over all cases.
    """
    failed = _failed(change)
    if failed is not None:
        return failed
    if change.reason == SAME_SAMPLES:
        return GateFinding(change.case, Outcome.PASS, change.reason)
    if change.ratio is None or change.low is None or change.high is None or change.reason.startswith(THROTTLED):
        return GateFinding(change.case, Outcome.INCONCLUSIVE, change.reason, change.next_step)
    low, high, verdict = change.low, change.high, LatencyVerdict.SLOWER
    if rule.metric == "faster":
        low, high, verdict = 1 / change.high, 1 / change.low, LatencyVerdict.FASTER
    limit = 1 + rule.limit / 100
    text = f"{change.ratio:.3f} times as long [{change.low:.3f}, {change.high:.3f}]"
    is_beyond = change.verdict is verdict and low > limit
    if is_beyond and is_certain:
        return GateFinding(change.case, Outcome.REGRESSION, text)
    if high <= limit:
        return GateFinding(change.case, Outcome.PASS, text)
    why = _BY_CHANCE if is_beyond else change.reason or "the limit is within the interval"
    step = _MEASURE_MORE if is_beyond else change.next_step
    return GateFinding(change.case, Outcome.INCONCLUSIVE, f"{text}; {why}", step)


def _failed(change: LatencyChange) -> GateFinding | None:
    """Return a regression for a case that the baseline measured and the candidate could not measure."""
    old, new = change.baseline, change.candidate
    if old.status == "ok" and new.status not in ("ok", "absent"):
        return GateFinding(change.case, Outcome.REGRESSION, f"was measured, and now is {new.status}: {new.reason}")
    if old.status != "ok" and new.status == "ok":
        return GateFinding(change.case, Outcome.PASS, "new")
    if old.status not in ("ok", "absent") and new.status not in ("ok", "absent"):
        return GateFinding(change.case, Outcome.PASS, f"{new.status} on both sides")
    if old.status == "ok" and new.status == "absent":
        return GateFinding(change.case, Outcome.INCONCLUSIVE, "is not in the candidate", "Measure the same cases.")
    return None


def _judge_metrics(
    rule: GateRule, latency: LatencyComparison, ranges: Sequence[RangeChange], lost: Sequence[str]
) -> Iterable[tuple[str, GateFinding]]:
    whole = next((change for change in ranges if change.range == WHOLE_TRACE and change.how == "both"), None)
    is_whole_known = whole is not None and not _lacks(rule, whole)
    for change in ranges:
        # A range holds what was allocated before it, too, so that only the peak of all says whether more is needed.
        is_within_peak = rule.metric == "vram" and is_whole_known and change is not whole
        # How long a library's own range takes depends on what the library does in it.
        is_of_others = rule.metric == "wall" and change.is_library
        # What a range does not do any more is less; if it is done elsewhere, the whole trace has it.
        is_less = change.how == "vanished" and rule.metric in _COUNTS and is_whole_known
        if is_within_peak or is_of_others or is_less:
            continue
        if change.how == "vanished":
            yield change.label, _vanished(change)
        elif change.how == "both":
            metric = _metric_of(rule, change)
            if _never_known(metric):
                continue  # what neither trace records (wall time of a whole trace, DRAM bytes without counters)
            finding = _judge_metric(rule, change.label, metric, "bytes" if rule.metric == "moved" else "")
            yield change.label, _doubt(finding, lost)
    if rule.metric == "vram":
        for case in latency.changes:
            old, new = case.baseline.peak_bytes, case.candidate.peak_bytes
            if old is not None and new is not None:
                yield case.case, _judge_metric(rule, case.case, MetricChange("vram", (old,), (new,), old, new), "")


def _metric_of(rule: GateRule, change: RangeChange) -> MetricChange:
    return _moved(change) if rule.metric == "moved" else change.metrics[rule.metric]


def _lacks(rule: GateRule, whole: RangeChange) -> bool:
    """Return whether the number of the rule is unknown for the whole trace on a side."""
    metric = _metric_of(rule, whole)
    return metric.baseline is None or metric.candidate is None


def _never_known(metric: MetricChange) -> bool:
    return all(value is None for value in (*metric.baselines, *metric.candidates))


def _moved(change: RangeChange) -> MetricChange:
    """Return the change of the bytes that were copied or set."""
    copied, filled = change.metrics["copied"], change.metrics["filled"]

    def add(one: Sequence[float | None], other: Sequence[float | None]) -> tuple[float | None, ...]:
        return tuple(None if a is None or b is None else a + b for a, b in zip(one, other, strict=True))

    old, new = add(copied.baselines, filled.baselines), add(copied.candidates, filled.candidates)
    both = add((copied.baseline, copied.candidate), (filled.baseline, filled.candidate))
    return MetricChange("moved", old, new, both[0], both[1])


def _judge_metric(rule: GateRule, where: str, metric: MetricChange, unit: str) -> GateFinding:
    """Return the judgement of one number by its rule.

    It is a count or bytes, not a time. It is a regression where every trace of the candidate exceeds the limit over
    every trace of the baseline. It is inconclusive where only their medians do, or where the error of a sampled number
    reaches across the limit.
    """
    render = _FORMATS[unit or METRICS[metric.metric].unit]
    if metric.baseline is None or metric.candidate is None:
        side = "baseline" if metric.baseline is None else "candidate"
        text = f"{rule.metric} is unknown in the {side}"
        return GateFinding(where, Outcome.INCONCLUSIVE, text, "The notes of nsysprof analyze say why.")
    change = metric.candidate - metric.baseline
    old = max(value for value in metric.baselines if value is not None)
    new = min(value for value in metric.candidates if value is not None)
    percent = metric.change_pct
    percent_text = "" if percent is None or change == 0 else f", {'+' if change > 0 else ''}{format_percent(percent)}"
    text = f"{rule.metric} {' to '.join(format_apart(render, metric.baseline, metric.candidate))}{percent_text}"
    if _reaches(rule, old, new - old - metric.error):
        return GateFinding(where, Outcome.REGRESSION, text)
    if _reaches(rule, metric.baseline, change + metric.error):
        doubt = "within the sampling error" if metric.error else "the traces of the two sides overlap"
        return GateFinding(where, Outcome.INCONCLUSIVE, f"{text}, {doubt}", "Trace each side more often.")
    return GateFinding(where, Outcome.PASS, text)


def _reaches(rule: GateRule, baseline: float, change: float) -> bool:
    limit = rule.limit / 100 * baseline if rule.percent else rule.limit
    return change > 0 and change >= limit * (1 - _TINY)


def _doubt(finding: GateFinding, lost: Sequence[str]) -> GateFinding:
    """Return the judgement as inconclusive where traces lost data, because counts of such traces prove nothing."""
    if not lost:
        return finding
    return GateFinding(finding.where, Outcome.INCONCLUSIVE, f"{finding.text}; {lost[0]}", "Record the trace again.")


LATENCY_METRICS = ("slower", "faster")
# What is measured without a trace.
_UNTRACED = (*LATENCY_METRICS, "vram")
# The time of a step of a program, which traces know.
STEP_TIME = "step"
# A rule about findings has the code of a finding instead of a limit, or this word for all findings.
FINDING, ANY_FINDING = "finding", "any"
# The names that users give to metrics, and the columns of our tables.
ALIASES = {"memcpy": "copied", "memset": "filled", "bytes": "moved", "memory": "vram", "time": "kernel_time"}
# Sums without a column of their own: bytes copied plus bytes set.
_SUMS = {"moved": "bytes"}
_RULE = re.compile(r"([a-z_-]+):(\+?)([0-9]+(?:\.[0-9]+)?)\s*(%|[A-Za-z]*)")
_UNITS = {
    "count": {},
    "bytes": {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "ns": {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
}


@dataclass(frozen=True)
class GateRule:
    """One rule of a gate."""

    text: str
    # One of LATENCY_METRICS or METRICS, or "moved", or STEP_TIME, or FINDING.
    metric: str
    # In percent, or in the metric's own unit (ns, bytes).
    limit: float
    percent: bool
    # The code of a finding, where the rule is about one.
    code: str = ""


def parse_gate(text: str) -> tuple[GateRule, ...]:
    """Return the rules of a gate. Raises UsageError, which names the invalid part and shows valid ones."""
    parts = [part.strip() for part in text.split(",")]
    if parts == [""]:
        raise UsageError("--fail-on is empty.", "Give rules such as slower:3%,launches:+1,vram:+5%.")
    rules = tuple(_parse_rule(part) for part in parts)
    seen: set[str] = set()
    for rule in rules:
        about = f"{rule.metric}:{rule.code}" if rule.code else rule.metric
        if about in seen:
            raise UsageError(f"--fail-on has two rules for {about}.", "Give one limit for each.")
        seen.add(about)
    return rules


def margin_of(rules: Sequence[GateRule]) -> float:
    """Return the smallest difference that matters to these rules (percent): the limit of the latency or of a step."""
    limits = {rule.metric: rule.limit for rule in rules if rule.percent}
    return limits.get("slower", limits.get(STEP_TIME, MARGIN_PCT))


def refuse_traced(rules: Sequence[GateRule]) -> None:
    """Raise UsageError for a rule about a number that only a trace has, where nothing is traced."""
    other = next((rule for rule in rules if rule.metric not in _UNTRACED), None)
    if other is not None:
        raise UsageError(
            f"--fail-on: '{other.text}' needs a trace, and nothing is traced here.",
            f"Rules here are about {', '.join(_UNTRACED)}. nsysprof compare of two traces judges the others.",
        )


def known_metrics() -> tuple[str, ...]:
    """Return the names of everything that a rule can be about."""
    return (*LATENCY_METRICS, STEP_TIME, *METRICS, *ALIASES)


def _parse_finding(part: str) -> GateRule:
    code = part.partition(":")[2]
    known = (*CODES, *MEMORY_CODES)
    if code not in (*known, ANY_FINDING):
        raise UsageError(f"--fail-on: {code!r} is not the code of a finding.", f"Known: any, {', '.join(known)}.")
    return GateRule(part, FINDING, 0.0, False, code)


def _parse_rule(part: str) -> GateRule:
    if part.startswith(f"{FINDING}:"):
        return _parse_finding(part)
    match = _RULE.fullmatch(part)
    if match is None:
        raise UsageError(
            f"--fail-on: '{part}' is not a valid rule.", "A rule is METRIC:LIMIT, such as slower:3% or launches:+1."
        )
    name, _, number, unit = match.groups()
    name = name.replace("-", "_")
    metric = ALIASES.get(name, name)
    if metric not in (*LATENCY_METRICS, STEP_TIME, *METRICS, *_SUMS):
        raise UsageError(f"--fail-on: unknown metric '{match[1]}'.", f"Known: {', '.join(known_metrics())}, {FINDING}.")
    limit = float(number)
    if not limit > 0:
        raise UsageError(f"--fail-on: '{part}' would always fail.", "Give a limit above zero.")
    if unit == "%":
        return GateRule(part, metric, limit, True)
    if metric in LATENCY_METRICS:
        raise UsageError(f"--fail-on: '{part}' needs a percentage.", f"For example {metric}:3%.")
    units = _UNITS["ns" if metric == STEP_TIME else _SUMS.get(metric) or METRICS[metric].unit]
    if (unit and unit not in units) or (units and not unit):
        known = ", ".join(["%", *units]) if units else "% or none"
        problem = f"has the unit '{unit}', which {metric} does not have" if unit else "needs a unit"
        raise UsageError(f"--fail-on: '{part}' {problem}.", f"The units of {metric} are: {known}.")
    return GateRule(part, metric, limit * units.get(unit, 1), False)
