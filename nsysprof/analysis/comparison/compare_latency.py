"""Decide whether the candidate's latency differs from the baseline's, depending on what was repeated and how often.

Here the two sides were not measured in turn, so everything that varies between two processes (memory layout, clocks,
another board) also varies between the sides. Whole processes are therefore tested, or runs where a side has several (t
test of log medians, with variances moderated over all cases), and a difference must show among blocks too (Mann-Whitney
test). Only the t test is corrected for the number of cases: ranks of few blocks have a smallest p, and with many cases
a correction would put every difference out of reach.

Judge whether the wall time of a range differs between two sides; each instance after the warm-up is a sample.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np

from nsysprof.analysis.comparison.throttled_sides import METHOD as THROTTLED_METHOD
from nsysprof.analysis.comparison.throttled_sides import doubt_throttled
from nsysprof.analysis.sampling.series_ratio import LEAST_INSTANCES
from nsysprof.analysis.sampling.significance import (
    ALPHA,
    LEAST_PCT,
    MARGIN_PCT,
    POWER,
    Prior,
    false_discovery,
    fit_prior,
    limit_freedom,
    noise_floor,
)
from nsysprof.analysis.sampling.student_t import average_ranks, mann_whitney, nct_sf, normal_sf, t_isf, t_sf
from nsysprof.arrays import Floats
from nsysprof.attention.shape import Case
from nsysprof.results.analysis import HOST_PROCESS_TIMES
from nsysprof.results.comparison import (
    SAME_SAMPLES,
    WHOLE_TRACE,
    LatencyChange,
    LatencyComparison,
    LatencyVerdict,
    Measured,
    RangeChange,
    RangeFacts,
    SideOfCase,
)
from nsysprof.results.samples import steady_samples

# Cliff's delta from which a difference counts as "medium" (Romano et al., 2006).
LEAST_DELTA = 0.33
# With fewer blocks, no arrangement of the two samples is rarer than 5 %.
LEAST_BLOCKS = 4
# How much two processes of the same code may differ where nobody measured it (percent). On an H200, 6 % was seen.
ASSUMED_FLOOR_PCT = 10.0
# The standard deviation of processes whose time the host determines (percent), of eight programs that ran twice. It
# only advises how many to measure.
HOST_PROCESS_PCT = 5.8
# The resamples of a bootstrap, and the seed with which it repeats itself.
_RESAMPLES, _SEED = 2_000, 0
NORMAL_95 = 1.960  # quantile of the absolute value of a standard normal
MEDIAN_COST = np.sqrt(np.pi / 2)  # the standard deviation of a median relative to a mean's
# The noise floor of medians of n units, in standard errors of a difference of means. It is a second condition beside
# the test.
_FLOOR_ERRORS = NORMAL_95 * float(MEDIAN_COST)
# The level of the test where a side has fewer runs than LEAST_BLOCKS: of so few, the spread is a guess.
_FEW_RUNS_ALPHA = 0.025
# With this many degrees of freedom, the t distribution is a normal distribution.
MOST_FREEDOM = 1e6
# A measurement of more units than this is not proposed.
MOST_UNITS = 1000


@dataclass(frozen=True)
class RankSum:
    """The result of a rank-sum test of the candidate's blocks against the baseline's."""

    # Two-sided p of a Mann-Whitney test.
    p: float
    # Cliff's delta, positive where the candidate takes longer.
    delta: float


def compare_medians(baseline: Floats, candidate: Floats) -> RankSum | None:
    """Return the test of the two sides' block medians; None where there are too few blocks."""
    if min(len(baseline), len(candidate)) < LEAST_BLOCKS or np.median(baseline) <= 0:
        return None
    if np.ptp(np.concatenate([baseline, candidate])) == 0:
        return RankSum(1.0, 0.0)
    u, p = mann_whitney(candidate, baseline)
    return RankSum(p, 2 * u / (len(baseline) * len(candidate)) - 1)


