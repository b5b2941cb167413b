"""Compare two versions of a program whose runs took turns: step time, peak memory and printed values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsysprof.analysis.comparison.compare_latency import Settings
from nsysprof.analysis.comparison.compare_turns import METHOD as TURNS
from nsysprof.analysis.comparison.compare_turns import compare_in_turn
from nsysprof.attention.case import Case
from nsysprof.results.comparison import LatencyChange, Measured
from nsysprof.results.programs.policy_use import add_uses
from nsysprof.results.programs.program_runs import (
    OK,
    ProgramSideSummary,
    Sameness,
    TimedRun,
    ValueComparison,
)

BASELINE, CANDIDATE = "baseline", "candidate"
METHOD = (
    "a turn is one run of the program on each side, one after the other; which side begins alternates, and nothing is "
    "traced",
    "a run counts with the median of its steps after the warm-up; the optimizer's steps are timed by events on the GPU",
    *TURNS[1:],
    "values are compared one by one within each turn, relative to the larger of the two; where runs of the baseline "
    "differ by more than the tolerance among themselves, nothing can be said",
)
# The only case that the statistics of turns sees.
_PROGRAM = Case("program", seq=1)
_TINY = 1e-12


def compare_program_runs(runs: Sequence[TimedRun], name: str, settings: Settings) -> LatencyChange:
    """Return how the time of a step changed.

    name: what the program is called in the result.
    """
    sides = {side: {_PROGRAM: _measured(_of(runs, side))} for side in (BASELINE, CANDIDATE)}
    found = compare_in_turn(sides[BASELINE], sides[CANDIDATE], {_PROGRAM: name}, settings)
    return found.changes[0]


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
