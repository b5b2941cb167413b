"""Decide whether backends with equal work differ, from samples measured in turn in the same processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations

import numpy as np

from nsysprof.analysis.sampling.process_model import (
    Estimate,
    Prior,
    Turns,
    contrasts,
    estimate,
    fit,
    process_differences,
)
from nsysprof.analysis.sampling.student_t import t_isf
from nsysprof.arrays import Floats
from nsysprof.results.comparison import LatencyChange, LatencyVerdict
from nsysprof.results.latency_history import CaseHistory, HistoryPoint, HistoryState
from nsysprof.results.optimization import PredictedGain, Prediction
from nsysprof.results.program_runs import ProgramComparison, Sameness

ALPHA = 0.05
# How likely a planned measurement must be to find a difference of the wanted size.
POWER = 0.8
# A tuner tests the data many times while it measures. What it drops on the way must be this certain, so that all these
# tests together use up little of ALPHA.
INTERIM_ALPHA = 0.002
MARGIN_PCT = 3.0
# Copies of one case in the same processes differed by up to this much, in the same direction in all of them (on an
# H200, analysis/h200-self-check). Memory is laid out alike in each process, so repeating processes does not average
# this out.
LEAST_PCT = 0.5
# Where the shares of throttled samples of two sides differ by this much, throttling may explain, or hide, a difference.
THROTTLE_GAP = 0.1
METHOD = (
    "backends of one shape are compared process by process, in the rounds that both were measured in: a t test of the "
    "mean log ratio of the processes, whose variance is drawn towards the variance of all pairs (Smyth's empirical "
    f"Bayes), against a difference of {LEAST_PCT:g} %, corrected by Holm over all pairs of the shape, at "
    f"p < {ALPHA:g}; a tie is shown by the whole 95 % interval of the ratio lying within ±{MARGIN_PCT:g} %; everything "
    "else is inconclusive, and so is a backend that was throttled in over 10 % more of its samples than the fastest"
)
# The quantile of differences between measurements of the same code that is the noise floor. With fewer pairs, it would
# be the largest difference.
_FLOOR_QUANTILE, _LEAST_PAIRS = 0.95, 20
_NORMAL_95, _NORMAL_50 = 1.960, 0.6745  # quantiles of the absolute value of a standard normal


class CaseVerdict(StrEnum):
    """What can be said about one backend compared with the fastest backend of its shape."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "tie"
    INCONCLUSIVE = "inconclusive"
    UNKNOWN = "too few processes"


@dataclass(frozen=True)
class PairDifference:
    """The difference between a candidate and a baseline."""

    # The candidate's latency divided by the baseline's, with its 95 % interval.
    ratio: float
    low: float
    high: float
    # The two-sided p of a difference beyond LEAST_PCT, and p corrected over all pairs of the shape.
    p: float
    p_corrected: float
    processes: int

    def verdict(self, alpha: float = ALPHA) -> CaseVerdict:
        """Return the verdict on the candidate."""
        if self.p_corrected < alpha:
            return CaseVerdict.SLOWER if self.ratio > 1 else CaseVerdict.FASTER
        margin = 1 + MARGIN_PCT / 100
        return CaseVerdict.SAME if self.low >= 1 / margin and self.high <= margin else CaseVerdict.INCONCLUSIVE


def fit_differences(shapes: Sequence[Mapping[str, Turns]]) -> Prior:
    """Return the prior that describes the variances of differences within all shapes."""
    return fit([contrast for shape in shapes for contrast in contrasts(tuple(shape.values()))])


def compare_shape(shape: Mapping[str, Turns], prior: Prior) -> dict[tuple[str, str], PairDifference]:
    """Return every ordered pair (baseline, candidate) of one shape that at least two processes measured."""
    effects: dict[tuple[str, str], Estimate] = {}
    for one, other in combinations(shape, 2):
        difference = estimate(process_differences(shape[one], shape[other]), prior)
        if difference is not None:
            effects[one, other] = difference
    raw = [effect.p(float(np.log1p(LEAST_PCT / 100))) for effect in effects.values()]
    pairs = {}
    for ((one, other), effect), p, corrected in zip(effects.items(), raw, holm(raw), strict=True):
        for key, sign in (((one, other), 1.0), ((other, one), -1.0)):
            middle, reach = sign * effect.value, effect.reach()
            low, high = float(np.exp(middle - reach)), float(np.exp(middle + reach))
            pairs[key] = PairDifference(float(np.exp(middle)), low, high, p, corrected, effect.processes)
    return pairs