METHOD = (
    "two sides differ where a t test of the log medians of their processes (of their runs, where a side has several; "
    f"variances moderated over all cases by Smyth's empirical Bayes), against a difference of {LEAST_PCT:g} %, gives "
    f"p < {ALPHA:g} after the correction of Benjamini and Hochberg over all cases, a two-sided Mann-Whitney test of "
    f"their blocks' medians gives p < {ALPHA:g}, Cliff's delta is at least {LEAST_DELTA:g}, the medians differ by more "
    "than the noise floor, and the interval of the ratio does not hold 1; SAME needs the whole interval within the "
    "margin; everything else is INCONCLUSIVE",
    "several runs of a side need no noise floor, as their own spread has all that differs between runs; fewer than "
    f"{LEAST_BLOCKS} are tested at p < {_FEW_RUNS_ALPHA:g}, and of what the GPU determines are taken to differ by "
    f"{ASSUMED_FLOOR_PCT:g} %, or by what they show, whichever is wider",
    f"the interval of the ratio is the wider of a two-stage bootstrap (processes or runs, then their blocks, "
    f"{_RESAMPLES:,} resamples) and of the t test's interval; 95 %, for each case by itself",
    "where each side was measured in one process, a time that the host determines has no verdict and no interval, "
    "unless a floor is given; for times of the GPU the floor stands for what processes differ by: the one given, else "
    "10 %, with the sampling error of both medians; where each side is one run, that two runs of the same code differ "
    "by up to 2 % (10 % in cases that the CPU bounds) is assumed, unless a floor is given",
    "a capture's samples are calls back to back in one process: they are cut into stretches as long as their "
    "autocorrelation asks for, and a stretch stands for a block",
    THROTTLED_METHOD,
    "how many more: that t test, at the level that the correction asks of a single case that differs, and beyond the "
    "noise floor; power 80 % to find a difference of the margin, with the variance between processes (runs) that was "
    "seen and, where each side is one run, the assumed difference between runs, which more processes do not lessen",
)


@dataclass(frozen=True)
class Settings:
    """The assumptions of a latency comparison."""

    # The smallest difference that matters.
    margin_pct: float = MARGIN_PCT
    # The noise floor (percent), where the user knows it.
    floor_pct: float | None = None
    # The significance level of tests and intervals where the sides were measured in turn.
    alpha: float = ALPHA


def compare_latencies(
    baseline: Sequence[Mapping[Case, Measured]],
    candidate: Sequence[Mapping[Case, Measured]],
    names: Mapping[Case, str],
    settings: Settings,
) -> LatencyComparison:
    """Return the change of every case that either side has.

    baseline, candidate: one entry per input.
    names: names of cases for people, by key.
    """
    keys = list(dict.fromkeys(key for cases in (*baseline, *candidate) for key in cases))
    by_runs = len(baseline) > 1 or len(candidate) > 1
    sides = {key: (describe_side(key, baseline), describe_side(key, candidate)) for key in keys}
    pairs = [
        MeasuredPair(
            key,
            units_of(key, baseline, by_runs),
            units_of(key, candidate, by_runs),
            0.0 if by_runs or settings.floor_pct is not None else run_floor(key, (*baseline, *candidate)),
            is_host_bound(key, (*baseline, *candidate)),
            by_runs,
        )
        for key in keys
        if sides[key][0].median_ns and sides[key][1].median_ns
    ]
    unit = "run" if by_runs else "process"
    floor, origin = _floor(pairs, settings, unit)
    judged = _judge(pairs, _fit(pairs), floor, settings, unit)
    levels = {pair.key: (pair.baseline.level_ns, pair.candidate.level_ns) for pair in pairs}
    changes = []
    for key in keys:
        old, new = sides[key]
        change = judged.get(key)
        if change is None:
            changes.append(unmeasured_case(names[key], old, new))
        elif _samples(key, baseline) == _samples(key, candidate):
            same = LatencyChange(names[key], LatencyVerdict.SAME, old, new, SAME_SAMPLES, ratio=1.0, low=1.0, high=1.0)
            changes.append(replace(same, margin_pct=settings.margin_pct))
        else:
            # What is printed is what is tested.
            old, new = (replace(side, median_ns=level) for side, level in zip(sides[key], levels[key], strict=True))
            named = replace(change, case=names[key], baseline=old, candidate=new)
            changes.append(doubt_throttled(named, _throttled(key, baseline), _throttled(key, candidate)))
    return LatencyComparison(tuple(changes), floor, origin, unit)


