"""Turn the samples of a case into units that vary independently (processes or runs), each with its blocks."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from nsysprof.analysis.sampling.student_t import average_ranks
from nsysprof.arrays import Floats
from nsysprof.attention.shape import Case
from nsysprof.results.comparison import Measured
from nsysprof.results.samples import steady_samples

# How much two runs may differ beyond their processes (another hour, another board) where each side is one run
# (percent): for times of the GPU, and for times that the CPU determines. On H200s, 1.8 % was seen, and 5 % (once 36 %)
# in launch-bound cases.
RUN_FLOOR_PCT, HOST_RUN_FLOOR_PCT = 2.0, 10.0
# The fewest samples of a stretch of short calls.
_LEAST_STRETCH = 5
# The fewest stretches of a short series. With fewer, a test has too little to decide by.
_FEWEST = 8


@dataclass(frozen=True)
class MeasuredUnits:
    """One side of a case: the log medians of the blocks of each unit (process or run)."""

    blocks: tuple[Floats, ...]

    @property
    def levels(self) -> Floats:
        """Return the log median of each unit."""
        return np.array([np.median(blocks) for blocks in self.blocks])

    @property
    def flat(self) -> Floats:
        return np.concatenate(self.blocks)


@dataclass(frozen=True)
class MeasuredPair:
    """A case that both sides measured."""

    key: Case
    baseline: MeasuredUnits
    candidate: MeasuredUnits
    # The assumed difference (percent) that 95 % of pairs of runs of the same code stay below.
    run_floor_pct: float = 0.0
    # Whether the host determines the time.
    host_bound: bool = False

    @property
    def freedom(self) -> int:
        return len(self.baseline.blocks) + len(self.candidate.blocks) - 2

    @property
    def deviations(self) -> Floats:
        """Return the level of each unit minus the mean of its side."""
        return np.concatenate([side.levels - side.levels.mean() for side in (self.baseline, self.candidate)])

    @property
    def spread(self) -> float:
        return float((self.deviations**2).sum()) / self.freedom if self.freedom else 0.0


def units_of(key: Case, inputs: Sequence[Mapping[Case, Measured]], by_runs: bool) -> MeasuredUnits:
    """Return one side of a case over its inputs.

    by_runs: whether a unit is a whole input (run) instead of a process.
    """
    units: list[Floats] = []
    for cases in inputs:
        if key not in cases:
            continue
        measured = cases[key]
        blocks = [_blocks(process, measured.in_order) for process in measured.processes]
        units += [np.concatenate(blocks)] if by_runs else blocks
    return MeasuredUnits(tuple(units))


def run_floor(key: Case, inputs: Sequence[Mapping[Case, Measured]]) -> float:
    """Return by how much two runs of the same code are assumed to differ (percent)."""
    return HOST_RUN_FLOOR_PCT if is_host_bound(key, inputs) else RUN_FLOOR_PCT


def is_host_bound(key: Case, inputs: Sequence[Mapping[Case, Measured]]) -> bool:
    """Return whether the host determines the time of a case in any input."""
    return any(cases[key].host_bound for cases in inputs if key in cases)


def _blocks(process: Sequence[Sequence[int]], in_order: bool) -> Floats:
    """Return the log medians of the blocks of one process. One long sequence of samples is cut into stretches."""
    cut = [stretch for block in process for stretch in cut_stretches(block)] if in_order else process
    # The first sample of a block finds cold caches; that of a stretch is like the others.
    counted = cut if in_order else [steady_samples(block) for block in cut]
    return np.log([max(1.0, statistics.median(block)) for block in counted])


def cut_stretches(values: Sequence[int]) -> list[Sequence[int]]:
    """Return consecutive samples cut into stretches whose medians are nearly independent.

    A stretch has as many samples as the square root of their number, or twice the integrated autocorrelation time
    (Geyer's initial positive sequence), whichever is larger. The last stretch also takes what is left over.
    """
    return _cut(values, max(_LEAST_STRETCH, int(np.sqrt(len(values))), int(np.ceil(2 * _autocorrelation_time(values)))))


def cut_shortest_stretches(values: Sequence[int], most: int) -> list[Sequence[int]]:
    """Return consecutive samples cut into 8 to `most` stretches.

    A stretch is twice the autocorrelation time if possible. This is meant for few and long samples, such as training
    steps, and not for thousands of calls back to back. The autocorrelation of a dozen samples is little more than a
    guess, so it must not leave too few stretches for a test; how much runs differ is considered separately.
    """
    length = min(int(np.ceil(2 * _autocorrelation_time(values))), len(values) // _FEWEST)
    return _cut(values, max(1, length, -(-len(values) // most)))


def _cut(values: Sequence[int], length: int) -> list[Sequence[int]]:
    count = len(values)
    pieces = max(1, count // length)
    edges = [index * length for index in range(pieces)] + [count]
    return [values[first:last] for first, last in pairwise(edges)]


def _autocorrelation_time(values: Sequence[int]) -> float:
    """Return the autocorrelation time in samples, at least 1.

    It is computed from ranks, so that outliers do not hide it.
    """
    ranks = average_ranks(values) - (len(values) + 1) / 2
    power = float((ranks**2).sum())
    if len(values) < 8 or power == 0:
        return 1.0
    lags = np.array([float((ranks[: len(ranks) - lag] * ranks[lag:]).sum()) / power for lag in range(len(ranks) // 2)])
    pairs = lags[: len(lags) // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = pairs[: int(np.argmax(pairs <= 0))] if (pairs <= 0).any() else pairs
    return max(1.0, float(2 * positive.sum() - 1))