def smallest_difference(shapes: Sequence[Mapping[str, Turns]], prior: Prior) -> tuple[float | None, int]:
    """Return the difference (percent) that a bench tells in 80 % of runs, in the median pair, and the number of pairs.

    It is None where no two backends of a shape were measured in two processes.
    """
    least = float(np.log1p(LEAST_PCT / 100))
    told = []
    for shape in shapes:
        pairs = [estimate(process_differences(*pair), prior) for pair in combinations(shape.values(), 2)]
        known = [pair for pair in pairs if pair is not None]
        for pair in known:
            errors = t_isf(ALPHA / 2 / len(known), pair.freedom) + t_isf(1 - POWER, pair.freedom)
            told.append(least + pair.error * errors)
    return (float(100 * np.expm1(np.median(told))) if told else None), len(told)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values corrected by Holm's step-down procedure, in the given order."""
    order = np.argsort(p_values, kind="stable")
    corrected = np.ones(len(p_values))
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = largest
    return corrected.tolist()


def false_discovery(p_values: Sequence[float]) -> list[float]:
    """Return the p values corrected by the procedure of Benjamini and Hochberg, in the order given."""
    values = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(values)[::-1]
    scaled = values[order] * len(values) / np.arange(len(values), 0, -1)
    corrected = np.empty(len(values))
    corrected[order] = np.minimum(np.minimum.accumulate(scaled), 1.0)
    corrected_values: list[float] = corrected.tolist()
    return corrected_values


def noise_floor(pairs: Sequence[tuple[Floats, Floats]]) -> float | None:
    """Return the difference (percent) that 95 % of pairs of measurements of the same code stay below.

    With fewer than 20 pairs the 95th percentile would be the largest one, so it is estimated from the median as if the
    logarithms were normally distributed.
    """
    ratios = [np.median(b) / np.median(a) for a, b in pairs if len(a) and len(b) and np.median(a) > 0]
    if not ratios:
        return None
    distances = np.abs(np.log(ratios))
    if len(distances) >= _LEAST_PAIRS:
        return float(100 * np.expm1(np.quantile(distances, _FLOOR_QUANTILE)))
    return float(100 * np.expm1(_NORMAL_95 / _NORMAL_50 * np.median(distances)))


def is_better(comparison: ProgramComparison) -> bool:
    """Return whether the candidate is certainly faster and prints the same values."""
    return comparison.change.verdict is LatencyVerdict.FASTER and not _has_other_values(comparison)


def saves_memory(comparison: ProgramComparison) -> bool:
    """Return whether the candidate needs less memory in every run, prints the same values and is not certainly slower.

    Where it needs less of one kind and more of another, it does not.
    """
    if (
        not comparison.memory
        or not all(change.is_lower for change in comparison.memory)
        or _has_other_values(comparison)
    ):
        return False
    return comparison.change.verdict in (LatencyVerdict.FASTER, LatencyVerdict.SAME, LatencyVerdict.INCONCLUSIVE)


def _has_other_values(comparison: ProgramComparison) -> bool:
    return comparison.values is not None and comparison.values.verdict is Sameness.DIFFERENT


def check_prediction(expected: PredictedGain | None, change: LatencyChange) -> Prediction | None:
    """Return how the measured gain compares with the bounds of the predicted one; None without a prediction."""
    if expected is None:
        return None
    if change.low is None or change.high is None:
        return Prediction.NOT_MEASURED
    low, high = 100 * (1 - change.high), 100 * (1 - change.low)
    if low <= expected.high_pct and high >= expected.low_pct:
        return Prediction.MET
    return Prediction.GAINED_MORE if low > expected.high_pct else Prediction.GAINED_LESS


def judge_history(case: CaseHistory) -> CaseHistory:
    """Return the case with its state, and with whether each run's interval overlaps the one before it."""
    before: dict[str, HistoryPoint] = {}
    points = []
    for point in case.points:
        last = before.get(point.conditions)
        points.append(point if last is None else replace(point, overlaps_before=_overlap(last, point)))
        if point.median_ns is not None:
            before[point.conditions] = point
    judged = replace(case, points=tuple(points))
    timed = judged.comparable() if judged.timed else ()
    overlaps = _overlap(timed[0], timed[-1]) if len(timed) > 1 else None
    return replace(judged, state=_state(judged), overlaps_oldest=overlaps)


def _state(case: CaseHistory) -> HistoryState:
    latest = case.latest()
    if latest is None or case.change_pct(*latest) is None:
        return HistoryState.ALONE
    states = {None: HistoryState.UNSURE, True: HistoryState.SAME, False: HistoryState.CHANGED}
    return states[_overlap(*latest)]


def _overlap(one: HistoryPoint, other: HistoryPoint) -> bool | None:
    """Return whether the intervals of two runs overlap; None where one of them has no interval."""
    if one.low_ns is None or one.high_ns is None or other.low_ns is None or other.high_ns is None:
        return None
    return one.low_ns <= other.high_ns and other.low_ns <= one.high_ns
