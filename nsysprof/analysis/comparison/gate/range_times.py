"""Compare the times of ranges for a gate: as a case's latency is, with a trace as a run, by verdict and interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from nsysprof.analysis.comparison.compare_latency import (
    ASSUMED_FLOOR_PCT,
    LEAST_BLOCKS,
    MOST_FREEDOM,
    NORMAL_95,
    Settings,
    compare_latencies,
)
from nsysprof.attention.shape import Case
from nsysprof.results.comparison import (
    SAME_SAMPLES,
    WHOLE_TRACE,
    LatencyChange,
    LatencyVerdict,
    Measured,
    RangeChange,
    SideOfCase,
)

# The times of ranges, and those of them that the GPU determines, of which one trace says something.
TIMES, _OF_GPU = ("wall", "busy", "gaps", "kernel_time"), ("busy", "kernel_time")


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
    sides = []
    for of_side in ("baselines", "candidates"):
        values = {number: getattr(change.metrics[metric], of_side) for number, change in judged.items()}
        most = max(map(len, values.values()))
        sides.append([
            {number: Measured("ok", processes=(((max(1, round(own[trace])),),),))
             for number, own in values.items() if trace < len(own)}
            for trace in range(most)
        ])  # fmt: skip
    # The key only has to distinguish ranges.
    old, new = (cast("list[dict[Case, Measured]]", side) for side in sides)
    names = cast("dict[Case, str]", {number: change.label for number, change in judged.items()})
    answer = compare_latencies(old, new, names, Settings(margin_pct))
    return dict(zip(judged, answer.changes, strict=True))


def _of_one_trace(metric: str, change: RangeChange, margin_pct: float) -> LatencyChange:
    """Return what one trace a side says: of GPU time by the assumed difference of two processes, else nothing."""
    time = change.metrics[metric]
    old, new = max(1.0, time.baseline or 0.0), max(1.0, time.candidate or 0.0)
    sides = SideOfCase("ok", median_ns=old), SideOfCase("ok", median_ns=new)
    if old == new:
        return LatencyChange(change.label, LatencyVerdict.SAME, *sides, SAME_SAMPLES, ratio=1.0, low=1.0, high=1.0)
    step = f"Give {LEAST_BLOCKS} traces of each side."
    if metric not in _OF_GPU:
        reason = "each side is one trace, and the host determines this time"
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
