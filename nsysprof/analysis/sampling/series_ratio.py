"""Compute the ratio of two medians, of two series or of one in which a part differs, with its 95 % interval.

The steps of a running program are one series if it is recorded for a while. Neighbours share slow deviations, across
the switch too, so that the ratio is known better than from two series of their own.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from nsysprof.analysis.sampling.student_t import t_isf, t_sf
from nsysprof.arrays import Floats
from nsysprof.results.samples import correlated_error, median_interval, student_t_975

# The correlations of neighbours that are considered, closer to each other where they matter more.
_CORRELATIONS = np.concatenate((np.arange(-0.5, 0.8, 0.05), np.arange(0.8, 0.9, 0.025), np.arange(0.9, 0.996, 0.01)))
_HALVINGS = 20
# With fewer values, the smallest and the largest do not enclose the median with 95 % confidence.
LEAST_INSTANCES = 6


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


def ratio_of_medians(old: Sequence[int], new: Sequence[int]) -> tuple[float, float | None, float | None]:
    """Return the median of `new` divided by the median of `old`, with its 95 % interval.

    The bounds are None where there are too few values. It is a t interval on the scale of logarithms, of the errors of
    both medians, with the degrees of freedom that both have together. Values that resemble their neighbours have a
    larger error.

    old, new: values above zero, in the order in which they were measured.
    """
    before, after = statistics.median(old), statistics.median(new)
    errors = [_error(values, middle) for values, middle in ((old, before), (new, after))]
    known = [pair for pair in errors if pair is not None]
    if len(known) < len(errors):
        return after / before, None, None
    total = math.hypot(*(error for error, _ in known))
    reach = total * student_t_975(_freedom(*known[0], *known[1]))
    return after / before, after / before * math.exp(-reach), after / before * math.exp(reach)


def _freedom(error: float, own: float, other_error: float, others: float) -> float:
    """Return the degrees of freedom of the sum of two squared errors.

    It is Welch's first formula (1947), whose terms are unbiased. Errors with few degrees of freedom differ by chance,
    and the larger one would then decide alone, so that the interval is too wide: their ratio is shrunk towards 1 by as
    much of it as chance explains.

    own, others: the degrees of freedom of each error.
    """
    if error == 0 or other_error == 0:
        return max(1.0, own if other_error == 0 else others)
    ratio, chance = 2 * math.log(error / other_error), 2 / own + 2 / others
    part = math.exp(ratio * max(0.0, 1 - chance / ratio**2)) if ratio else 1.0
    return max(1.0, (part + 1) ** 2 / (part**2 / (own + 2) + 1 / (others + 2)) - 2)


def _error(values: Sequence[int], middle: float) -> tuple[float, float] | None:
    """Return the relative standard error of a median and its degrees of freedom; None for too few values."""
    bounds, correlated = median_interval(values), correlated_error(values)
    if bounds is None:
        return None
    if correlated is not None:
        return correlated[0] / middle, correlated[1]
    freedom = len(values) - 1.0
    return (bounds[1] - bounds[0]) / 2 / middle / student_t_975(freedom), freedom


def ratio_with_interval(
    old: float, old_bounds: tuple[float, float] | None, new: float, new_bounds: tuple[float, float] | None
) -> tuple[float, float | None, float | None]:
    """Return new over old, two medians above zero, with the interval that the intervals of both give together."""
    if old_bounds is None or new_bounds is None:
        return new / old, None, None
    (old_low, old_high), (new_low, new_high) = ((max(1, low), high) for low, high in (old_bounds, new_bounds))
    down = math.hypot(math.log(new / new_low), math.log(old_high / old))
    up = math.hypot(math.log(new_high / new), math.log(old / old_low))
    return new / old, new / old * math.exp(-down), new / old * math.exp(up)
