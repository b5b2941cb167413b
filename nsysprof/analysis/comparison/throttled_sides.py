"""Withdraw a verdict that throttling may have caused, because one side was throttled clearly more than the other."""

from __future__ import annotations

from dataclasses import replace

from nsysprof.analysis.sampling.significance import THROTTLE_GAP
from nsysprof.results.comparison import THROTTLED, LatencyChange, LatencyVerdict

METHOD = (
    f"where one side was throttled in over {100 * THROTTLE_GAP:g} % more of its samples than the other, it is not "
    "called slower or the same, since without that it may be faster"
)
_NEXT_STEP = "Let the GPU cool down, or measure at the clock that it can hold: bench --sustained."


def doubt_throttled(change: LatencyChange, baseline: float, candidate: float) -> LatencyChange:
    """Return the change, or an INCONCLUSIVE one where throttling may explain its verdict.

    baseline, candidate: the share of each side's samples during which the GPU was throttled, from 0 to 1.
    """
    gap = candidate - baseline
    unsound = {LatencyVerdict.SAME, LatencyVerdict.SLOWER if gap > 0 else LatencyVerdict.FASTER}
    if abs(gap) <= THROTTLE_GAP or change.verdict not in unsound:
        return change
    reason = f"{THROTTLED}: {baseline:.0%} of the baseline's samples and {candidate:.0%} of the candidate's"
    return replace(change, verdict=LatencyVerdict.INCONCLUSIVE, reason=reason, next_step=_NEXT_STEP, more=None)
