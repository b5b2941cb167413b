"""Define how the latency of cases changed over the runs of a results database."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class HistoryState(StrEnum):
    """How the newest run of a case compares with the run before it under the same conditions."""

    # Changed by more than the intervals of both runs.
    CHANGED = "changed"
    SAME = "same"
    # A run has no interval.
    UNSURE = "unsure"
    # There is no time in the newest run, or no run to compare it with.
    ALONE = "alone"


@dataclass(frozen=True)
class HistoryPoint:
    """One case in one run.

    created_utc: when the run began.
    status: `ok`, or why there is no time.
    median_ns, low_ns, high_ns: the median with its 95 % interval within the run (ns); None where unknown.
    conditions: everything that must be equal for two times to be comparable, such as GPU, driver and caches.
    setup: the GPU and torch, as text.
    overlaps_before: whether its interval overlaps the interval of the timed run before it under the same conditions;
        None where one has no interval.
    """

    created_utc: str
    status: str
    median_ns: float | None
    low_ns: float | None
    high_ns: float | None
    samples: int | None
    conditions: str
    setup: str
    overlaps_before: bool | None = None


@dataclass(frozen=True)
class CaseHistory:
    """One case over all runs, the oldest first."""

    name: str
    points: tuple[HistoryPoint, ...]
    # The result of judge_history.
    state: HistoryState = HistoryState.ALONE
    # Whether the intervals of the newest and the oldest comparable run overlap; None where one has no interval.
    overlaps_oldest: bool | None = None

    @property
    def timed(self) -> tuple[HistoryPoint, ...]:
        """Return the points that have a time."""
        return tuple(point for point in self.points if point.median_ns is not None)

    def comparable(self) -> tuple[HistoryPoint, ...]:
        """Return the timed points under the conditions of the newest one."""
        timed = self.timed
        return tuple(point for point in timed if point.conditions == timed[-1].conditions)

    def latest(self) -> tuple[HistoryPoint, HistoryPoint] | None:
        """Return the newest run and the one before it under the same conditions, the earlier first; None without."""
        timed = self.comparable() if self.timed else ()
        is_newest = bool(timed) and timed[-1] is self.points[-1]
        return (timed[-2], timed[-1]) if len(timed) > 1 and is_newest else None

    def change_pct(self, earlier: HistoryPoint, later: HistoryPoint) -> float | None:
        """Return by how much the median grew (percent); None between different conditions or where one is unknown."""
        if earlier.conditions != later.conditions or not earlier.median_ns or later.median_ns is None:
            return None
        return 100 * (later.median_ns / earlier.median_ns - 1)
