"""Compute the ratio of two medians of one series in which a part in between differs, with its 95 % interval.

The steps of a running program are such a series if it is recorded for a while. Neighbours share slow deviations, across
the switch too, so that the ratio is known better than from two series of their own.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from nsysprof.analysis.comparison.median_ratio import LEAST_INSTANCES, ratio_of_medians
from nsysprof.analysis.sampling.student_t import t_isf, t_sf
from nsysprof.arrays import Floats

# The correlations of neighbours that are considered, closer to each other where they matter more.
_CORRELATIONS = np.concatenate((np.arange(-0.5, 0.8, 0.05), np.arange(0.8, 0.9, 0.025), np.arange(0.9, 0.996, 0.01)))
_HALVINGS = 20


def ratio_within_run(
    before: Sequence[int], during: Sequence[int], after: Sequence[int]
) -> tuple[float, float | None, float | None]:
    """Return the median of `during` divided by the median of the others, with its 95 % interval.

    The bounds are None where there are too few values. The logarithms are modelled as two levels and a first-order
    process. Each correlation of neighbours gives a t interval (restricted maximum likelihood); what is returned is the
    interval of their mixture, weighted by how likely each correlation is, with the reference prior of Berger and Yang
    (1994).

    before, during, after: values above zero, in the order in which they were measured.
    """
    others = [*before, *after]
    if min(len(others), len(during)) < LEAST_INSTANCES:
        return ratio_of_medians(others, during)
    ratio = statistics.median(during) / statistics.median(others)
    logs = np.log(np.array([*before, *during, *after], dtype=np.float64))
    is_during = np.repeat((0.0, 1.0, 0.0), (len(before), len(during), len(after)))
    fitted = [_fit(logs, is_during, float(rho)) for rho in _CORRELATIONS]
    if min(variance for variance, _ in fitted) <= 0:  # no value differs from another
        return ratio_of_medians(others, during)
    variances, likely = (np.array(column) for column in zip(*fitted, strict=True))
    weights = np.exp(likely - likely.max()) * np.gradient(_CORRELATIONS)
    errors = np.sqrt(variances * _spread_of_contrast(len(before), len(during), len(after)))
    reach = _reach(errors, weights / weights.sum(), len(logs) - 2)
    return ratio, ratio * math.exp(-reach), ratio * math.exp(reach)


def _fit(logs: Floats, is_during: Floats, rho: float) -> tuple[float, float]:
    """Return the variance of the values around their two levels, and the logarithm of how likely a correlation is."""
    levels = np.stack((1 - is_during, is_during), axis=1)
    first = math.sqrt(1 - rho * rho)
    design = np.vstack((first * levels[:1], levels[1:] - rho * levels[:-1]))
    values = np.concatenate((first * logs[:1], logs[1:] - rho * logs[:-1]))
    crossed = design.T @ design
    left = values - design @ np.linalg.solve(crossed, design.T @ values)
    squares, freedom = float(left @ left), len(logs) - 2
    if squares <= 0:
        return 0.0, 0.0
    # The determinant of the process gives (1 - rho^2)^(1/2), and the prior is (1 - rho^2)^(-1/2).
    likely = -0.5 * freedom * math.log(squares) - 0.5 * math.log(float(np.linalg.det(crossed)))
    return squares / freedom / (1 - rho * rho), likely


def _spread_of_contrast(before: int, during: int, after: int) -> Floats:
    """Return for each correlation the variance of the difference of the two medians, as a part of a value's variance.

    The median of independent values varies more than their mean, by pi / 2; what neighbours share does not.
    """
    rho = _CORRELATIONS
    others = before + after

    def within(count: int) -> Floats:
        shared: Floats = count + 2 * rho * (count * (1 - rho) - (1 - rho**count)) / (1 - rho) ** 2
        return shared

    def between(one: int, distance: int, other: int) -> Floats:
        shared: Floats = rho ** (distance + 1) * (1 - rho**one) * (1 - rho**other) / (1 - rho) ** 2
        return shared

    mean = (within(before) + within(after) + 2 * between(before, during, after)) / others**2
    mean += within(during) / during**2
    mean -= 2 * (between(before, 0, during) + between(during, 0, after)) / (others * during)
    variance: Floats = mean + (math.pi / 2 - 1) * np.minimum(1 - rho, 1.0) * (1 / during + 1 / others)
    return variance


def _reach(errors: Floats, weights: Floats, freedom: int) -> float:
    """Return how far the 95 % interval of a mixture of t distributions reaches."""
    matter = weights > 1e-5
    quantile = t_isf(0.025, freedom)
    low, high = quantile * float(errors[matter].min()), quantile * float(errors[matter].max())
    parts = list(zip(errors[matter].tolist(), weights[matter].tolist(), strict=True))
    for _ in range(_HALVINGS):
        reach = (low + high) / 2
        outside = 2 * sum(weight * t_sf(reach / error, freedom) for error, weight in parts)
        low, high = (reach, high) if outside > 0.05 else (low, reach)
    return (low + high) / 2