def describe_side(key: Case, inputs: Sequence[Mapping[Case, Measured]]) -> SideOfCase:
    """Return one side of a case over its inputs. Its status is ok when every input that has the case measured it."""
    mine = [cases[key] for cases in inputs if key in cases]
    if not mine:
        return SideOfCase("absent")
    failed = next((measured for measured in mine if measured.status != "ok"), None)
    if failed is not None:
        return SideOfCase(failed.status, failed.reason, inputs=len(mine))
    values = [value for measured in mine for process in measured.processes for block in process for value in block]
    peaks = [measured.peak_bytes for measured in mine if measured.peak_bytes is not None]
    return SideOfCase(
        "ok" if values else "absent",
        "" if values else "no samples",
        float(np.median(values)) if values else None,
        len(values),
        sum(len(process) for measured in mine for process in measured.processes),
        sum(len(measured.processes) for measured in mine),
        len(mine),
        max(peaks, default=None),
    )


def _throttled(key: Case, inputs: Sequence[Mapping[Case, Measured]]) -> float:
    """Return the mean share of throttled samples over the inputs that measured a case."""
    return float(np.mean([cases[key].throttled for cases in inputs if key in cases]))


def _samples(key: Case, inputs: Sequence[Mapping[Case, Measured]]) -> list[object]:
    return [cases[key].processes for cases in inputs if key in cases]


def _floor(pairs: Sequence[MeasuredPair], settings: Settings, unit: str) -> tuple[float, str]:
    """Return the noise floor and its source: 95 % of pairs of the same code differ by less than this (percent)."""
    if settings.floor_pct is not None:
        return settings.floor_pct, "given"
    levels = [side.levels for pair in pairs for side in (pair.baseline, pair.candidate)]
    twice = [(np.exp(old[None]), np.exp(new[None])) for side_levels in levels for old, new in pairwise(side_levels)]
    floor = noise_floor(twice)
    if floor is None:
        return ASSUMED_FLOOR_PCT, "assumed"
    return floor, f"{len(twice)} pairs of {unit}{'es' if unit == 'process' else 's'} of the same code"


def _fit(pairs: Sequence[MeasuredPair]) -> Prior:
    """Return the prior that describes the variances between the units of all cases."""
    prior = fit_prior([(pair.spread, pair.freedom) for pair in pairs])
    shapes = [tuple(len(side.blocks) for side in (pair.baseline, pair.candidate)) for pair in pairs]
    largest = max(shapes, key=sum, default=(1, 1))
    if sum(largest) < 3:
        return prior
    complete = [pair.deviations for pair, shape in zip(pairs, shapes, strict=True) if shape == largest]
    return replace(prior, most_freedom=limit_freedom(complete, sum(largest) - 2))


def _judge(
    pairs: Sequence[MeasuredPair], prior: Prior, floor: float, settings: Settings, unit: str
) -> dict[Case, LatencyChange]:
    """Return the changes by key, with verdicts. Names and sides are filled in later."""
    tested = [_test(pair, prior, floor, settings, unit) for pair in pairs]
    known = [index for index, change in enumerate(tested) if change.p_blocks is not None or change.low is not None]
    for index, p in zip(known, false_discovery([tested[index].p_units or 0.0 for index in known]), strict=True):
        tested[index] = replace(tested[index], p=p)
    return {
        pair.key: _decide(pair, change, prior, settings, len(known)) for pair, change in zip(pairs, tested, strict=True)
    }


def _has_no_test(pair: MeasuredPair, settings: Settings) -> bool:
    """Return whether one process a side says nothing, because the host determines the time and no floor is given."""
    return pair.host_bound and pair.freedom == 0 and settings.floor_pct is None


def _test(pair: MeasuredPair, prior: Prior, floor: float, settings: Settings, unit: str) -> LatencyChange:
    old, new = pair.baseline, pair.candidate
    if _has_no_test(pair, settings):
        ratio = float(np.exp(pair.difference))
        sides = SideOfCase("ok"), SideOfCase("ok")
        return LatencyChange(
            "", LatencyVerdict.INCONCLUSIVE, *sides, ratio=ratio, margin_pct=settings.margin_pct, unit=unit
        )
    blocks_test = compare_medians(np.exp(old.flat), np.exp(new.flat))
    own = _floor_of(floor, pair, settings)
    error = _error(pair, prior, own)
    low, high = _interval(pair, error)
    return LatencyChange(
        case="",
        verdict=LatencyVerdict.INCONCLUSIVE,
        baseline=SideOfCase("ok"),
        candidate=SideOfCase("ok"),
        ratio=float(np.exp(pair.difference)),
        low=low,
        high=high,
        p_blocks=None if blocks_test is None else blocks_test.p,
        p_units=_p_of_units(pair, error),
        delta=None if blocks_test is None else blocks_test.delta,
        floor_pct=own,
        margin_pct=settings.margin_pct,
        unit=unit,
        error=error[0],
        freedom=error[1],
    )


