"""Compute the ratio of two medians with its 95 % interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from nsysprof.results.samples import correlated_error, median_interval, student_t_975

# With fewer values, the smallest and the largest do not enclose the median with 95 % confidence.
LEAST_INSTANCES = 6
_NORMAL_975 = 1.96


def ratio_of_medians(old: Sequence[int], new: Sequence[int]) -> tuple[float, float | None, float | None]:
    """Return the median of `new` divided by the median of `old`, with its 95 % interval.

    The bounds are None where there are too few values. It is a t interval on the scale of logarithms, of the errors of
    both medians, with Welch's degrees of freedom. Values that resemble their neighbours have a larger error.

    old, new: values above zero, in the order in which they were measured.
    """
    before, after = statistics.median(old), statistics.median(new)
    errors = [_error(values, middle) for values, middle in ((old, before), (new, after))]
    known = [each for each in errors if each is not None]
    if len(known) < len(errors):
        return after / before, None, None
    total = math.hypot(*(error for error, _ in known))
    freedom = total**4 / sum(error**4 / own for error, own in known) if total else 1.0
    reach = total * student_t_975(max(1.0, freedom))
    return after / before, after / before * math.exp(-reach), after / before * math.exp(reach)


def _error(values: Sequence[int], middle: float) -> tuple[float, float] | None:
    """Return the relative standard error of a median and its degrees of freedom; None for too few values."""
    bounds, correlated = median_interval(values), correlated_error(values)
    if bounds is None:
        return None
    if correlated is not None:
        return correlated[0] / middle, correlated[1]
    # The interval spans this many gaps between values; its width is known as well as from that many values.
    freedom = max(1.0, min(len(values) - 1.0, _NORMAL_975 * math.sqrt(len(values))))
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
