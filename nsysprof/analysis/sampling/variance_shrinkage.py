"""Moderate the variances of many cases, each from a few repetitions, by what all of them have in common.

G. K. Smyth, Linear models and empirical Bayes methods (2004): a case's variance is s² ~ σ² χ²_d / d, and 1/σ² of all
cases comes from one scaled χ² with d0 degrees of freedom, so that (d0 s0² + d s²) / (d0 + d) is its estimate with d0 +
d degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from nsysprof.analysis.sampling.polygamma import digamma, inverse_trigamma, trigamma

# Fewer cases say little about how much variances differ between cases.
_LEAST_CASES = 3
_SMALLEST = 1e-12  # stands for a variance of zero, which a clock as coarse as the times causes


@dataclass(frozen=True)
class Prior:
    """The prior distribution that moderates the variances."""

    # d0: its degrees of freedom; 0 where nothing is known.
    freedom: float
    # s0²: its variance.
    variance: float

    def moderate(self, variance: float, freedom: int) -> tuple[float, float] | None:
        """Return a case's moderated variance and its degrees of freedom; None if nothing was repeated in any case."""
        total = self.freedom + freedom
        if total == 0:
            return None
        return (self.freedom * self.variance + freedom * variance) / total, total


NO_PRIOR = Prior(0.0, 0.0)


def fit_prior(found: Sequence[tuple[float, int]]) -> Prior:
    """Return the prior that fits the (variance, degrees of freedom) of every case."""
    known = [(max(variance, _SMALLEST), freedom) for variance, freedom in found if freedom > 0]
    if len(known) < _LEAST_CASES:
        return NO_PRIOR
    variance, freedom = np.array(known, dtype=np.float64).T
    halves = [each / 2 for each in freedom.tolist()]
    logs = np.log(variance) - [digamma(each) - log(each) for each in halves]
    middle = float(logs.mean())
    excess = float(logs.var(ddof=1) - np.mean([trigamma(each) for each in halves]))
    if excess <= 0:
        # The variances are more alike than chance would make them: all repetitions share one variance. A case's own
        # repetitions are added later.
        return Prior(float(freedom.sum() - freedom.mean()), float(np.average(variance, weights=freedom)))
    half = inverse_trigamma(excess)
    return Prior(2 * half, float(np.exp(middle + digamma(half) - np.log(half))))
