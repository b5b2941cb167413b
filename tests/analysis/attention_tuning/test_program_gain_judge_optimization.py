"""The answer of an optimization, and the lines of the program whose shapes change."""

from dataclasses import replace

import pytest

from nsysprof.analysis.attention_tuning.program_gain import judge_optimization
from nsysprof.attention.shape import Shape
from nsysprof.results.comparison import LatencyChange, LatencyVerdict, SideOfCase
from nsysprof.results.program_runs import (
    UNFUSED_ATTENTION,
    Attempt,
    AttentionUse,
    ChangingSite,
    MemoryChange,
    MemoryKind,
    Optimization,
    OptimizationAnswer,
    ProgramComparison,
    ProgramSideSummary,
    Suggestion,
    TunedUse,
)

USE = AttentionUse("train.py:8", Shape(seq=64), 3, "flash", 5, 12.0)
FUSE = Suggestion(UNFUSED_ATTENTION, "Fuse it.")


def attempt(verdict, *, is_better=False):
    side = SideOfCase("ok", median_ns=10.0)
    summary = ProgramSideSummary("as it is", 3, 0, 10.0, 10, 100, None)
    change = LatencyChange("train.py", verdict, side, side, ratio=0.9, low=0.8, high=1.0)
    found = ProgramComparison(("train.py",), summary, summary, "printed lines", change, None)
    return Attempt("the policy", "it won", "A=1", "", None, found, is_better, "bench-policy")


def tuned(why):
    return TunedUse("train.py:8", Shape(seq=64), "auto", why, None, 12.0, in_policy=False)


def optimization(uses=(), tunings=(), attempts=(), suggestions=(), failure=""):
    return Optimization(("train.py",), uses, 12.0, tunings, attempts, suggestions, (), failure=failure)


def smaller(verdict):
    found = attempt(verdict)
    memory = (MemoryChange(MemoryKind.RESERVED, (54 << 30, 55 << 30), (7 << 30, 8 << 30)),)
    return replace(found, comparison=replace(found.comparison, memory=memory), saves_memory=True)


FASTER, OPEN = attempt(LatencyVerdict.FASTER, is_better=True), attempt(LatencyVerdict.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("found", "answer"),
    [
        (optimization((USE,), (), (OPEN, FASTER), (FUSE,), "It broke."), OptimizationAnswer.FASTER),
        (optimization((USE,), (), (OPEN,), (FUSE,), "It broke."), OptimizationAnswer.FAILED),
        (optimization((USE,), (), (OPEN, smaller(LatencyVerdict.SAME))), OptimizationAnswer.LESS_MEMORY),
        (optimization((USE,), (), (smaller(LatencyVerdict.SAME), FASTER)), OptimizationAnswer.FASTER),
        (optimization((USE,), (), (OPEN,), (FUSE,)), OptimizationAnswer.UNDECIDED_ATTEMPTS),
        (optimization((USE,), (tuned("inconclusive"),), (), (FUSE,)), OptimizationAnswer.FUSE_FIRST),
        (optimization((USE,), (tuned("tie"), tuned("inconclusive"))), OptimizationAnswer.UNDECIDED_SHAPES),
        (optimization((USE,), (tuned("tie"),)), OptimizationAnswer.NO_OTHER_BACKEND),
        (optimization((USE,)), OptimizationAnswer.NOT_TUNED),
        (optimization(), OptimizationAnswer.NOTHING),
        # it is faster but prints other values, so it is not better
        (optimization((USE,), (), (attempt(LatencyVerdict.FASTER),)), OptimizationAnswer.NOT_TUNED),
    ],
)
def test_the_first_answer_that_holds_is_given(found, answer):
    assert judge_optimization(found).answer is answer


def test_a_line_with_more_than_eight_shapes_changes_them():
    uses = tuple(AttentionUse("a.py:1", None, 1, None, None, None) for _ in range(9))
    few = tuple(AttentionUse("b.py:2", None, 1, None, None, None) for _ in range(8))
    assert judge_optimization(optimization((*uses, *few))).changing_sites == (ChangingSite("a.py:1", 9),)
