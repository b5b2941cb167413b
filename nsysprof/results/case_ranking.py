"""Define which backend is fastest for equal work, as far as the measurement can tell. The analysis decides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Two medians of one process that differ by less are not told apart. Intervals within one process say nothing of the
# spread between processes: the same cuDNN kernel, called by two names in one capture, gave medians 0.5 % apart with
# intervals that did not overlap.
LEAST_DIFFERENCE_PCT = 2


@dataclass(frozen=True)
class RankedCase:
    """One timed case."""

    # Its row in the record's results.
    position: int
    backend: str
    # The untraced latency; the bounds are None where they are unknown.
    median_ns: float
    low_ns: float | None
    high_ns: float | None
    # Its median divided by the fastest one's.
    times_best: float
    # The kernel time of a call; None without a trace of it.
    kernel_ns: float | None
    # Whether its latency is the CPU's dispatch and not its kernels.
    is_launch_bound: bool


@dataclass(frozen=True)
class CaseRanking:
    """Cases that do equal work: one shape of the grid."""

    # What the grid varies and these cases share, by column of results.csv.
    shape: Mapping[str, object]
    # The rows of all cases that ran, in the grid's order.
    positions: tuple[int, ...]
    # The fastest case, then the cases that cannot be distinguished from it. Empty where none was timed.
    fastest: tuple[RankedCase, ...]
    # The others, the fastest first.
    slower: tuple[RankedCase, ...]
    # The timed cases that differ from the fastest only by the CPU's dispatch.
    dispatch_bound: tuple[RankedCase, ...]
