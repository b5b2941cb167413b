"""Compute how many runs or processes of each side would find a difference of a given size."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from nsysprof.analysis.sampling.significance import ALPHA, LEAST_PCT, POWER
from nsysprof.analysis.sampling.student_t import nct_sf, normal_sf, t_isf

NORMAL_95 = 1.960  # quantile of the absolute value of a standard normal
MOST_FREEDOM = 1e6
MEDIAN_COST = np.sqrt(np.pi / 2)  # the standard deviation of a median relative to a mean's
# The noise floor of medians of n units, in standard errors of a difference of means. It is a second condition beside
# the test.
_FLOOR_ERRORS = NORMAL_95 * float(MEDIAN_COST)
MOST_UNITS = 1000


def units_needed(deviation: float, margin_pct: float, tests: int, between_runs: float = 0.0) -> int:
    """Return how many units each side needs to find a difference of the margin with a power of 80 %; at most 1001.

    The difference must be found by the t test, which asks whether it is beyond LEAST_PCT, and exceed the noise floor of
    that many units.

    deviation: the standard deviation of a unit's log median.
    tests: the number of cases; where one of them differs, the correction asks it for alpha / tests.
    between_runs: the standard deviation of the difference between two runs, which more units of a run do not reduce.
    """
    wanted = float(np.log1p(margin_pct / 100))
    beyond = wanted - float(np.log1p(LEAST_PCT / 100))
    alpha = ALPHA / max(1, tests)
    if between_runs > 0 and normal_sf(t_isf(alpha / 2, MOST_FREEDOM) - beyond / between_runs) < POWER:
        return MOST_UNITS + 1

    def is_enough(count: int) -> bool:
        measured = deviation**2 * 2 / count
        total = measured + between_runs**2
        if total == 0:
            return True
        freedom = (2 * count - 2) * (total / measured) ** 2 if measured > 0 else MOST_FREEDOM
        freedom, error = min(freedom, MOST_FREEDOM), float(np.sqrt(total))
        tested = nct_sf(float(t_isf(alpha / 2, freedom)), freedom, beyond / error)
        above_floor = nct_sf(_FLOOR_ERRORS * float(np.sqrt(measured)) / error, freedom, wanted / error)
        return min(tested, above_floor) >= POWER

    return 2 + bisect_left(range(2, MOST_UNITS + 1), True, key=is_enough)  # the power grows with the number of units
