"""Compute the interval of a median of samples: the raw timed values of one case in one process.

The interval covers the median of further calls in that process. Successive samples may be similar, because clocks and
caches change slowly; they then count as fewer independent ones.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

# Below this many standard errors, a correlation of neighbours may be chance.
_CHANCE = 2.0
_MOST_CORRELATION = 0.98
# The 97.5th percentile of Student's t by degrees of freedom; between them its logarithm is linear in their reciprocal.
_T = ((1.0, 12.706), (1.25, 8.0280), (1.5, 6.0167), (2.0, 4.3027), (2.5, 3.5747), (3.0, 3.1824), (4.0, 2.7764),
      (5.0, 2.5706), (7.0, 2.3646), (10.0, 2.2281), (20.0, 2.0860), (60.0, 2.0003), (math.inf, 1.9600))  # fmt: skip


def median_interval(values: Sequence[int], confidence: float = 0.95) -> tuple[int, int] | None:
    """Return an interval of the median, for further calls in the same process; None below six samples.

    It comes from order statistics: the k-th smallest and k-th largest of n samples enclose the median with probability
    1 - 2 P(Binomial(n, 1/2) < k) (Conover, Practical Nonparametric Statistics, 3.2), interpolated to 95 %. Where
    neighbours are alike, it reaches at least as far as a t interval with the number of independent samples that they
    are worth.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail, best, cover, next_cover = 0.0, 0, 1.0, 1.0
    # Ranks further than ten deviations from the middle have no probability.
    for k in range(max(1, n // 2 - math.ceil(5 * math.sqrt(n))), n // 2 + 1):
        tail += math.exp(math.lgamma(n + 1) - math.lgamma(k) - math.lgamma(n - k + 2) - n * math.log(2))
        next_cover = 1 - 2 * tail
        if next_cover < confidence:
            break
        best, cover = k, next_cover
    if not best:
        return None
    # Between the last pair that is wide enough and the first that is not (Hettmansperger and Sheather, 1986).
    part = (cover - confidence) / (cover - next_cover) if next_cover < confidence else 0.0
    part = (n - best) * part / (best + (n - 2 * best) * part)
    low = ordered[best - 1] + part * (ordered[best] - ordered[best - 1])
    high = ordered[n - best] - part * (ordered[n - best] - ordered[n - best - 1])
    correlated, middle = correlated_error(values), statistics.median(ordered)
    reach = 0.0 if correlated is None else correlated[0] * student_t_975(correlated[1])
    # A time is not negative, however little is known of it.
    return max(0, math.floor(min(low, middle - reach))), math.ceil(max(high, middle + reach))


def correlated_error(values: Sequence[int]) -> tuple[float, float] | None:
    """Return the standard error of the median of samples that resemble their neighbours, and its degrees of freedom.

    It is None where they do not.

    The samples are modelled as a first-order process. Its correlation, variance and degrees of freedom are corrected
    for the small number of samples; docs/calibration.md shows the resulting coverage.
    """
    n, mean = len(values), statistics.fmean(values)
    deviations = [value - mean for value in values]
    squares = sum(each * each for each in deviations)
    if squares == 0:
        return None
    lagged = sum(one * other for one, other in pairwise(deviations)) / squares
    rho = min(_MOST_CORRELATION, (n * lagged + 1) / (n - 5)) if n > 5 else 0.0
    if rho < _CHANCE / math.sqrt(n):
        return None
    # 1 + 2 times the sum of (1 - lag / n) rho^lag over all lags below n.
    inflation = 1 + 2 * (rho / (1 - rho) - rho * (1 - rho**n) / (n * (1 - rho) ** 2))
    independent = n / inflation
    variance = squares / n / (1 - 1 / independent) if independent > 1.05 else 20 * squares / n
    # The median of independent samples varies more than their mean, by pi / 2; what neighbours share does not.
    error = math.sqrt(variance / n * (inflation - 1 + math.pi / 2))
    return error, max(1.0, 0.8 * independent - 1)


def student_t_975(freedom: float) -> float:
    """Return the 97.5th percentile of Student's t, for at least one degree of freedom, to within 2 %."""
    place = min(max(1, bisect_left([each for each, _ in _T], freedom)), len(_T) - 1)
    (low, first), (high, last) = _T[place - 1], _T[place]
    part = (1 / low - 1 / freedom) / (1 / low - 1 / high)
    return math.exp(math.log(first) + part * (math.log(last) - math.log(first)))
