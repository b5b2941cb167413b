"""Compute the ratio of two medians with its interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# With fewer instances, the smallest and largest do not enclose the median with 95 % confidence.
LEAST_INSTANCES = 6
_NORMAL_95 = 1.96


def ratio_of_medians(old: Sequence[int], new: Sequence[int]) -> tuple[float, float | None, float | None]:
    """Return how many times the median of `old` fits into the median of `new`, with its 95 % interval.

    The bounds are None where there are too few values.

    The interval of each median comes from order statistics; the two are combined on the scale of logarithms.

    old, new: sorted values above zero.
    """
    if min(len(old), len(new)) < LEAST_INSTANCES:
        return statistics.median(new) / statistics.median(old), None, None
    (low_old, middle_old, high_old), (low_new, middle_new, high_new) = _median_interval(old), _median_interval(new)
    ratio = middle_new / middle_old
    down = math.hypot(math.log(middle_new / low_new), math.log(high_old / middle_old))
    up = math.hypot(math.log(high_new / middle_new), math.log(middle_old / low_old))
    return ratio, ratio * math.exp(-down), ratio * math.exp(up)


def _median_interval(values: Sequence[int]) -> tuple[float, float, float]:
    """Return the lower bound, the median and the upper bound at 95 % of sorted values."""
    reach = _NORMAL_95 * math.sqrt(len(values)) / 2
    low = max(0, math.floor(len(values) / 2 - reach))
    return values[low], statistics.median(values), values[len(values) - 1 - low]
