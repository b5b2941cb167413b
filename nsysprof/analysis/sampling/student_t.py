"""Compute Student's t distribution, and the noncentral one that the power of a t test needs.

scipy has these too, but takes 143 MB to install, more than numpy and pandas together. The tests compare every function
here with scipy's.
"""

from __future__ import annotations

from functools import cache, lru_cache
from math import erfc, exp, inf, isnan, lgamma, log, log1p, nan, pi, sqrt
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Floats

# Lentz's method ends when a step changes less than this; a step is never divided by less than _TINY.
_CONVERGED, _TINY, _MOST_STEPS = 1e-16, 1e-300, 20_000
# From this argument on, ln Γ(a + 1/2) - ln Γ(a) comes from its series, because the difference of two large numbers
# loses digits.
_LARGE = 100.0
# The chi distribution is cut this many deviations from its middle. This many points integrate it to 12 digits.
_REACH, _POINTS = 12.0, 160
# Up to this size of the smaller sample, and this size of both together, probabilities are exact.
_EXACT_SAMPLE, _EXACT_TREND = 8, 33


def t_sf(t: float, freedom: float) -> float:
    """Return the probability that a t variable exceeds `t`; nan without degrees of freedom, or where `t` is nan."""
    if freedom <= 0 or isnan(t):
        return nan
    if t < 0:
        return 1 - t_sf(-t, freedom)
    if t == inf:
        return 0.0
    # x and 1 - x are both computed from t, because the smaller one would lose its digits in a difference.
    x, rest = freedom / (freedom + t * t), t * t / (freedom + t * t)
    return _incomplete_beta(freedom / 2, 0.5, x, rest) / 2


@lru_cache(1024)
def t_isf(p: float, freedom: float) -> float:
    """Return the value that a t variable exceeds with the probability `p`; nan without degrees of freedom.

    It uses Newton's method from the normal quantile, which lies below the result. The tail is convex, so that no step
    goes too far. It ends before steps consist of rounding alone.

    p: above 0, at most 0.5.
    """
    if freedom <= 0:
        return nan
    if p >= 0.5:
        return 0.0
    t = -NormalDist().inv_cdf(p)
    for _ in range(200):
        step = (t_sf(t, freedom) - p) / t_density(t, freedom)
        t += step
        if abs(step) <= 1e-12 * t:
            break
    return t


def t_density(t: float, freedom: float) -> float:
    """Return the density of a t variable at `t`."""
    return exp(_log_gamma_step(freedom / 2) - (freedom + 1) / 2 * log1p(t * t / freedom)) / sqrt(freedom * pi)


def nct_sf(t: float, freedom: float, shift: float) -> float:
    """Return the probability that a noncentral t variable exceeds `t`.

    Such a variable is a normal variable around `shift`, divided by the root of a chi-squared variable over its degrees
    of freedom (1 or more). It is integrated over that root.
    """
    middle, deviation = sqrt(max(0.0, 1 - 1 / freedom)), 1 / sqrt(2 * freedom)
    low, high = max(0.0, middle - _REACH * deviation), middle + _REACH * deviation
    nodes, weights = _legendre_points()
    root = low + (high - low) * (nodes + 1) / 2
    half = freedom / 2
    density = np.exp(log(2) + half * log(half) - lgamma(half) + (freedom - 1) * np.log(root) - half * root**2)
    beyond = np.array([normal_sf(t * divisor - shift) for divisor in root.tolist()])
    return float((density * beyond * weights).sum() * (high - low) / 2)


@cache
def _legendre_points() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    return np.polynomial.legendre.leggauss(_POINTS)


