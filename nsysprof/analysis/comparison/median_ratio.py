"""Compute the ratio of two medians with its 95 % interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# With fewer values, the smallest and the largest do not enclose the median with 95 % confidence.
LEAST_INSTANCES = 6
_NORMAL_95 = 1.96


def ratio_of_medians(old: Sequence[int], new: Sequence[int]) -> tuple[float, float | None, float | None]:
    """Return the median of `new` divided by the median of `old`, with its 95 % interval.

    The bounds are None where there are too few values. The interval of each median comes from order statistics, and the
    two are combined on a logarithmic scale.

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
    """Return lower bound, median and upper bound (95 %) of sorted values."""
    reach = _NORMAL_95 * math.sqrt(len(values)) / 2
    low = max(0, math.floor(len(values) / 2 - reach))
    return values[low], statistics.median(values), values[len(values) - 1 - low]
