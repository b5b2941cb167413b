"""Model latency samples: samples lie in blocks, blocks in processes, and only processes are independent repetitions.

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
from math import inf, log

import numpy as np

from nsysprof.analysis.sampling.student_t import t_isf, t_sf
from nsysprof.arrays import Floats
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
