"""Compare two versions of a program whose runs took turns: step time, peak memory and printed values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from nsysprof.analysis.comparison.compare_latency import Settings
from nsysprof.analysis.comparison.compare_turns import METHOD as TURNS
from nsysprof.analysis.comparison.compare_turns import compare_in_turn
from nsysprof.attention.shape import Case
from nsysprof.results.comparison import LatencyChange, Measured
from nsysprof.results.policy_use import add_uses
from nsysprof.results.program_runs import (
    OK,
    MemoryChange,
    MemoryKind,
    ProgramSideSummary,
    Sameness,
    TimedRun,
    ValueComparison,
)

BASELINE, CANDIDATE = "baseline", "candidate"
# Memory that differs by less (percent) is taken for the same.
LEAST_MEMORY_PCT = 5.0
# With fewer runs or steps there is no usual course of the steps.
LEAST_LEVELLED_RUNS, LEAST_LEVELLED_STEPS = 4, 5
# Steps are taken relative to the usual course where that leaves at most this part of how much they differ.
MOST_LEVELLED_SPREAD = 0.5
# What differs in fewer runs of each side may differ by chance.
LEAST_RUNS = 2
METHOD = (
    "a turn is one run of the program on each side, one after the other; which side begins alternates, and nothing is "
    "traced",
    "a run counts with the median of its steps after the warm-up; the optimizer's steps are timed by events on the GPU",
    "where steps differ in a way that every run repeats, as with sequences that grow, each counts relative to the "
    "median of the steps of its number in all runs, so that it is compared with the same step of the other side",
    *TURNS[1:],
    "values are compared one by one within each turn, relative to the larger of the two; where runs of the baseline "
    "differ by more than the tolerance among themselves, nothing can be said",
    f"memory differs where every run of one side stays below every run of the other, by {LEAST_MEMORY_PCT:g} % or more",
)
# The only case that the statistics of turns sees.
_PROGRAM = Case("program", seq=1)
_TINY = 1e-12


def compare_program_runs(runs: Sequence[TimedRun], name: str, settings: Settings) -> LatencyChange:
    """Return how the time of a step changed.

    name: what the program is called in the result.
    """
    runs = level_steps(runs)
    sides = {side: {_PROGRAM: _measured(_of(runs, side))} for side in (BASELINE, CANDIDATE)}
    comparison = compare_in_turn(sides[BASELINE], sides[CANDIDATE], {_PROGRAM: name}, settings)
    return comparison.changes[0]


def level_steps(runs: Sequence[TimedRun]) -> list[TimedRun]:
    """Return the runs with the times of their steps relative to the usual course of all runs, where there is one.

    Steps may differ in a way that every run repeats, as those of a program whose sequences grow. The median of a run
    is then the time of one step, and says nothing of the others. Each step is divided by the median of the steps of its
    number in all runs of both sides, so that a step counts against the same step of the other side. The unit of the
    tests is still the turn. Runs are left as they are where their numbers of steps differ, or where this makes the
    steps of a run no more alike.
    """
    good = [run for run in runs if run.status == OK]
    counts = {len(run.times_ns) for run in good}
    if len(counts) != 1 or len(good) < LEAST_LEVELLED_RUNS or min(counts) < LEAST_LEVELLED_STEPS:
        return list(runs)
    times = np.array([run.times_ns for run in good], dtype=float)
    if not (times > 0).all():
        return list(runs)
    logs = np.log(times)
    course = np.median(logs - np.median(logs, axis=1, keepdims=True), axis=0)
    levelled = logs - course
    if _spread(levelled) > MOST_LEVELLED_SPREAD * _spread(logs):
        return list(runs)
    levelled_times = iter(np.exp(levelled).round().astype(np.int64).tolist())
    return [replace(run, times_ns=tuple(next(levelled_times))) if run.status == OK else run for run in runs]


def _spread(logs: npt.NDArray[np.float64]) -> float:
    """Return how far the steps of a run usually lie from its median (logarithms), over all runs."""
    return float(np.median(np.abs(logs - np.median(logs, axis=1, keepdims=True))))


def summarize_side(runs: Sequence[TimedRun], side: str, label: str) -> ProgramSideSummary:
    """Return the median step time, peak memory and values of the runs of one side.

    label: the side's name for people.
    """
    mine = _of(runs, side)
    good = [run for run in mine if run.status == OK]
    peaks = [run.peak_bytes for run in good if run.peak_bytes is not None]
    reserved = [run.reserved_bytes for run in good if run.reserved_bytes is not None]
    uses = [run.use for run in mine if run.use is not None]
    return ProgramSideSummary(
        label,
        len(good),
        len(mine) - len(good),
        float(np.median([np.median(run.times_ns) for run in good])) if good else None,
        int(np.median([len(run.times_ns) for run in good])) if good else 0,
        max(peaks) if peaks else None,
        max(reserved) if reserved else None,
        add_uses(uses) if uses else None,
    )


def compare_memory(runs: Sequence[TimedRun]) -> tuple[MemoryChange, ...]:
    """Return the memory that differs between the sides in every run, with all runs; nothing where one side failed."""
    sides = {side: _of(runs, side) for side in (BASELINE, CANDIDATE)}
    if any(len(mine) < LEAST_RUNS or any(run.status != OK for run in mine) for mine in sides.values()):
        return ()
    changes = []
    for kind, name in ((MemoryKind.PEAK, "peak_bytes"), (MemoryKind.RESERVED, "reserved_bytes")):
        old, new = (tuple(getattr(run, name) for run in mine) for mine in sides.values())
        if None in (*old, *new):
            continue
        smaller, larger = (new, old) if max(new) < min(old) else (old, new)
        if min(larger) > (1 + LEAST_MEMORY_PCT / 100) * max(smaller):
            changes.append(MemoryChange(kind, old, new))
    return tuple(changes)


def compare_values(runs: Sequence[TimedRun], tolerance_pct: float) -> ValueComparison:
    """Return whether both sides printed the same values, within a tolerance (percent)."""
    old = {run.turn: run.values for run in _of(runs, BASELINE) if run.status == OK}
    new = {run.turn: run.values for run in _of(runs, CANDIDATE) if run.status == OK}
    turns = [turn for turn in old if turn in new]
    count = min((len(old[turn]) for turn in turns), default=0)
    if not count:
        return ValueComparison(Sameness.UNKNOWN, "no line matches --value-pattern on both sides", 0, tolerance_pct)
    first = old[turns[0]]
    repeated = [old[turn] for turn in turns[1:]]
    if any(len(old[turn]) != len(new[turn]) for turn in turns):
        text = "the sides print different numbers of values"
        return ValueComparison(Sameness.DIFFERENT, text, count, tolerance_pct)
    largest = max(_largest_pct(old[turn], new[turn]) for turn in turns)
    noise = max((_largest_pct(first, other) for other in repeated), default=None)
    shown = None if np.isinf(largest) else largest
    if noise is not None and noise > tolerance_pct:
        text = f"runs of the baseline differ among themselves by {noise:.2g} %: fix the seed, or give a wider tolerance"
        shown_noise = None if np.isinf(noise) else noise
        return ValueComparison(Sameness.UNKNOWN, text, count, tolerance_pct, shown, shown_noise)
    verdict = Sameness.EQUAL if largest <= tolerance_pct else Sameness.DIFFERENT
    return ValueComparison(verdict, "", count, tolerance_pct, shown, noise)


def _largest_pct(one: Sequence[float | None], other: Sequence[float | None]) -> float:
    if len(one) != len(other):
        return float("inf")
    pairs = [pair for pair in zip(one, other, strict=True) if pair != (None, None)]
    if any(a is None or b is None for a, b in pairs):
        return float("inf")
    differences = [abs(a - b) / max(abs(a), abs(b), _TINY) for a, b in pairs if a is not None and b is not None]
    return 100 * max(differences, default=0.0)


def _of(runs: Sequence[TimedRun], side: str) -> list[TimedRun]:
    return sorted((run for run in runs if run.side == side), key=lambda run: run.turn)


def _measured(runs: Sequence[TimedRun]) -> Measured:
    good = [run for run in runs if run.status == OK]
    if not good or len(good) < len(runs):
        bad = next((run for run in runs if run.status != OK), None)
        return Measured("absent" if bad is None else bad.status, "was not run" if bad is None else bad.reason)
    peaks = [run.peak_bytes for run in good if run.peak_bytes is not None]
    return Measured(
        OK,
        processes=tuple((run.times_ns,) for run in good),
        turns=tuple(run.turn for run in good),
        peak_bytes=max(peaks) if peaks else None,
    )
