"""Moderate the variances of many cases, each from a few repetitions, by what all of them have in common.

G. K. Smyth, Linear models and empirical Bayes methods (2004): a case's variance is s² ~ σ² χ²_d / d, and 1/σ² of all
cases comes from one scaled χ² with d0 degrees of freedom, so that (d0 s0² + d s²) / (d0 + d) is its estimate with d0 +
d degrees of freedom. This holds where cases vary independently. Where what a process adds is the same for all cases,
many cases say no more about it than one, so the degrees of freedom are limited by a two-way analysis (processes, and
the rest) with Satterthwaite's approximation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log

import numpy as np

from nsysprof.arrays import Floats

# Fewer cases say little about how much variances differ between cases.
_LEAST_CASES = 3
_SMALLEST = 1e-12  # stands for a variance of zero, which a clock as coarse as the times causes
# From this argument on, the asymptotic series has 15 digits.
_LARGE = 12.0


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
