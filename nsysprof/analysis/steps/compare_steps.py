"""Compare how long a step takes on two sides. A step ends when the GPU has done its work, unlike the range of the host.

Its steady steps are judged together with the ranges, as one more series, so that the correction for many verdicts
counts it too.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

from nsysprof.analysis.attribution.range_names import same_in_runs
from nsysprof.analysis.comparison.compare_latency import Settings, judge_walls
from nsysprof.analysis.comparison.compare_ranges import compare_ranges
from nsysprof.results.comparison import METRICS, Input, RangeChange, RangeFacts, StepChange, StepWalls

STEP_CASE = "a step"
# The key of the steps among the ranges. No range has it: a name of NVTX ends before such a character.
_KEY = ("\0step", "")
# So many times of steps are kept. A verdict takes at most 200 stretches of them.
_MOST_SAMPLES = 10_000

METHOD = (
    "the time of a step is the mean of its steady steps without slow ones, the same as analyze tells: a step ends when "
    "the host has begun the next one and the GPU has done everything issued until then; for several traces of a side "
    "it is the median; the verdict is made from the steady steps, together with those on ranges",
)


def compare_steps(baseline: Sequence[Input], candidate: Sequence[Input]) -> StepChange | None:
    """Return how the time of a step changed, without a verdict; None unless all traces have steps of the same range."""
    old, new = (_steps(side) for side in (baseline, candidate))
    names = {(same_in_runs(steps.per), steps.is_marked) for steps in (*old, *new)}
    if not old or not new or len(names) > 1:
        return None
    before, after = (statistics.median(steps.step_ns for steps in side) for side in (old, new))
    ((name, is_marked),) = names
    return StepChange(name, before, after, is_marked=is_marked) if min(before, after) > 0 else None


def judge_steps_and_walls(
    step: StepChange | None,
    changes: Sequence[RangeChange],
    baseline: Sequence[Input],
    candidate: Sequence[Input],
    settings: Settings,
) -> tuple[StepChange | None, tuple[RangeChange, ...]]:
    """Return the step and the ranges with their verdicts; None where there are too few steps or instances.

    step: what compare_steps returned for these sides.
    changes: what compare_ranges returned for them.
    """
    old, new = ([source.ranges for source in side if source.ranges is not None] for side in (baseline, candidate))
    if step is None:
        return None, judge_walls(changes, old, new, settings)
    old_steps, new_steps = ([{_KEY: _facts(steps)} for steps in _steps(side)] for side in (baseline, candidate))
    first, *others = judge_walls(
        (*compare_ranges(old_steps, new_steps), *changes),
        [{**ranges, **steps} for ranges, steps in zip(old, old_steps, strict=True)],
        [{**ranges, **steps} for ranges, steps in zip(new, new_steps, strict=True)],
        settings,
    )
    verdict = first.wall_verdict
    return replace(step, verdict=None if verdict is None else replace(verdict, case=STEP_CASE)), tuple(others)


def _steps(side: Sequence[Input]) -> list[StepWalls]:
    """Return the steps of each trace of a side; nothing where any of its traces has none."""
    steps_of_traces = [source.steps for source in side if source.ranges is not None]
    known = [steps for steps in steps_of_traces if steps is not None]
    return known if len(known) == len(steps_of_traces) else []


def _facts(steps: StepWalls) -> RangeFacts:
    walls = steps.walls_ns[:_MOST_SAMPLES]
    metrics = dict.fromkeys(METRICS) | {"wall": sum(walls)}
    return RangeFacts(len(walls), None, metrics, None, {}, walls_ns=walls, host_bound=steps.host_bound)
