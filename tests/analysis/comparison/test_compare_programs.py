"""Two sides of a program: which values are equal, which memory certainly differs, and steps that grow."""

import numpy as np
import pytest
from msgspec.structs import replace

from nsysprof.analysis.comparison.compare_latency import Settings
from nsysprof.analysis.comparison.compare_programs import (
    compare_memory,
    compare_program_runs,
    compare_values,
    level_steps,
)
from nsysprof.results.program_runs import FAILED, OK, MemoryKind, Sameness, TimedRun


def runs(*turns):
    """Return the runs of turns, each given as the values of (baseline, candidate)."""
    return [
        TimedRun(side=side, turn=turn, status=OK, values=tuple(values))
        for turn, pair in enumerate(turns)
        for side, values in zip(("baseline", "candidate"), pair, strict=True)
    ]


@pytest.mark.parametrize(
    ("turns", "verdict"),
    [
        ([([1.0, 2.0], [1.001, 2.0]), ([1.0, 2.0], [1.0, 2.0])], Sameness.EQUAL),
        ([([1.0, 2.0], [1.02, 2.0])], Sameness.DIFFERENT),
        ([([1.0], [1.0, 2.0])], Sameness.DIFFERENT),
        ([([1.0, None], [1.0, 3.0])], Sameness.DIFFERENT),
        ([([1.0, None], [1.0, None])], Sameness.EQUAL),
        ([([0.0], [0.0])], Sameness.EQUAL),
        ([([], [])], Sameness.UNKNOWN),
        ([([1.0], [1.0]), ([1.5], [1.5])], Sameness.UNKNOWN),
    ],
)
def test_values(turns, verdict):
    assert compare_values(runs(*turns), 1.0).verdict is verdict


def test_runs_that_differ_among_themselves_ask_for_a_seed():
    found = compare_values(runs(([1.0], [1.0]), ([1.5], [1.5])), 1.0)
    assert found.noise_pct == pytest.approx(100 / 3)
    assert "fix the seed" in found.reason


def with_memory(baseline, candidate, status=OK):
    return [
        TimedRun(side=side, turn=turn, status=status, peak_bytes=100, reserved_bytes=size)
        for side, sizes in (("baseline", baseline), ("candidate", candidate))
        for turn, size in enumerate(sizes)
    ]


def test_memory_differs_where_every_run_of_one_side_stays_below_every_run_of_the_other():
    (found,) = compare_memory(with_memory((540, 550), (70, 80)))
    assert (found.kind, found.is_lower, found.saved_bytes) == (MemoryKind.RESERVED, True, 460)
    (found,) = compare_memory(with_memory((70, 80), (540, 550)))
    assert not found.is_lower


@pytest.mark.parametrize(
    ("baseline", "candidate", "status"),
    [
        ((540, 75), (70, 80), OK),  # the sides overlap
        ((104, 104), (100, 100), OK),  # 4 %
        ((540,), (70,), OK),  # one run may differ by chance
        ((540, 550), (70, None), OK),
        ((540, 550), (70, 80), FAILED),
    ],
)
def test_memory_is_not_said_to_differ(baseline, candidate, status):
    assert compare_memory(with_memory(baseline, candidate, status)) == ()


def growing(*levels):
    """Return turns of (baseline, candidate) whose steps grow from 1 to 4 ms, each times its level and some noise."""
    noise = np.random.default_rng(3)
    times = np.linspace(1e6, 4e6, 20)
    return [
        TimedRun(
            side=side,
            turn=turn,
            status=OK,
            times_ns=tuple((times * level * noise.lognormal(0, 0.03, 20)).round().astype(int).tolist()),
        )
        for turn, pair in enumerate(levels)
        for side, level in zip(("baseline", "candidate"), pair, strict=True)
    ]


def test_steps_that_grow_in_every_run_are_compared_with_the_same_step_of_the_other_side():
    runs = growing((1.0, 0.8), (1.0, 0.8), (1.0, 0.8))
    flat = level_steps(runs)
    assert all(max(run.times_ns) < 1.25 * min(run.times_ns) for run in flat)
    found = compare_program_runs(runs, "train.py", Settings())
    assert found.ratio == pytest.approx(0.8, rel=0.02)
    assert found.high / found.low < 1.1


def test_the_same_growing_steps_on_both_sides_are_no_difference():
    found = compare_program_runs(growing((1.0, 1.0), (1.1, 1.1), (0.9, 0.9), (1.0, 1.0)), "train.py", Settings())
    assert found.low < 1.0 < found.high


def test_steps_without_a_common_course_are_left_as_they_are():
    noise = np.random.default_rng(5)
    runs = [
        TimedRun(side=side, turn=turn, status=OK, times_ns=tuple(noise.integers(900, 1100, 20).tolist()))
        for turn in range(3)
        for side in ("baseline", "candidate")
    ]
    assert level_steps(runs) == runs
    shorter = [replace(run, times_ns=run.times_ns[: 10 + run.turn]) for run in growing((1.0, 1.0), (1.0, 1.0))]
    assert level_steps(shorter) == shorter
