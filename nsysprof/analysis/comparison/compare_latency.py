"""Decide whether the candidate's latency differs from the baseline's, considering what was repeated and how often.

Two sides were not measured in turn, so everything that varies between two processes (memory layout, clocks, another
board) also varies between the sides. So a difference must show twice: among blocks (Mann-Whitney), and among whole
processes, or among runs where a side has several (t test of log medians, with variances moderated over all cases).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from nsysprof.analysis.comparison.rank_sum import LEAST_BLOCKS, LEAST_DELTA, compare_medians
from nsysprof.analysis.sampling.rank_tests import average_ranks
from nsysprof.analysis.sampling.significance import ALPHA, MARGIN_PCT, holm, noise_floor
from nsysprof.analysis.sampling.student_t import nct_sf, normal_sf, t_isf, t_sf
from nsysprof.analysis.sampling.variance_shrinkage import Prior, fit_prior
from nsysprof.arrays import Floats
from nsysprof.attention.case import Case
from nsysprof.results.comparison import (
    SAME_SAMPLES,
    LatencyChange,
    LatencyComparison,
    LatencyVerdict,
    Measured,
    SideOfCase,
)

# What processes of the same code may differ by where nothing measured it; on an H200, 6 % were seen between two.
ASSUMED_FLOOR_PCT = 10.0
# What runs may differ by beyond their processes (another hour, another board), where each side is one: on the GPU, and
# where it is the CPU that is timed. On H200s, 1.8 % were seen, and 5 % (once 36 %) in cases bound by launching.
RUN_FLOOR_PCT, HOST_RUN_FLOOR_PCT = 2.0, 10.0
POWER = 0.8
METHOD = (
    "two sides differ where a two-sided Mann-Whitney test of their blocks' medians and a t test of the log medians of "
    "their processes (of their runs, where a side has several; variances moderated over all cases by Smyth's "
    "empirical Bayes) both give p < 0.05 after Holm's correction over all cases, Cliff's delta is at least 0.33, and "
    "the medians differ by more than the noise floor; SAME needs the interval of the ratio within the margin, or "
    "within the floor where that is wider; everything else is INCONCLUSIVE",
    "the interval of the ratio is the wider of a two-stage bootstrap (processes or runs, then their blocks, 10,000 "
    "resamples) and of the t test's interval; 95 %",
    "where each side was measured in one process, the noise floor stands for what processes differ by: the one given, "
    "else 10 %; where each side is one run, that two runs of the same code differ by up to 2 % (10 % in cases that the "
    "CPU bounds) is assumed, unless a floor is given",
    "a capture's samples are calls back to back in one process: they are cut into stretches as long as their "
    "autocorrelation asks for, and a stretch stands for a block",
    "how many more: two-sided t test at the level that Holm's first step asks for, and beyond the noise floor; power "
    "80 % to find a difference of the margin, with the variance between processes (runs) that was seen and, where each "
    "side is one run, the assumed difference between runs, which more processes do not lessen",
)
_RESAMPLES, _SEED = 10_000, 0
_AT_ONCE = 2_000
_LEAST_STRETCH = 5
_NORMAL_95 = 1.960  # quantile of the absolute value of a standard normal
_MOST_FREEDOM = 1e6
_MEDIAN_COST = np.sqrt(np.pi / 2)  # how much further medians scatter than means
# The floor of medians of n units, in standard errors of a difference of means of n: a second hurdle beside the test.
_FLOOR_ERRORS = _NORMAL_95 * float(_MEDIAN_COST)
_MOST_UNITS = 1000


@dataclass(frozen=True)
class _Units:
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
class _Pair:
    """A case that both sides measured."""

    key: Case
    baseline: _Units
    candidate: _Units
    # The difference (percent) that 95 % of pairs of runs of the same code are assumed to stay below.
    run_floor_pct: float = 0.0

    @property
    def freedom(self) -> int:
        return len(self.baseline.blocks) + len(self.candidate.blocks) - 2

    @property
    def spread(self) -> float:
        squares = sum(
            float(((side.levels - side.levels.mean()) ** 2).sum()) for side in (self.baseline, self.candidate)
        )
        return squares / self.freedom if self.freedom else 0.0


@dataclass(frozen=True)
class Settings:
    """What a comparison of latencies assumes."""

    # The smallest difference that matters.
    margin_pct: float = MARGIN_PCT
    # The noise floor, where the user knows it.
    floor_pct: float | None = None


def compare_latencies(
    baseline: Sequence[Mapping[Case, Measured]],
    candidate: Sequence[Mapping[Case, Measured]],
    names: Mapping[Case, str],
    settings: Settings,
) -> LatencyComparison:
    """Return the change of every case of either side. A sequence has one entry per input; names are for people."""
    keys = list(dict.fromkeys(key for each in (*baseline, *candidate) for key in each))
    by_runs = len(baseline) > 1 or len(candidate) > 1
    sides = {key: (describe_side(key, baseline), describe_side(key, candidate)) for key in keys}
    pairs = [
        _Pair(
            key,
            _units(key, baseline, by_runs),
            _units(key, candidate, by_runs),
            0.0 if by_runs or settings.floor_pct is not None else _run_floor(key, (*baseline, *candidate)),
        )
        for key in keys
        if sides[key][0].median_ns and sides[key][1].median_ns
    ]
    unit = "run" if by_runs else "process"
    floor, origin = _floor(pairs, settings, unit)
    prior = fit_prior([(pair.spread, pair.freedom) for pair in pairs])
    judged = _judge(pairs, prior, floor, settings, unit)
    changes = []
    for key in keys:
        old, new = sides[key]
        found = judged.get(key)
        if found is None:
            changes.append(unmeasured_case(names[key], old, new))
        elif _samples(key, baseline) == _samples(key, candidate):
            same = LatencyChange(names[key], LatencyVerdict.SAME, old, new, SAME_SAMPLES, ratio=1.0, low=1.0, high=1.0)
            changes.append(replace(same, margin_pct=settings.margin_pct))
        else:
            changes.append(replace(found, case=names[key], baseline=old, candidate=new))
    return LatencyComparison(tuple(changes), floor, origin, unit)


def describe_side(key: Case, inputs: Sequence[Mapping[Case, Measured]]) -> SideOfCase:
    """Return one side of a case over its inputs. It is ok when every input that has it measured it."""
    mine = [each[key] for each in inputs if key in each]
    if not mine:
        return SideOfCase("absent")
    failed = next((each for each in mine if each.status != "ok"), None)
    if failed is not None:
        return SideOfCase(failed.status, failed.reason, inputs=len(mine))
    values = [value for each in mine for process in each.processes for block in process for value in block]
    peaks = [each.peak_bytes for each in mine if each.peak_bytes is not None]
    return SideOfCase(
        "ok" if values else "absent",
        "" if values else "no samples",
        float(np.median(values)) if values else None,
        len(values),
        sum(len(process) for each in mine for process in each.processes),
        sum(len(each.processes) for each in mine),
        len(mine),
        max(peaks, default=None),
    )


def _samples(key: Case, inputs: Sequence[Mapping[Case, Measured]]) -> list[object]:
    return [each[key].processes for each in inputs if key in each]


def _units(key: Case, inputs: Sequence[Mapping[Case, Measured]], by_runs: bool) -> _Units:
    units: list[Floats] = []
    for each in inputs:
        if key not in each:
            continue
        found = each[key]
        blocks = [_blocks(process, found.in_order) for process in found.processes]
        units += [np.concatenate(blocks)] if by_runs else blocks
    return _Units(tuple(units))


def _run_floor(key: Case, inputs: Sequence[Mapping[Case, Measured]]) -> float:
    host_bound = any(each[key].host_bound for each in inputs if key in each)
    return HOST_RUN_FLOOR_PCT if host_bound else RUN_FLOOR_PCT


def _blocks(process: Sequence[Sequence[int]], in_order: bool) -> Floats:
    """Return log medians of the blocks of one process; one long sequence is cut into stretches."""
    cut = [stretch for block in process for stretch in cut_stretches(block)] if in_order else process
    return np.log([max(1.0, float(np.median(block))) for block in cut])


def cut_stretches(values: Sequence[int]) -> list[Sequence[int]]:
    """Return consecutive samples cut into stretches whose medians are nearly independent.

    A stretch is as long as the square root of the number of samples, or twice the integrated autocorrelation time
    (Geyer's initial positive sequence), whichever is longer. The rest goes to the last stretch.
    """
    count = len(values)
    length = max(_LEAST_STRETCH, int(np.sqrt(count)), int(np.ceil(2 * _autocorrelation_time(values))))
    pieces = max(1, count // length)
    edges = [index * length for index in range(pieces)] + [count]
    return [values[first:last] for first, last in pairwise(edges)]


def _autocorrelation_time(values: Sequence[int]) -> float:
    """Return the autocorrelation time in samples, at least 1. It uses ranks, so that an outlier does not hide it."""
    ranks = average_ranks(values) - (len(values) + 1) / 2
    power = float((ranks**2).sum())
    if len(values) < 8 or power == 0:
        return 1.0
    lags = np.array([float((ranks[: len(ranks) - lag] * ranks[lag:]).sum()) / power for lag in range(len(ranks) // 2)])
    pairs = lags[: len(lags) // 2 * 2].reshape(-1, 2).sum(axis=1)
    positive = pairs[: int(np.argmax(pairs <= 0))] if (pairs <= 0).any() else pairs
    return max(1.0, float(2 * positive.sum() - 1))


def _floor(pairs: Sequence[_Pair], settings: Settings, unit: str) -> tuple[float, str]:
    """Return the difference (percent) that 95 % of pairs of units of the same code stay below, and its source."""
    if settings.floor_pct is not None:
        return settings.floor_pct, "given"
    levels = [side.levels for pair in pairs for side in (pair.baseline, pair.candidate)]
    twice = [(np.exp(old[None]), np.exp(new[None])) for each in levels for old, new in pairwise(each)]
    floor = noise_floor(twice)
    if floor is None:
        return ASSUMED_FLOOR_PCT, "assumed"
    return floor, f"{len(twice)} pairs of {unit}{'es' if unit == 'process' else 's'} of the same code"


def _judge(
    pairs: Sequence[_Pair], prior: Prior, floor: float, settings: Settings, unit: str
) -> dict[Case, LatencyChange]:
    """Return the verdicts by key; names and sides are filled in later."""
    tested = [_test(pair, prior, floor, settings, unit) for pair in pairs]
    known = [index for index, change in enumerate(tested) if change.p_blocks is not None]
    raw = [max(tested[index].p_blocks or 0.0, tested[index].p_units or 0.0) for index in known]
    for index, p in zip(known, holm(raw), strict=True):
        tested[index] = replace(tested[index], p=p)
    return {
        pair.key: _decide(pair, change, prior, settings, len(known)) for pair, change in zip(pairs, tested, strict=True)
    }


def _test(pair: _Pair, prior: Prior, floor: float, settings: Settings, unit: str) -> LatencyChange:
    old, new = pair.baseline, pair.candidate
    found = compare_medians(np.exp(old.flat), np.exp(new.flat))
    own = _floor_of(floor, pair)
    error = _error(pair, prior, own)
    low, high = _interval(pair, error)
    return LatencyChange(
        case="",
        verdict=LatencyVerdict.INCONCLUSIVE,
        baseline=SideOfCase("ok"),
        candidate=SideOfCase("ok"),
        ratio=float(np.exp(np.median(new.flat) - np.median(old.flat))),
        low=low,
        high=high,
        p_blocks=None if found is None else found.p,
        p_units=_p_of_units(pair, error),
        delta=None if found is None else found.delta,
        floor_pct=own,
        margin_pct=settings.margin_pct,
        unit=unit,
    )


def _floor_of(floor_pct: float, pair: _Pair) -> float:
    """Return the floor for medians over several units, which scatter less than single ones (percent)."""
    count = min(len(pair.baseline.blocks), len(pair.candidate.blocks))
    return float(100 * np.expm1(np.log1p(floor_pct / 100) * min(1.0, _MEDIAN_COST / np.sqrt(count))))


def _error(pair: _Pair, prior: Prior, floor_pct: float) -> tuple[float, float]:
    """Return the standard error of the difference of log medians of units, and its degrees of freedom.

    Where nothing was repeated, this case's floor says by how much units of the same code differ.
    """
    moderated = prior.moderate(pair.spread, pair.freedom)
    if moderated is None:
        return float(np.log1p(floor_pct / 100) / _NORMAL_95), _MOST_FREEDOM
    counts = len(pair.baseline.blocks), len(pair.candidate.blocks)
    measured = moderated[0] * (1 / counts[0] + 1 / counts[1])
    total = measured + _run_error(pair) ** 2
    # Satterthwaite: only the measured part has few degrees of freedom.
    freedom = moderated[1] * (total / measured) ** 2 if measured > 0 else _MOST_FREEDOM
    return float(np.sqrt(total)), min(freedom, _MOST_FREEDOM)


def _run_error(pair: _Pair) -> float:
    """Return the standard deviation that is assumed of the difference between two runs of the same code."""
    return float(np.log1p(pair.run_floor_pct / 100) / _NORMAL_95)


def _p_of_units(pair: _Pair, error: tuple[float, float]) -> float:
    distance = abs(float(pair.candidate.levels.mean() - pair.baseline.levels.mean()))
    if error[0] == 0:
        return 1.0 if distance == 0 else 0.0
    return 2 * t_sf(distance / error[0], error[1])


def _interval(pair: _Pair, error: tuple[float, float]) -> tuple[float | None, float | None]:
    """Return the confidence interval of the latency ratio."""
    old, new = pair.baseline, pair.candidate
    if min(len(old.flat), len(new.flat)) < LEAST_BLOCKS:
        return None, None
    generator = np.random.default_rng(_SEED)
    differences = _resample(new, generator) - _resample(old, generator)
    low, high = np.quantile(differences, [0.025, 0.975])
    middle = float(np.median(new.flat) - np.median(old.flat))
    reach = error[0] * t_isf(0.025, error[1])
    return float(np.exp(min(low, middle - reach))), float(np.exp(max(high, middle + reach)))


def _resample(side: _Units, generator: np.random.Generator) -> Floats:
    """Return the log median of blocks in each resample: units are drawn, then as many blocks from each."""
    counts = np.array([len(blocks) for blocks in side.blocks])
    width, units = int(counts.max()), len(counts)
    table = np.zeros((units, width))
    for row, blocks in zip(table, side.blocks, strict=True):
        row[: len(blocks)] = blocks
    found = []
    for _ in range(_RESAMPLES // _AT_ONCE):
        unit = generator.integers(units, size=(_AT_ONCE, units, 1))
        block = (generator.random((_AT_ONCE, units, width)) * counts[unit]).astype(np.int64)
        found.append(np.median(table[unit, block].reshape(_AT_ONCE, -1), axis=1))
    return np.concatenate(found)


def _decide(pair: _Pair, found: LatencyChange, prior: Prior, settings: Settings, tests: int) -> LatencyChange:
    if found.p is None or found.ratio is None or found.low is None or found.high is None or found.delta is None:
        return _too_few(pair, found)
    floor, margin = np.log1p((found.floor_pct or 0) / 100), np.log1p((found.margin_pct or 0) / 100)
    distance = abs(np.log(found.ratio))
    if found.p < ALPHA and abs(found.delta) >= LEAST_DELTA and distance > floor:
        return replace(found, verdict=LatencyVerdict.SLOWER if found.ratio > 1 else LatencyVerdict.FASTER)
    if -margin <= np.log(found.low) and np.log(found.high) <= margin:
        return replace(found, verdict=LatencyVerdict.SAME, reason=f"within {found.margin_pct:.2g} %")
    return _need_more(pair, found, prior, settings, tests)


def _need_more(pair: _Pair, found: LatencyChange, prior: Prior, settings: Settings, tests: int) -> LatencyChange:
    units = "processes" if found.unit == "process" else "runs"
    counts = min(len(pair.baseline.blocks), len(pair.candidate.blocks))
    moderated = prior.moderate(pair.spread, pair.freedom)
    if moderated is None:
        reason = (
            f"each side was measured in one process, and {found.floor_pct:.3g} % between two of the same code are "
            f"{'what was given' if settings.floor_pct is not None else 'assumed'}"
        )
        step = f"Give {LEAST_BLOCKS} captures of each side, or benches of several --processes."
        return replace(found, reason=reason, next_step=step, more=LEAST_BLOCKS - counts)
    deviation, between_runs = float(np.sqrt(moderated[0])), _run_error(pair)
    needed = units_needed(deviation, settings.margin_pct, tests, between_runs)
    reason = f"the interval is wider than ±{found.margin_pct:.2g} %, and the difference is not certain"
    if needed > _MOST_UNITS and pair.run_floor_pct:
        # More processes of one run do not say what runs differ by: only more runs do.
        runs = units_needed(float(np.hypot(between_runs / np.sqrt(2), deviation / np.sqrt(counts))),
                            settings.margin_pct, tests)  # fmt: skip
        if runs <= _MOST_UNITS:
            reason = f"each side is one run, and {pair.run_floor_pct:g} % between two runs of the same code are assumed"
            step = f"Give about {runs} runs of each side, measured in turn, or --floor; or bench both sides in turn."
            return replace(found, reason=reason, next_step=step, more=runs - 1)
    if needed > _MOST_UNITS:
        return replace(found, reason=reason, next_step="Too noisy for this margin: give a wider --margin.")
    needed = max(needed, counts + 1)
    more = needed - counts
    how = "bench --processes" if units == "processes" else "repeat the measurement"
    step = f"About {needed} {units} of each side would tell {settings.margin_pct:g} %: {more} more ({how})."
    return replace(found, reason=reason, next_step=step, more=more)


def _too_few(pair: _Pair, found: LatencyChange) -> LatencyChange:
    have = min(len(pair.baseline.flat), len(pair.candidate.flat))
    return replace(
        found,
        reason=f"{have} block{'s' if have != 1 else ''} of a side: too few for a test",
        next_step=f"At least {LEAST_BLOCKS} blocks of each side: several captures, or bench with more --rounds.",
    )


def units_needed(deviation: float, margin_pct: float, tests: int, between_runs: float = 0.0) -> int:
    """Return how many units each side needs to find a difference of the margin with a power of 80 %; at most 1001.

    The difference must be found by the t test, and exceed the noise floor of that many units.

    deviation: the standard deviation of a unit's log median.
    tests: how many cases Holm's method corrects for; its first step asks for alpha / tests.
    between_runs: the standard deviation of the difference of the two runs, which more units of a run do not lessen.
    """
    wanted = float(np.log1p(margin_pct / 100))
    alpha = ALPHA / max(1, tests)
    if between_runs > 0 and normal_sf(t_isf(alpha / 2, _MOST_FREEDOM) - wanted / between_runs) < POWER:
        return _MOST_UNITS + 1

    def is_enough(count: int) -> bool:
        measured = deviation**2 * 2 / count
        total = measured + between_runs**2
        if total == 0:
            return True
        freedom = (2 * count - 2) * (total / measured) ** 2 if measured > 0 else _MOST_FREEDOM
        freedom = min(freedom, _MOST_FREEDOM)
        critical = max(float(t_isf(alpha / 2, freedom)), _FLOOR_ERRORS * float(np.sqrt(measured / total)))
        return nct_sf(critical, freedom, float(wanted / np.sqrt(total))) >= POWER

    return 2 + bisect_left(range(2, _MOST_UNITS + 1), True, key=is_enough)  # power grows with the count


def unmeasured_case(name: str, old: SideOfCase, new: SideOfCase) -> LatencyChange:
    """Return a case that at least one side did not measure, which has no verdict."""
    parts = [
        f"{side.status} in the {title}" + (f": {side.reason}" if side.reason else "")
        for title, side in (("baseline", old), ("candidate", new))
        if side.median_ns is None
    ]
    return LatencyChange(name, None, old, new, reason="; ".join(parts))
