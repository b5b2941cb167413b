"""Compute the interval of a median of samples, which are the raw timed values of one case in one process."""

from __future__ import annotations

import math
from collections.abc import Sequence


def median_interval(values: Sequence[int], confidence: float = 0.95) -> tuple[int, int] | None:
    """Return a distribution-free interval of the median from order statistics, at least `confidence` wide.

    The k-th smallest and k-th largest of n samples enclose the median with probability
    1 - 2 P(Binomial(n, 1/2) < k) (Conover, Practical Nonparametric Statistics, 3.2). None below six samples, where no
    pair reaches 95 %.
    """
    ordered = sorted(values)
    n = len(ordered)
    tail, best = 0.0, 0
    for k in range(1, n // 2 + 1):
        tail += math.exp(math.lgamma(n + 1) - math.lgamma(k) - math.lgamma(n - k + 2) - n * math.log(2))
        if 1 - 2 * tail < confidence:
            break
        best = k
    return (ordered[best - 1], ordered[n - best]) if best else None
