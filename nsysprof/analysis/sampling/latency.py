"""Compute the latency statistics of one case from its samples, with an interval.

What the interval covers depends on the data. If several processes measured the case, it comes from process_model and
covers other processes of the same run. A single process says nothing about others, so its interval covers only further
calls in that process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.sampling.series_ratio import ratio_with_interval
from nsysprof.analysis.sampling.significance import NO_PRIOR, Prior, estimate, process_levels, turns_of
from nsysprof.analysis.sampling.student_t import kendall_p, t_isf, theil_sen_slope
from nsysprof.analysis.traffic.roofline import is_launch_bound
from nsysprof.arrays import Floats
from nsysprof.notes import Note, make_note
from nsysprof.results.recorded_part import LatencyWindow, LatencyWindows, Ratio
from nsysprof.results.samples import OK, STALL_SHARE, STALL_TIMES, Block, median_interval, steady_samples, time_interval

METHOD = (
    "a latency is the geometric mean of the processes, each the geometric mean of its blocks' medians without their "
    "first samples; its 95 % interval is a t interval of the processes' log levels, whose variance is drawn towards "
    "the variance of all cases, and covers other processes of this run; from one process it is a t interval of the log "
    "medians of its blocks, and covers that process alone (with fewer than 3 blocks it is the median of all samples, "
    "with an interval from order statistics, which is wider where neighbours are alike); "
    "outliers lie over 3 interquartile ranges outside the quartiles and are kept; drift is the Theil-Sen slope of the "
    "blocks' medians over the run, with Kendall's p"
)
# With fewer blocks, the interval of one process comes from its samples.
_LEAST_BLOCKS = 3
# With fewer samples than this, no sample lies beyond the percentile.
_LEAST_FOR_P95, _LEAST_FOR_P99 = 20, 100
# A median is uncertain if its interval extends further than this to either side (percent). At most this many cases are
# named.
_LEAST_NOISE_PCT, _MOST_NAMED = 10, 4


@dataclass(frozen=True)
class Latency:
    """Statistics of one case; times in ns, None where there are too few samples."""

    # How many samples count. The first sample of a block does not, if the block has at least five.
    samples: int
    blocks: int
    processes: int
    # The latency: the middle of the interval, except where that comes from samples.
    median_ns: float
    low_ns: float | None
    high_ns: float | None
    # What the interval is based on: "processes"; "blocks" or "samples" of one process; or "" without an interval.
    interval_of: str
    mean_ns: float
    stddev_ns: float | None
    cv_pct: float | None
    min_ns: float
    max_ns: float
    p95_ns: float | None
    p99_ns: float | None
    outliers: int
    drift_pct: float | None
    drift_p: float | None


def summarize_latency(blocks: Sequence[Block], prior: Prior = NO_PRIOR, *, graph: bool = False) -> Latency | None:
    """Return the statistics of one case; None where there is no sample.

    prior: what the variances between processes of all cases have in common.
    graph: whether to use the replays as a CUDA graph.
    """
    good = [block for block in blocks if block.status == OK and (block.graph_ns if graph else block.values_ns)]
    groups = [
        np.asarray(steady_samples(block.graph_ns if graph else block.values_ns), dtype=np.float64) for block in good
    ]
    if not groups:
        return None
    values = np.concatenate(groups)
    level = estimate(process_levels(turns_of(good, graph=graph)), prior)
    if level is not None:
        middle, reach = float(np.exp(level.value)), float(np.exp(level.reach()))
        interval = _Interval(middle, middle / reach, middle * reach, "processes")
    else:
        interval = interval_of_process(groups)
    deviation = float(values.std(ddof=1)) if len(values) > 1 else None
    mean = float(values.mean())
    drift, p = _drift([block.started_ns for block in good], [float(np.median(group)) for group in groups])
    return Latency(
        samples=len(values),
        blocks=len(groups),
        processes=len({block.process for block in good}),
        median_ns=interval.middle_ns,
        low_ns=interval.low_ns,
        high_ns=interval.high_ns,
        interval_of=interval.kind,
        mean_ns=mean,
        stddev_ns=deviation,
        cv_pct=None if deviation is None or mean == 0 else 100 * deviation / mean,
        min_ns=float(values.min()),
        max_ns=float(values.max()),
        p95_ns=float(np.quantile(values, 0.95)) if len(values) >= _LEAST_FOR_P95 else None,
        p99_ns=float(np.quantile(values, 0.99)) if len(values) >= _LEAST_FOR_P99 else None,
        outliers=_count_outliers(values),
        drift_pct=drift,
        drift_p=p,
    )


def block_medians(blocks: Sequence[Block]) -> Floats:
    """Return the median (ns) of each block that was measured, in the given order."""
    return np.array([
        np.median(steady_samples(block.values_ns)) for block in blocks if block.status == OK and block.values_ns
    ])  # fmt: skip


@dataclass(frozen=True)
class _Interval:
    """A latency with its 95 % interval, and what it is based on."""

    middle_ns: float
    low_ns: float | None
    high_ns: float | None
    kind: str


def interval_of_process(groups: Sequence[Floats]) -> _Interval:
    """Return the latency of one process, from its blocks if there are enough, else from its samples.

    groups: the samples of each block (ns).
    """
    if len(groups) >= _LEAST_BLOCKS:
        levels = np.log([max(1.0, float(np.median(group))) for group in groups])
        error = float(levels.std(ddof=1)) / np.sqrt(len(levels))
        middle, reach = float(np.exp(levels.mean())), float(np.exp(error * t_isf(0.025, len(levels) - 1)))
        return _Interval(middle, middle / reach, middle * reach, "blocks")
    middle = float(np.median(np.concatenate(groups)))
    bounds = time_interval([round(value) for group in groups for value in group.tolist()])
    if bounds is None:
        return _Interval(middle, None, None, "")
    return _Interval(middle, float(bounds[0]), float(bounds[1]), "samples")


def _count_outliers(values: Floats) -> int:
    first, third = np.quantile(values, [0.25, 0.75])
    reach = 3 * (third - first)
    return int(((values < first - reach) | (values > third + reach)).sum())


def _drift(starts_ns: Sequence[int], medians: Sequence[float]) -> tuple[float | None, float | None]:
    """Return the trend of the blocks' medians from first to last (percent) and its p; None with fewer than 5 blocks."""
    if len(starts_ns) < 5 or len(set(starts_ns)) < 5:
        return None, None
    at, values = np.asarray(starts_ns, dtype=np.float64), np.asarray(medians)
    if np.ptp(values) == 0:
        return 0.0, 1.0
    slope = theil_sen_slope(at - at.min(), values)
    middle = float(np.median(values))
    return 100 * slope * float(np.ptp(at)) / middle if middle else None, kendall_p(at, values)


