"""Decide whether backends with equal work differ, from samples measured in turn in the same processes.

Model latency samples: samples lie in blocks, blocks in processes, and only processes are independent repetitions.

The logarithm of a block's median is the case's level, plus an effect of its process, plus an effect of the block. The
samples of a block share a process, its memory and its clocks, so neither samples nor blocks are independent
measurements. The variation between processes contains every effect, so the intervals and tests here use only that. A
few processes estimate it poorly, so the variances of all cases of a run are moderated by what they have in common
(variance_shrinkage), with fewer degrees of freedom where the cases share the effects of their processes. Two cases are
compared process by process and round by round, because both were measured in turn in the same processes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from math import inf, log

import numpy as np

from nsysprof.analysis.sampling.student_t import t_isf, t_sf
from nsysprof.arrays import Floats
from nsysprof.results.comparison import LatencyChange, LatencyVerdict
from nsysprof.results.latency_history import CaseHistory, HistoryPoint, HistoryState
from nsysprof.results.program_runs import PredictedGain, Prediction, ProgramComparison, Sameness
from nsysprof.results.samples import OK, Block, steady_samples

# A turn is one round of one process. The value is the log of the block's median (log ns).
Turns = Mapping[tuple[int, int], float]

CONFIDENCE = 0.95
_LEAST_PROCESSES = 2
# With this many degrees of freedom, the t distribution is a normal distribution.
_MOST_FREEDOM = 1e6
# Fewer cases say little about how much variances differ between cases.
_LEAST_CASES = 3
_SMALLEST = 1e-12  # stands for a variance of zero, which a clock as coarse as the times causes
# From this argument on, the asymptotic series has 15 digits.
_LARGE = 12.0


@dataclass(frozen=True)
class Estimate:
    """A level or a difference of levels."""

    # The value: log ns, or the log of a ratio.
    value: float
    # Its standard error, on the same scale.
    error: float
    # The degrees of freedom of the error.
    freedom: float
    processes: int

    def p(self, least: float = 0.0) -> float:
        """Return the two-sided p of a t test that the value is no further from zero than `least`."""
        beyond = abs(self.value) - least
        if self.error == 0:
            return 0.0 if beyond > 0 else 1.0
        return min(1.0, 2 * t_sf(beyond / self.error, self.freedom))

    def reach(self, confidence: float = CONFIDENCE) -> float:
        """Return half the width of the confidence interval."""
        return self.error * t_isf(0.5 - confidence / 2, self.freedom)


def turns_of(blocks: Sequence[Block], *, graph: bool = False) -> dict[tuple[int, int], float]:
    """Return the log median of each valid block of one case, by process and round.

    graph: whether to use the replays as a CUDA graph.
    """
    turns: dict[tuple[int, int], float] = {}
    for block in blocks:
        values = block.graph_ns if graph else block.values_ns
        if block.status == OK and values:
            turns[block.process, block.round] = math.log(max(1.0, statistics.median(steady_samples(values))))
    return turns


def process_levels(turns: Turns) -> Floats:
    """Return the mean of each process over its rounds."""
    return _means([(process, value) for (process, _), value in turns.items()])


def process_differences(baseline: Turns, candidate: Turns) -> Floats:
    """Return for each process the mean of candidate minus baseline, over the rounds that have both."""
    both = [turn for turn in baseline if turn in candidate]
    return _means([(turn[0], candidate[turn] - baseline[turn]) for turn in both])


def contrasts(shape: Sequence[Turns]) -> list[Floats]:
    """Return independent contrasts of one shape's backends, one value per process, scaled to vary as a difference does.

    These are Helmert contrasts: each backend against the mean of those before it. There is one contrast fewer than
    backends. Differences of all pairs would count the same repetitions several times.
    """
    common = [turn for turn in shape[0] if all(turn in other for other in shape[1:])] if shape else []
    if not common:
        return []
    levels = np.stack([_means([(turn[0], turns[turn]) for turn in common]) for turns in shape])
    return [
        (levels[:count].mean(axis=0) - levels[count]) * np.sqrt(2 * count / (count + 1))
        for count in range(1, len(shape))
    ]


def fit(values: Sequence[Floats]) -> Prior:
    """Return the prior that describes the variances of all cases.

    values: for each case, one value per process.
    """
    prior = fit_prior([(_variance(levels), len(levels) - 1) for levels in values if len(levels)])
    processes = max((len(levels) for levels in values), default=0)
    if processes < _LEAST_PROCESSES:
        return prior
    # Only cases that all processes measured are sure to have the same ones.
    complete = [levels - levels.mean() for levels in values if len(levels) == processes]
    return replace(prior, most_freedom=limit_freedom(complete, processes - 1))


def estimate(values: Floats, prior: Prior) -> Estimate | None:
    """Return the mean of one value per process, with its error; None where fewer than two processes were measured."""
    if len(values) < _LEAST_PROCESSES:
        return None
    moderated = prior.moderate(_variance(values), len(values) - 1)
    if moderated is None:
        return None
    variance, freedom = moderated
    return Estimate(
        float(values.mean()), float(np.sqrt(variance / len(values))), min(freedom, _MOST_FREEDOM), len(values)
    )


def _variance(values: Floats) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0


def _means(pairs: Sequence[tuple[int, float]]) -> Floats:
    by_process: dict[int, list[float]] = {}
    for process, value in pairs:
        by_process.setdefault(process, []).append(value)
    return np.array([np.mean(by_process[process]) for process in sorted(by_process)], dtype=np.float64)


@dataclass(frozen=True)
class Prior:
    """The prior distribution that moderates the variances."""

    # d0: its degrees of freedom; 0 where nothing is known.
    freedom: float
    # s0²: its variance.
    variance: float
    # The most degrees of freedom that a moderated variance has: fewer where cases share the effects of a process.
    most_freedom: float = inf

    def moderate(self, variance: float, freedom: int) -> tuple[float, float] | None:
        """Return a case's moderated variance and its degrees of freedom; None if nothing was repeated in any case."""
        total = self.freedom + freedom
        if total == 0:
            return None
        return (self.freedom * self.variance + freedom * variance) / total, min(total, max(self.most_freedom, freedom))