def _floor_of(floor_pct: float, pair: MeasuredPair, settings: Settings) -> float:
    """Return the noise floor (percent) for medians over several units, which vary less than single units do.

    Several runs of a side need none: their own spread, which the test uses, has all that differs between runs.
    """
    count = min(len(pair.baseline.blocks), len(pair.candidate.blocks))
    if pair.of_runs and settings.floor_pct is None:
        return ASSUMED_FLOOR_PCT if pair.is_assumed else 0.0
    return float(100 * np.expm1(np.log1p(floor_pct / 100) * min(1.0, MEDIAN_COST / np.sqrt(count))))


def _error(pair: MeasuredPair, prior: Prior, floor_pct: float) -> tuple[float, float]:
    """Return the standard error of the difference of log medians of units, and its degrees of freedom.

    Where nothing was repeated, the noise floor of this case says how much units of the same code differ; where few runs
    were made of what the GPU determines, the wider of that and of what was seen.
    """
    moderated = prior.moderate(pair.spread, pair.freedom)
    if moderated is None:
        return _assumed_error(pair, floor_pct)
    seen = _seen_error(pair, moderated)
    return max(seen, _assumed_error(pair, floor_pct), key=_reach) if pair.is_assumed else seen


def _reach(error: tuple[float, float]) -> float:
    """Return half the width of the 95 % interval of a standard error with its degrees of freedom."""
    return float(error[0] * t_isf(0.025, error[1]))


def _assumed_error(pair: MeasuredPair, floor_pct: float) -> tuple[float, float]:
    within = sum(_median_variance(side) for side in (pair.baseline, pair.candidate))
    return float(np.hypot(np.log1p(floor_pct / 100) / NORMAL_95, np.sqrt(within))), MOST_FREEDOM


def _is_seen(pair: MeasuredPair, moderated: tuple[float, float], change: LatencyChange) -> bool:
    return (change.error, change.freedom) == _seen_error(pair, moderated)


def _seen_error(pair: MeasuredPair, moderated: tuple[float, float]) -> tuple[float, float]:
    """Return the error that units of the same code showed, by their moderated variance and its degrees of freedom."""
    counts = len(pair.baseline.blocks), len(pair.candidate.blocks)
    measured = moderated[0] * (1 / counts[0] + 1 / counts[1])
    total = measured + _run_error(pair) ** 2
    # Satterthwaite's approximation: only the measured part has few degrees of freedom.
    freedom = moderated[1] * (total / measured) ** 2 if measured > 0 else MOST_FREEDOM
    return float(np.sqrt(total)), min(freedom, MOST_FREEDOM)


def _median_variance(side: MeasuredUnits) -> float:
    """Return the variance of the log median of a side's blocks."""
    return float(MEDIAN_COST**2 * side.flat.var(ddof=1) / len(side.flat)) if len(side.flat) > 1 else 0.0


def _run_error(pair: MeasuredPair) -> float:
    """Return the assumed standard deviation of the difference between two runs of the same code."""
    return float(np.log1p(pair.run_floor_pct / 100) / NORMAL_95)


def _p_of_units(pair: MeasuredPair, error: tuple[float, float]) -> float:
    """Return the two-sided p of a difference beyond LEAST_PCT."""
    beyond = abs(pair.difference) - float(np.log1p(LEAST_PCT / 100))
    if error[0] == 0:
        return 0.0 if beyond > 0 else 1.0
    return min(1.0, 2 * t_sf(beyond / error[0], error[1]))


def _interval(pair: MeasuredPair, error: tuple[float, float]) -> tuple[float | None, float | None]:
    """Return the confidence interval of the latency ratio."""
    old, new = pair.baseline, pair.candidate
    middle, reach = pair.difference, _reach(error)
    if min(len(old.flat), len(new.flat)) < LEAST_BLOCKS:
        return (float(np.exp(middle - reach)), float(np.exp(middle + reach))) if pair.of_runs else (None, None)
    generator = np.random.default_rng(_SEED)
    differences = _resample(new, generator) - _resample(old, generator)
    low, high = np.quantile(differences, [0.025, 0.975])
    return float(np.exp(min(low, middle - reach))), float(np.exp(max(high, middle + reach)))


