"""Define LatencyWindows: how long a program's steps took before, during and after a recording."""

from __future__ import annotations

from dataclasses import dataclass

# A ratio of medians with its interval of 95 % (None: too few steps).
Ratio = tuple[float, float | None, float | None]


@dataclass(frozen=True)
class LatencyWindow:
    """The steps in one period of time."""

    steps: int
    wall_ns: int
    # The durations of those steps for which one is known; None where there are none.
    median_ns: int | None
    p90_ns: int | None
    # An interval of 95 % for the median of further steps; None with fewer than six.
    median_low_ns: int | None
    median_high_ns: int | None


@dataclass(frozen=True)
class LatencyWindows:
    """Three periods of time. Ratios are to the median before the recording; None where one is unknown."""

    # How steps are counted; empty where they are unknown, and then `unknown` says why.
    told_by: str
    unknown: str
    before: LatencyWindow | None = None
    during: LatencyWindow | None = None
    after: LatencyWindow | None = None
    during_ratio: Ratio | None = None
    after_ratio: Ratio | None = None
