"""Define the ranking of backends with equal work, as far as the measurement can tell. The analysis makes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Two medians of one process that differ by less than this (percent) count as equal. Intervals within one process say
# nothing about the variation between processes: the same cuDNN kernel, called by two names in one capture, had medians
# 0.5 % apart with intervals that did not overlap.
LEAST_DIFFERENCE_PCT = 2


@dataclass(frozen=True)
class RankedCase:
    """One timed case in a ranking."""

    # The row of the case in the record's results.
    position: int
    backend: str
    # The untraced latency (ns); the bounds are None where unknown.
    median_ns: float
    low_ns: float | None
    high_ns: float | None
    # Its median divided by the fastest one's.
    times_best: float
    # The kernel time of a call (ns); None without a trace of it.
    kernel_ns: float | None
    # Whether the CPU's dispatch determines its latency, and not its kernels.
    is_launch_bound: bool


@dataclass(frozen=True)
class CaseRanking:
    """The ranking of cases with equal work: one shape of the grid."""

    # The dimensions that the grid varies and these cases share, by column of results.csv.
    shape: Mapping[str, object]
    # The rows of all cases that ran, in the grid's order.
    positions: tuple[int, ...]
    # The fastest case, then the cases that cannot be distinguished from it. Empty where none was timed.
    fastest: tuple[RankedCase, ...]
    # The others, the fastest first.
    slower: tuple[RankedCase, ...]
    # The timed cases that differ from the fastest only by the CPU's dispatch.
    dispatch_bound: tuple[RankedCase, ...]