def _resample(side: MeasuredUnits, generator: np.random.Generator) -> Floats:
    """Return the level of a side in each resample: units are drawn first, then as many blocks from each unit."""
    counts = np.array([len(blocks) for blocks in side.blocks])
    width, units = int(counts.max()), len(counts)
    table = np.zeros((units, width))
    for row, blocks in zip(table, side.blocks, strict=True):
        row[: len(blocks)] = blocks
    unit = generator.integers(units, size=(_RESAMPLES, units, 1))
    block = (generator.random((_RESAMPLES, units, width)) * counts[unit]).astype(np.int64)
    levels: Floats = np.median(table[unit, block], axis=2).mean(axis=1)
    return levels


def _decide(pair: MeasuredPair, change: LatencyChange, prior: Prior, settings: Settings, tests: int) -> LatencyChange:
    if _has_no_test(pair, settings):
        return _need_processes(change, settings, tests)
    if change.p is None or change.ratio is None or change.low is None or change.high is None:
        return _too_few(pair, change)
    floor, margin = np.log1p((change.floor_pct or 0) / 100), np.log1p((change.margin_pct or 0) / 100)
    distance = abs(np.log(change.ratio))
    level = _FEW_RUNS_ALPHA if pair.has_few_runs else ALPHA
    is_certain = change.p < level and (change.p_blocks or 0.0) < ALPHA
    holds_one = change.low <= 1 <= change.high
    is_clear = change.delta is None or abs(change.delta) >= LEAST_DELTA
    if is_certain and is_clear and distance > floor and not holds_one:
        return replace(change, verdict=LatencyVerdict.SLOWER if change.ratio > 1 else LatencyVerdict.FASTER)
    if -margin <= np.log(change.low) and np.log(change.high) <= margin:
        return replace(change, verdict=LatencyVerdict.SAME, reason=f"within {change.margin_pct:.2g} %")
    return _need_more(pair, change, prior, settings, tests)


def _need_processes(change: LatencyChange, settings: Settings, tests: int) -> LatencyChange:
    """Return the change of a host-bound case with one process a side: it has neither a test nor an interval."""
    needed = max(LEAST_BLOCKS, units_needed(float(np.log1p(HOST_PROCESS_PCT / 100)), settings.margin_pct, tests))
    reason = (
        "each side is one process, and the host determines this time (or other ranks do): another process of the same "
        f"code may take up to {HOST_PROCESS_TIMES} times as long"
    )
    step = f"Give at least {LEAST_BLOCKS} of each side; about {needed} tell {settings.margin_pct:g} % where processes "
    step += f"differ by {HOST_PROCESS_PCT:g} %. Counts, bytes and GPU time can be compared without them."
    return replace(change, reason=reason, next_step=step, more=needed - 1)


def _need_more(
    pair: MeasuredPair, change: LatencyChange, prior: Prior, settings: Settings, tests: int
) -> LatencyChange:
    units = "processes" if change.unit == "process" else "runs"
    counts = min(len(pair.baseline.blocks), len(pair.candidate.blocks))
    moderated = prior.moderate(pair.spread, pair.freedom)
    if moderated is None or pair.is_assumed:
        alone = "each side was measured in one process" if moderated is None else f"a side has only {counts} {units}"
        reason = (
            f"{alone}, and {change.floor_pct:.3g} % between two of the same code are "
            f"{'what was given' if settings.floor_pct is not None else 'assumed'}"
        )
        step = f"Give {LEAST_BLOCKS} captures of each side, or benches with several --processes."
        if moderated is not None:
            if _is_seen(pair, moderated, change):
                reason = f"{alone}, and they differ by more than is assumed of the same code"
            step = f"Give at least {LEAST_BLOCKS} {units} of each side: their own spread decides then."
        return replace(change, reason=reason, next_step=step, more=LEAST_BLOCKS - counts)
    deviation, between_runs = float(np.sqrt(moderated[0])), _run_error(pair)
    needed = units_needed(deviation, settings.margin_pct, tests, between_runs)
    reason = f"the interval is wider than ±{change.margin_pct:.2g} %, and the difference is not certain"
    floor, least = change.floor_pct or 0.0, abs(pair.difference)
    if not (change.low or 0.0) <= 1 <= (change.high or 0.0) and least <= np.log1p(floor / 100):
        reason = f"the difference is within the {floor:.3g} % by which {units} of the same code differ here"
    if needed > MOST_UNITS and pair.run_floor_pct:
        # More processes of one run do not tell how much runs differ; only more runs do.
        runs = units_needed(float(np.hypot(between_runs / np.sqrt(2), deviation / np.sqrt(counts))),
                            settings.margin_pct, tests)  # fmt: skip
        if runs <= MOST_UNITS:
            reason = f"each side is one run, and {pair.run_floor_pct:g} % between two runs of the same code are assumed"
            step = f"Give about {runs} runs of each side, measured in turn, or --floor; or bench both sides in turn."
            return replace(change, reason=reason, next_step=step, more=runs - 1)
    if needed > MOST_UNITS:
        return replace(change, reason=reason, next_step="Too noisy for this margin: give a wider --margin.")
    needed = max(needed, counts + 1)
    more = needed - counts
    how = "bench --processes" if units == "processes" else "repeat the measurement"
    step = f"About {needed} {units} of each side would tell {settings.margin_pct:g} %: {more} more ({how})."
    return replace(change, reason=reason, next_step=step, more=more)