def normal_sf(z: float) -> float:
    """Return the probability that a standard normal variable exceeds `z`."""
    return erfc(z / sqrt(2)) / 2


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b), where a or b is 1/2.

    rest: 1 - x.
    """
    if x == 0 or rest == 0:
        return float(rest == 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, rest, x)
    other = a if b == 0.5 else b  # a or b is always 1/2, and Γ(1/2) is the root of pi
    scale = exp(_log_gamma_step(other) - log(pi) / 2 + a * log(x) + b * (log(rest) if rest < 0.5 else log1p(-x))) / a
    return scale * _continued_fraction(a, b, x)


def _log_gamma_step(a: float) -> float:
    """Return ln Γ(a + 1/2) - ln Γ(a)."""
    if a < _LARGE:
        return lgamma(a + 0.5) - lgamma(a)
    return log(a) / 2 - 1 / (8 * a) + 1 / (192 * a**3) - 1 / (640 * a**5)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MOST_STEPS):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + step * d)
            c = _away_from_zero(1 + step / c)
            value *= c * d
        if abs(c * d - 1) <= _CONVERGED:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def average_ranks(values: npt.ArrayLike) -> Floats:
    """Return the rank of each value, from 1 on. Equal values share the mean of their ranks."""
    _, group, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    ranks: Floats = (np.cumsum(counts) - (counts - 1) / 2)[group]
    return ranks


def mann_whitney(first: Floats, second: Floats) -> tuple[float, float]:
    """Return the U statistic of the first sample and the two-sided p of a Mann-Whitney test."""
    counts = len(first), len(second)
    both = np.concatenate([first, second])
    u = float(average_ranks(both)[: counts[0]].sum()) - counts[0] * (counts[0] + 1) / 2
    most = max(u, counts[0] * counts[1] - u)
    ties = _tie_counts(both)
    if min(counts) <= _EXACT_SAMPLE and not len(ties):
        return u, min(1.0, 2 * _share_of_arrangements(min(counts), max(counts), round(most)))
    total = sum(counts)
    spread = total + 1 - float((ties**3 - ties).sum()) / (total * (total - 1))
    deviation = sqrt(counts[0] * counts[1] / 12 * spread)
    # A continuity correction, since U is a whole number.
    return u, min(1.0, 2 * normal_sf((most - counts[0] * counts[1] / 2 - 0.5) / deviation))


def kendall_p(first: Floats, second: Floats) -> float:
    """Return the two-sided p of Kendall's test that two series are unrelated. Not all values may be tied."""
    count = len(first)
    pairs = count * (count - 1) // 2
    above = np.triu_indices(count, 1)
    signs = np.sign(first[above[1]] - first[above[0]]) * np.sign(second[above[1]] - second[above[0]])
    balance = int(signs.sum())
    ties = _tie_counts(first), _tie_counts(second)
    if not len(ties[0]) and not len(ties[1]):
        fewer = (pairs - abs(balance)) // 2
        if count <= _EXACT_TREND or fewer <= 1:
            return 1.0 if balance == 0 else min(1.0, 2 * _share_of_orders(count, fewer))
    once, twice, thrice = zip(*(_tie_sums(counts) for counts in ties), strict=True)
    ordered = count * (count - 1)
    variance = (ordered * (2 * count + 5) - sum(thrice)) / 18 + 2 * once[0] * once[1] / ordered
    variance += twice[0] * twice[1] / (9 * ordered * (count - 2))
    return min(1.0, 2 * normal_sf(abs(balance) / sqrt(variance)))


def theil_sen_slope(at: Floats, values: Floats) -> float:
    """Return the median slope between any two points at different places."""
    above = np.triu_indices(len(at), 1)
    run, rise = at[above[1]] - at[above[0]], values[above[1]] - values[above[0]]
    return float(np.median(rise[run != 0] / run[run != 0]))


def _tie_counts(values: Floats) -> Floats:
    """Return how often each value occurs, for values that occur more than once."""
    counts = np.unique(values, return_counts=True)[1]
    return np.asarray(counts[counts > 1], dtype=np.float64)


def _tie_sums(ties: Floats) -> tuple[float, float, float]:
    pairs = ties * (ties - 1)
    return float(pairs.sum()) / 2, float((pairs * (ties - 2)).sum()), float((pairs * (2 * ties + 5)).sum())


def _share_of_arrangements(small: int, large: int, least: int) -> float:
    """Return the share of arrangements of two samples of these sizes whose U is at least `least`."""
    total, base = small + large, small * (small - 1) // 2
    # ways[k, s] is how many sets of k of the ranks seen so far (from 0) add up to s.
    ways = np.zeros((small + 1, base + small * large + 1))
    ways[0, 0] = 1
    for rank in range(total):
        shift = ways.shape[1] - rank
        if shift > 0:
            ways[1:, rank:] += ways[:-1, :shift].copy()
    arrangements = ways[small, base:]
    return float(arrangements[least:].sum() / arrangements.sum())


def _share_of_orders(count: int, most: int) -> float:
    """Return the share of the orders of `count` items in which at most `most` pairs are in the wrong order."""
    share = np.zeros(most + 1)
    share[0] = 1
    for size in range(2, count + 1):
        # The new item stands before 0 to size - 1 of the others, each equally likely.
        sums = np.concatenate([[0.0], np.cumsum(share)])
        first = np.maximum(np.arange(most + 1) - size + 1, 0)
        share = (sums[1:] - sums[first]) / size
    return float(share.sum())
