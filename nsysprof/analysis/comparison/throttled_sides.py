"""Withdraw a verdict that throttling may have caused, because one side was throttled clearly more than the other."""

from __future__ import annotations

from dataclasses import replace

from nsysprof.analysis.sampling.significance import THROTTLE_GAP
from nsysprof.results.comparison import THROTTLED, LatencyChange, LatencyVerdict

# The lowest clock of a GPU is about a sixth of its highest (an H200: 345 of 1,980 MHz).
_MOST = 6
METHOD = (
    f"where one side was throttled in over {100 * THROTTLE_GAP:g} % more of its samples than the other, it is not "
    "called slower or the same, since without that it may be faster, unless it takes over "
    f"{_MOST} times as long, which is more than clocks explain"
)
_NEXT_STEP = "Let the GPU cool down, or measure at the clock that it can hold: bench --sustained."


def doubt_throttled(change: LatencyChange, baseline: float, candidate: float) -> LatencyChange:
    """Return the change, or an INCONCLUSIVE one where throttling may explain its verdict.

    baseline, candidate: the share of each side's samples during which the GPU was throttled, from 0 to 1.
    """
    gap = candidate - baseline
    unsound = {LatencyVerdict.SAME, LatencyVerdict.SLOWER if gap > 0 else LatencyVerdict.FASTER}
    if abs(gap) <= THROTTLE_GAP or change.verdict not in unsound or _is_beyond_clocks(change, gap):
        return change
    reason = f"{THROTTLED}: {baseline:.0%} of the baseline's samples and {candidate:.0%} of the candidate's"
    return replace(change, verdict=LatencyVerdict.INCONCLUSIVE, reason=reason, next_step=_NEXT_STEP, more=None)


def _is_beyond_clocks(change: LatencyChange, gap: float) -> bool:
    """Return whether the throttled side takes more times as long than any clock explains."""
    if change.low is None or change.high is None:
        return False
    return change.low > _MOST if gap > 0 else 0 < change.high < 1 / _MOST
