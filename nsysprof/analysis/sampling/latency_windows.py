"""Compare the duration of a program's steps before, during and after a recording."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nsysprof.results.programs.latency_windows import LatencyWindow, LatencyWindows, Ratio

_Z = 1.959964  # quantile for a two-sided interval of 95 %
_LEAST = 6  # with fewer values, the smallest and the largest do not enclose the median in 95 % of cases


def summarize_window(durations_ns: Sequence[int | None], wall_ns: int) -> LatencyWindow:
    """Return the median and the 90th percentile of the durations in one window, and an interval for the median."""
    known = sorted(value for value in durations_ns if value is not None)
    low = high = None
    if len(known) >= _LEAST:
        half = _Z * math.sqrt(len(known)) / 2
        low = known[max(0, math.floor(len(known) / 2 - half))]
        high = known[min(len(known) - 1, math.ceil(len(known) / 2 + half))]
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
    ratio = new.median_ns / old.median_ns
    if not (new.median_low_ns and new.median_high_ns and old.median_low_ns and old.median_high_ns):
        return (ratio, None, None)
    return (ratio, new.median_low_ns / old.median_high_ns, new.median_high_ns / old.median_low_ns)


def _quantile(values: Sequence[int], share: float) -> int | None:
    if not values:
        return None
    place = (len(values) - 1) * share
    low, high = values[math.floor(place)], values[math.ceil(place)]
    return round(low + (high - low) * (place - math.floor(place)))
