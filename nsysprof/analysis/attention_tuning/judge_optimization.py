"""Judge an optimization as a whole: what its answer is, and which lines of the program change their shapes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from nsysprof.results.comparison import LatencyVerdict
from nsysprof.results.optimization import (
    UNDECIDED,
    UNFUSED_ATTENTION,
    ChangingSite,
    Optimization,
    OptimizationAnswer,
)

# A line with more shapes than this is taken to change them from step to step.
_MANY_SHAPES = 8


def judge_optimization(found: Optimization) -> Optimization:
    """Return the optimization with its answer, and with the lines whose shapes change from call to call."""
    counts = Counter(use.site for use in found.uses)
    changing = tuple(ChangingSite(site, count) for site, count in counts.items() if count > _MANY_SHAPES)
    return replace(found, answer=_answer(found), changing_sites=changing)


def _answer(found: Optimization) -> OptimizationAnswer:
    if found.best is not None:
        return OptimizationAnswer.FASTER
    if found.failure:
        return OptimizationAnswer.FAILED
    if found.smallest is not None:
        return OptimizationAnswer.LESS_MEMORY
    if any(each.comparison.change.verdict is LatencyVerdict.INCONCLUSIVE for each in found.attempts):
        return OptimizationAnswer.UNDECIDED_ATTEMPTS
    return _answer_without_a_gain(found)


def _answer_without_a_gain(found: Optimization) -> OptimizationAnswer:
    if any(each.code == UNFUSED_ATTENTION for each in found.suggestions):
        return OptimizationAnswer.FUSE_FIRST
    if any(use.why == UNDECIDED for use in found.tuned):
        return OptimizationAnswer.UNDECIDED_SHAPES
    if found.tuned:
        return OptimizationAnswer.NO_OTHER_BACKEND
    return OptimizationAnswer.NOT_TUNED if found.uses else OptimizationAnswer.NOTHING
