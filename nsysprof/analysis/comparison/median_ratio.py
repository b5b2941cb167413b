"""Compute the ratio of two medians with its 95 % interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from nsysprof.results.samples import correlated_error, median_interval, student_t_975

# With fewer values, the smallest and the largest do not enclose the median with 95 % confidence.
LEAST_INSTANCES = 6


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