NO_PRIOR = Prior(0.0, 0.0)


def fit_prior(variances: Sequence[tuple[float, int]]) -> Prior:
    """Return the prior that fits the (variance, degrees of freedom) of every case."""
    known = [(max(variance, _SMALLEST), freedom) for variance, freedom in variances if freedom > 0]
    if len(known) < _LEAST_CASES:
        return NO_PRIOR
    variance, freedom = np.array(known, dtype=np.float64).T
    halves = [degrees / 2 for degrees in freedom.tolist()]
    logs = np.log(variance) - [digamma(half) - log(half) for half in halves]
    middle = float(logs.mean())
    excess = float(logs.var(ddof=1) - np.mean([trigamma(half) for half in halves]))
    if excess <= 0:
        # The variances are more alike than chance would make them: all repetitions share one variance. A case's own
        # repetitions are added later.
        return Prior(float(freedom.sum() - freedom.mean()), float(np.average(variance, weights=freedom)))
    half = inverse_trigamma(excess)
    return Prior(2 * half, float(np.exp(middle + digamma(half) - np.log(half))))


def limit_freedom(deviations: Sequence[Floats], freedom: int) -> float:
    """Return the degrees of freedom that a variance pooled over all cases has, as they may share effects of processes.

    Each case is scaled to the same variance. Its deviations are split into those of the processes, which all cases
    share, and the rest; with K independent cases it is K times `freedom`, with one effect in all of them `freedom`.

    deviations: for each case, one value per process, each minus the mean of its side; the processes are the same.
    freedom: the degrees of freedom of a case.
    """
    lengths = [float(np.sqrt((values**2).sum())) for values in deviations]
    scaled = [values / length for values, length in zip(deviations, lengths, strict=True) if length > 0]
    if len(scaled) < _LEAST_CASES:
        return inf
    shared = float((np.mean(scaled, axis=0) ** 2).sum())
    return freedom / (shared**2 + (1 - shared) ** 2 / (len(scaled) - 1))


def digamma(x: float) -> float:
    """Return the first derivative of ln Γ at `x` > 0."""
    below = 0.0
    while x < _LARGE:
        below -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760)))))
    return below + log(x) - 1 / (2 * x) - series


def trigamma(x: float) -> float:
    """Return the second derivative of ln Γ at `x` > 0."""
    below = 0.0
    while x < _LARGE:
        below += 1 / (x * x)
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y * (1 / 30 - y * (5 / 66 - y * 691 / 2730)))))
    return below + 1 / x + y / 2 + series / x


def inverse_trigamma(value: float) -> float:
    """Return the x > 0 at which trigamma is `value` > 0, by bisection of its logarithm."""
    low, high = 1e-13, 1e13
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if trigamma(middle) > value else (low, middle)
        if high <= low * (1 + 1e-15):
            break
    return float((low * high) ** 0.5)


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
# Where the blocks of a process differ by more (standard deviation of logarithms), clocks, tails or lasting deviations
# are at work: 13 to 21 % of reports of ten shapes then had a false verdict, below it none of 600. A quiet machine has
# 0.6 %.
_NOISY = 0.02
METHOD = (
    "backends of one shape are compared process by process, in the rounds that both were measured in: a t test of the "
    "mean log ratio of the processes, whose variance is drawn towards the variance of all pairs (Smyth's empirical "
    f"Bayes), against a difference of {LEAST_PCT:g} %, corrected by Holm over all pairs of the shape, and by "
    f"Benjamini and Hochberg over the shapes whose blocks differ by more than {100 * _NOISY:g} % in one process, at "
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


def block_noise(shape: Mapping[str, Turns]) -> float:
    """Return the standard deviation of the blocks of one process (logarithm), without what a round's backends share."""
    rounds: dict[int, list[tuple[int, int]]] = {}
    for turn in sorted(set.intersection(*map(set, shape.values()))) if len(shape) > 1 else ():
        rounds.setdefault(turn[0], []).append(turn)
    total, freedom = 0.0, 0
    for own in rounds.values():
        levels = np.array([[turns[turn] for turn in own] for turns in shape.values()])
        rest = levels - levels.mean(axis=0)
        rest -= rest.mean(axis=1, keepdims=True)
        total += float((rest**2).sum())
        freedom += (len(shape) - 1) * (len(own) - 1)
    return math.sqrt(total / freedom) if freedom else 0.0


def correct_noisy(
    shapes: Sequence[Mapping[str, Turns]], found: Sequence[dict[tuple[str, str], PairDifference]]
) -> list[dict[tuple[str, str], PairDifference]]:
    """Return the pairs of every shape, with p also corrected over the shapes whose blocks are noisy.

    found: what compare_shape returned for each shape.
    """
    corrected = list(found)
    noisy = [number for number, shape in enumerate(shapes) if found[number] and block_noise(shape) > _NOISY]
    least = [min(pair.p_corrected for pair in found[number].values()) for number in noisy]
    for number, p, over_shapes in zip(noisy, least, false_discovery(least), strict=True):
        times = over_shapes / p if p > 0 else 1.0
        corrected[number] = {
            key: replace(pair, p_corrected=min(1.0, times * pair.p_corrected)) for key, pair in found[number].items()
        }
    return corrected


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