def _too_few(pair: MeasuredPair, change: LatencyChange) -> LatencyChange:
    have = min(len(pair.baseline.flat), len(pair.candidate.flat))
    return replace(
        change,
        reason=f"{have} block{'s' if have != 1 else ''} of a side: too few for a test",
        next_step=f"At least {LEAST_BLOCKS} blocks of each side: several captures, or bench with more --rounds.",
    )


def unmeasured_case(name: str, old: SideOfCase, new: SideOfCase) -> LatencyChange:
    """Return a case that at least one side did not measure, which has no verdict."""
    parts = [
        f"{side.status} in the {title}" + (f": {side.reason}" if side.reason else "")
        for title, side in (("baseline", old), ("candidate", new))
        if side.median_ns is None
    ]
    return LatencyChange(name, None, old, new, reason="; ".join(parts))


def units_needed(deviation: float, margin_pct: float, tests: int, between_runs: float = 0.0) -> int:
    """Return how many units each side needs to find a difference of the margin with a power of 80 %; at most 1001.

    The difference must be found by the t test, which asks whether it is beyond LEAST_PCT, and exceed the noise floor of
    that many units.

    deviation: the standard deviation of a unit's log median.
    tests: the number of cases; where one of them differs, the correction asks it for alpha / tests.
    between_runs: the standard deviation of the difference between two runs, which more units of a run do not reduce.
    """
    wanted = float(np.log1p(margin_pct / 100))
    beyond = wanted - float(np.log1p(LEAST_PCT / 100))
    alpha = ALPHA / max(1, tests)
    if between_runs > 0 and normal_sf(t_isf(alpha / 2, MOST_FREEDOM) - beyond / between_runs) < POWER:
        return MOST_UNITS + 1

    def is_enough(count: int) -> bool:
        measured = deviation**2 * 2 / count
        total = measured + between_runs**2
        if total == 0:
            return True
        freedom = (2 * count - 2) * (total / measured) ** 2 if measured > 0 else MOST_FREEDOM
        freedom, error = min(freedom, MOST_FREEDOM), float(np.sqrt(total))
        tested = nct_sf(float(t_isf(alpha / 2, freedom)), freedom, beyond / error)
        above_floor = nct_sf(_FLOOR_ERRORS * float(np.sqrt(measured)) / error, freedom, wanted / error)
        return min(tested, above_floor) >= POWER

    return 2 + bisect_left(range(2, MOST_UNITS + 1), True, key=is_enough)  # the power grows with the number of units


# Only this many ranges are judged: each costs a bootstrap, and makes every other verdict harder to reach.
MOST_JUDGED = 40
# The most stretches of a series, each of which stands for a block. More make the bootstrap slow and decide nothing.
_MOST_STRETCHES = 200
# A change of wall time below this (percent) does not become the headline.
_LEAST_WALL_PCT = 1.0
_DECIDED = (LatencyVerdict.SLOWER, LatencyVerdict.FASTER)
Key = tuple[str, str]

WALL_METHOD = (
    "the time of a range is judged as a case's latency is: stretches of its instances after the warm-up, twice as long "
    "as their autocorrelation but at least eight of them, are blocks, a trace is a process (a run, where a side has "
    f"several): the {MOST_JUDGED} ranges with the most time with at least {LEAST_INSTANCES} instances on each side",
)


