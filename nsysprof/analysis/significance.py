"""Whether two cells of equal work differ: a test on medians of blocks, an effect size, and the machine's own noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from nsysprof.analysis.latency import Floats

ALPHA = 0.05
LEAST_DELTA = 0.33  # Cliff's delta: from here on "medium" (Romano et al., 2006)
METHOD = (
    "two cells differ where a two-sided Mann-Whitney test of their blocks' medians, corrected by Holm over all "
    "comparisons, gives p < 0.05, Cliff's delta is at least 0.33, and their medians differ by more than the noise floor"
)
_FLOOR_QUANTILE = 0.95
_LEAST_PAIRS = 20
_NORMAL_95, _NORMAL_50 = 1.960, 0.6745  # of the absolute value of a standard normal
LEAST_BLOCKS = 4  # below, no arrangement of two samples of blocks is rarer than 5 %


class Verdict(StrEnum):
    """Of a candidate against a baseline."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "tie"
    UNKNOWN = "too few samples"


@dataclass(frozen=True)
class Comparison:
    """ratio: the candidate's median over the baseline's. p: of the test, p_holm: corrected. delta: Cliff's, positive
    where the candidate takes longer."""

    ratio: float
    p: float
    delta: float
    p_holm: float = 1.0
    verdict: Verdict = Verdict.UNKNOWN


def compare_medians(baseline: Floats, candidate: Floats) -> Comparison | None:
    """Of medians of blocks. The verdict is still open; None where there are too few blocks for any."""
    if min(len(baseline), len(candidate)) < LEAST_BLOCKS or np.median(baseline) <= 0:
        return None
    ratio = float(np.median(candidate) / np.median(baseline))
    if np.ptp(np.concatenate([baseline, candidate])) == 0:
        return Comparison(ratio, 1.0, 0.0)
    from scipy import stats

    test = stats.mannwhitneyu(candidate, baseline, alternative="two-sided")
    delta = 2 * float(test.statistic) / (len(baseline) * len(candidate)) - 1
    return Comparison(ratio, float(test.pvalue), delta)


def decide(comparisons: Sequence[Comparison | None], floor_pct: float) -> list[Comparison | None]:
    """The same with verdicts, corrected for their number. floor_pct: the noise floor, in percent of the median."""
    known = [comparison for comparison in comparisons if comparison is not None]
    corrected = iter(holm([comparison.p for comparison in known]))
    return [None if c is None else _decide(c, next(corrected), floor_pct) for c in comparisons]


def _decide(found: Comparison, p: float, floor_pct: float) -> Comparison:
    # Equally far in either direction: a ratio of 2 is as far from 1 as a ratio of 1/2.
    beyond = 100 * abs(np.log(found.ratio)) > 100 * np.log1p(floor_pct / 100) if found.ratio > 0 else False
    differs = p < ALPHA and abs(found.delta) >= LEAST_DELTA and beyond
    verdict = (Verdict.SLOWER if found.ratio > 1 else Verdict.FASTER) if differs else Verdict.SAME
    return Comparison(found.ratio, found.p, found.delta, p, verdict)


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected by Holm's step-down procedure, in the order given."""
    order = np.argsort(p_values, kind="stable")
    corrected = np.ones(len(p_values))
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        corrected[index] = largest
    return corrected.tolist()


def noise_floor(pairs: Sequence[tuple[Floats, Floats]]) -> float | None:
    """The difference in percent that 95 % of pairs of the same code, measured twice, stay below.

    From fewer than 20 pairs, whose 95th percentile would be their worst, it is estimated from their median as that of
    normally distributed logarithms.
    """
    ratios = [np.median(b) / np.median(a) for a, b in pairs if len(a) and len(b) and np.median(a) > 0]
    if not ratios:
        return None
    distances = np.abs(np.log(ratios))
    if len(distances) >= _LEAST_PAIRS:
        return float(100 * np.expm1(np.quantile(distances, _FLOOR_QUANTILE)))
    return float(100 * np.expm1(_NORMAL_95 / _NORMAL_50 * np.median(distances)))


def halves(medians: Floats) -> tuple[Floats, Floats]:
    """A cell's blocks, every other one: the same code measured twice, interleaved. Half the blocks each, so that the
    two differ more than whole cells do, which is on the safe side."""
    return medians[0::2], medians[1::2]