def summarize_window(durations_ns: Sequence[int | None], wall_ns: int) -> LatencyWindow:
    """Return the median, the 90th percentile and an interval for the median of these steps."""
    in_order = [value for value in durations_ns if value is not None]
    known, (low, high) = sorted(in_order), median_interval(in_order) or (None, None)
    return LatencyWindow(
        steps=len(durations_ns),
        wall_ns=wall_ns,
        median_ns=_quantile(known, 0.5),
        p90_ns=_quantile(known, 0.9),
        median_low_ns=low,
        median_high_ns=high,
    )


def compare_windows(
    told_by: str, before: LatencyWindow | None, during: LatencyWindow | None, after: LatencyWindow | None
) -> LatencyWindows:
    """Return the three windows, with the ratios of the later ones to the window before the recording."""
    unknown = ""
    if before is None or after is None:
        unknown = "With --watch 0, nothing was watched before and after the recording."
    elif before.median_ns is None or after.median_ns is None:
        unknown = "no step ended before the recording, or none ended after it."
    return LatencyWindows(told_by, unknown, before, during, after, _ratio(during, before), _ratio(after, before))


def _ratio(new: LatencyWindow | None, old: LatencyWindow | None) -> Ratio | None:
    if new is None or old is None or not new.median_ns or not old.median_ns:
        return None
    return ratio_with_interval(old.median_ns, _bounds(old), new.median_ns, _bounds(new))


def _bounds(window: LatencyWindow) -> tuple[int, int] | None:
    """Return the interval of a median; None where it reaches down to nothing, because a ratio has no bound then."""
    low, high = window.median_low_ns, window.median_high_ns
    return None if low is None or high is None or low <= 0 else (low, high)


def _quantile(values: Sequence[int], share: float) -> int | None:
    if not values:
        return None
    place = (len(values) - 1) * share
    low, high = values[math.floor(place)], values[math.ceil(place)]
    return round(low + (high - low) * (place - math.floor(place)))


def noise_notes(results: pd.DataFrame) -> list[Note]:
    """Return a note about the cases whose latency is uncertain because the machine was too noisy.

    results: the columns of results.csv.
    """
    known = results[results["latency_ci_low_ns"].notna()]
    widest = (known["latency_ci_high_ns"] - known["latency_ci_low_ns"]).astype(float) / 2
    names = known["range"][(100 * widest > _LEAST_NOISE_PCT * known["latency_median_ns"].astype(float)).to_numpy()]
    notes = [make_note("noisy-machine", cases=_named(names), least_pct=_LEAST_NOISE_PCT)] if len(names) else []
    # A case whose samples stall has an upper bound alone.
    stalled = results["range"][results["latency_ci_high_ns"].notna() & results["latency_ci_low_ns"].isna()]
    return [*notes, stall_note(_named(stalled), "None of them is called slower.")] if len(stalled) else notes


def stall_note(cases: str, effect: str) -> Note:
    """Return the note on cases that have too many stalled samples.

    effect: the sentence that says what they therefore lack.
    """
    return make_note("machine-stalls", cases=cases, percent=100 * STALL_SHARE, times=STALL_TIMES, effect=effect)


def launch_notes(results: pd.DataFrame) -> list[Note]:
    """Return a note about the cases whose latency the CPU determines, by its launches.

    results: the columns of results.csv of a capture on a GPU.
    """
    known = results[results["latency_median_ns"].notna()]
    is_bound = [
        is_launch_bound(
            _known(row["kernel_total_ns"] / row["traced_calls"] if row["traced_calls"] else None),
            row["latency_median_ns"],
            _known(row["event_over_graph"]),
        )
        for row in known.to_dict("records")
    ]
    names = known["range"][is_bound]
    return [make_note("launch-bound-latency", cases=_named(names))] if len(names) else []


def _known(value: Any) -> float | None:
    return None if pd.isna(value) else float(value)


def _named(cases: pd.Series) -> str:
    """Return the first names of cases, and how many more there are."""
    more = f" and {len(cases) - _MOST_NAMED} more" if len(cases) > _MOST_NAMED else ""
    return ", ".join(map(str, cases[:_MOST_NAMED])) + more
