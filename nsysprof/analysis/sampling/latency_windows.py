"""Compare the duration of a program's steps before, during and after a recording."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nsysprof.analysis.comparison.median_ratio import ratio_with_interval
from nsysprof.results.recorded_part import LatencyWindow, LatencyWindows, Ratio
from nsysprof.results.samples import median_interval


def summarize_window(durations_ns: Sequence[int | None], wall_ns: int) -> LatencyWindow:
    """Return the median, the 90th percentile and an interval for the median of these steps."""
    in_order = [value for value in durations_ns if value is not None]
    known, (low, high) = sorted(in_order), median_interval(in_order) or (None, None)
    return LatencyWindow(
        steps=len(durations_ns),
        wall_ns=wall_ns,
        median_ns=_quantile(known, 0.5),
        p90_ns=_quantile(known, 0.9),
        median_low_ns=low,
        median_high_ns=high,
    )


def compare_windows(
    told_by: str, before: LatencyWindow | None, during: LatencyWindow | None, after: LatencyWindow | None
) -> LatencyWindows:
    """Return the three windows, with the ratios of the later ones to the window before the recording."""
    unknown = ""
    if before is None or after is None:
        unknown = "With --watch 0, nothing was watched before and after the recording."
    elif before.median_ns is None or after.median_ns is None:
        unknown = "no step ended before the recording, or none ended after it."
    return LatencyWindows(told_by, unknown, before, during, after, _ratio(during, before), _ratio(after, before))


def _ratio(new: LatencyWindow | None, old: LatencyWindow | None) -> Ratio | None:
    if new is None or old is None or not new.median_ns or not old.median_ns:
        return None
    return ratio_with_interval(old.median_ns, _bounds(old), new.median_ns, _bounds(new))


def _bounds(window: LatencyWindow) -> tuple[int, int] | None:
    """Return the interval of a median; None where it reaches down to nothing, because a ratio has no bound then."""
    low, high = window.median_low_ns, window.median_high_ns
    return None if low is None or high is None or low <= 0 else (low, high)


def _quantile(values: Sequence[int], share: float) -> int | None:
    if not values:
        return None
    place = (len(values) - 1) * share
    low, high = values[math.floor(place)], values[math.ceil(place)]
    return round(low + (high - low) * (place - math.floor(place)))