def judge_walls(
    changes: Sequence[RangeChange],
    baseline: Sequence[Mapping[Key, RangeFacts]],
    candidate: Sequence[Mapping[Key, RangeFacts]],
    settings: Settings,
) -> tuple[RangeChange, ...]:
    """Return the changes with a verdict on the time of each range; None where it has too few instances.

    changes: what compare_ranges returned for these sides.
    """
    chosen = _chosen(changes)
    sides = [[_wall_samples(facts, chosen) for facts in side] for side in (baseline, candidate)]
    # The key only has to distinguish ranges.
    old, new = (cast("list[dict[Case, Measured]]", side) for side in sides)
    names = cast("dict[Case, str]", dict(chosen))
    judged = compare_latencies(old, new, names, settings) if chosen else None
    if judged is None:
        return tuple(changes)
    by_key: dict[Key, LatencyChange] = dict(zip(_order(old, new), judged.changes, strict=True))
    return tuple(_with_verdict(change, by_key.get((change.range, change.domain))) for change in changes)


def choose_headline(changes: Sequence[RangeChange], step: str | None = None) -> RangeChange | None:
    """Return the range of the program whose total wall time changed the most; None where no change is certain.

    A range with a verdict must be slower or faster by it. A range with too few instances for a verdict may be chosen
    too, unless the time of a step is known, which tells more.

    step: the range of the steps, if their time is told. It is not chosen.
    """
    sizes = {}
    for number, change in enumerate(changes):
        wall = change.metrics.get("wall")
        if change.how != "both" or wall is None or wall.change is None or abs(wall.change_pct or 0) < _LEAST_WALL_PCT:
            continue
        if change.is_library or change.range == step:
            continue
        verdict = None if change.wall_verdict is None else change.wall_verdict.verdict
        if verdict in _DECIDED or (change.wall_verdict is None and step is None):
            sizes[number] = abs(wall.change) * min(change.baseline_calls, change.candidate_calls)
    return changes[max(sizes, key=lambda number: sizes[number])] if sizes else None


def _chosen(changes: Sequence[RangeChange]) -> dict[Key, str]:
    """Return the labels of the ranges to judge, by (range, domain)."""
    able = [change for change in changes if change.how == "both" and change.wall_ratio is not None]
    able = [change for change in able if change.range != WHOLE_TRACE]
    able.sort(key=lambda change: -(change.metrics["wall"].baseline or 0) * change.baseline_calls)
    return {(change.range, change.domain): change.label for change in able[:MOST_JUDGED]}


def _wall_samples(facts: Mapping[Key, RangeFacts], chosen: Mapping[Key, str]) -> dict[Key, Measured]:
    samples = {}
    for key in chosen:
        walls = tuple(wall for wall in facts[key].walls_ns if wall > 0) if key in facts else ()
        if walls:
            stretches = tuple(map(tuple, cut_shortest_stretches(walls, _MOST_STRETCHES)))
            samples[key] = Measured("ok", processes=(stretches,), host_bound=facts[key].host_bound)
    return samples


def _order(old: Sequence[Mapping[Case, Measured]], new: Sequence[Mapping[Case, Measured]]) -> list[Key]:
    """Return the keys in the order in which compare_latencies returns their changes."""
    return cast("list[Key]", list(dict.fromkeys(key for cases in (*old, *new) for key in cases)))


def _with_verdict(change: RangeChange, judged_wall: LatencyChange | None) -> RangeChange:
    if judged_wall is None or judged_wall.verdict is None:
        return change
    return replace(change, wall_verdict=judged_wall)


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
    def level_ns(self) -> float:
        """Return the geometric mean of the units' medians (ns), which is what is tested."""
        return float(np.exp(self.levels.mean()))

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
    # Whether a unit is a run, such as a trace.
    of_runs: bool = False

    @property
    def is_assumed(self) -> bool:
        """Return whether there are too few runs of what the GPU determines to go by their own spread alone."""
        return self.has_few_runs and not self.host_bound

    @property
    def has_few_runs(self) -> bool:
        return self.of_runs and min(len(self.baseline.blocks), len(self.candidate.blocks)) < LEAST_BLOCKS

    @property
    def difference(self) -> float:
        """Return the log ratio of the candidate's level to the baseline's."""
        return float(self.candidate.levels.mean() - self.baseline.levels.mean())

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
