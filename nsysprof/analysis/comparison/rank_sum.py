"""Compare two sides that were not measured in turn: the rank-sum test, Cliff's delta, and thresholds for both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.sampling.rank_tests import mann_whitney
from nsysprof.arrays import Floats

# Cliff's delta from which a difference counts as "medium" (Romano et al., 2006).
LEAST_DELTA = 0.33
# With fewer blocks, no arrangement of the two samples is rarer than 5 %.
LEAST_BLOCKS = 4


@dataclass(frozen=True)
class RankSum:
    """The result of a rank-sum test of the candidate's blocks against the baseline's."""

    # Two-sided p of a Mann-Whitney test.
    p: float
    # Cliff's delta, positive where the candidate takes longer.
    delta: float


def compare_medians(baseline: Floats, candidate: Floats) -> RankSum | None:
    """Return the test of the two sides' block medians; None where there are too few blocks."""
    if min(len(baseline), len(candidate)) < LEAST_BLOCKS or np.median(baseline) <= 0:
        return None
    if np.ptp(np.concatenate([baseline, candidate])) == 0:
        return RankSum(1.0, 0.0)
    u, p = mann_whitney(candidate, baseline)
    return RankSum(p, 2 * u / (len(baseline) * len(candidate)) - 1)
