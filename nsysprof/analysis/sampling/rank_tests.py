"""Compute rank statistics: the Mann-Whitney test of two samples, Kendall's test of a trend, and the Theil-Sen slope.

The rules are those of scipy: exact probabilities where samples are small and have no ties, else a normal approximation
with corrections for ties. The tests compare every function with scipy's.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import numpy.typing as npt

from nsysprof.analysis.sampling.student_t import normal_sf
from nsysprof.arrays import Floats

# Up to this size of the smaller sample, and this size of both together, probabilities are exact.
_EXACT_SAMPLE, _EXACT_TREND = 8, 33


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
