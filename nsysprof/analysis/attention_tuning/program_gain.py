"""Compute what a tuning saves a program: the measured ratio of each shape times the time the program spends on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pandas as pd

from nsysprof.analysis.attention_tuning.choose_shapes import ChosenShapes
from nsysprof.attention.policy_file import AUTO
from nsysprof.attention.shape import Shape, shape_of_row
from nsysprof.results.comparison import LatencyVerdict
from nsysprof.results.program_runs import (
    UNDECIDED,
    UNFUSED_ATTENTION,
    CapturedAttention,
    ChangingSite,
    Optimization,
    OptimizationAnswer,
    ProgramGain,
    ShapeRatio,
)
from nsysprof.units import format_ns

# What an undecided shape needs once it has all samples of a search.
MORE_SAMPLES = "more samples than a search takes (--blocks)"
# A line with more shapes than this is taken to change them from step to step.
_MANY_SHAPES = 8


def compute_gain(
    captured: CapturedAttention,
    chosen: ChosenShapes,
    choices: Mapping[Shape, str],
    table: pd.DataFrame,
    undecided: int = 0,
    failed: Mapping[Shape, str] = MappingProxyType({}),
    *,
    search_ended: bool = False,
    launching: int = 0,
) -> ProgramGain:
    """Return the expected saving.

    choices: the backend of each tuned shape.
    table: the table of summarize_bench, with the medians of all cases.
    undecided: how many shapes need more measurements for a decision.
    launching: how many shapes are left to torch because the CPU is the bottleneck of their calls.
    search_ended: whether every shape has all samples that a search takes, so that a larger budget decides nothing.
    """
    rows: dict[tuple[Shape, str], dict[Any, Any]] = {
        (shape_of_row(row), str(row["backend"])): row for row in table.to_dict("records")
    }
    spent = saved = low = high = 0.0
    faster, known = 0, bool(chosen.chosen)
    shape_ratios: list[ShapeRatio] = []
    for use in chosen.chosen:
        backend = choices.get(use.shape, AUTO)
        known &= use.kernel_total_ns is not None
        spent += use.kernel_total_ns or 0
        ratios = None if backend == AUTO else _ratios(rows.get((use.shape, AUTO)), rows.get((use.shape, backend)))
        if ratios is None or any(choices.get(shape) not in (None, backend) for shape in use.between):
            continue
        faster += 1
        # The bounds are the smallest and the largest saving.
        shape_ratios += [ShapeRatio(shape, ratios[0], ratios[2], ratios[1]) for shape in (use.shape, *use.between)]
        parts = [(use.kernel_total_ns or 0) * max(0.0, 1 - ratio) for ratio in ratios]
        saved, low, high = saved + parts[0], low + parts[1], high + parts[2]
    steps, whole = captured.steps or 1, _kernel_time(captured)
    pct = 100 * saved / whole if known and whole else None
    per = "step" if captured.steps else "recorded part"
    figures = [figure / steps if known else None for figure in (spent, saved, low, high)]
    measured = len(chosen.chosen) - len(failed)
    needed = MORE_SAMPLES if search_ended else "a longer --budget"
    noun = "measured shape needs" if measured == 1 else "measured shapes need"
    open_shapes = f"{undecided} of {measured} {noun} {needed}" if undecided else ""
    return ProgramGain(
        per=per,
        baseline_ns=figures[0],
        saved_ns=figures[1],
        saved_low_ns=figures[2],
        saved_high_ns=figures[3],
        attention_share_pct=captured.share_pct,
        saved_pct=pct,
        faster_shapes=faster,
        shapes=len(chosen.chosen),
        text=_say(faster, measured, open_shapes, figures, per, pct, captured.share_pct, launching),
        refused=(
            *(f"{refusal.calls:,} calls are not tuned: {refusal.reason}." for refusal in chosen.refused),
            *(
                f"{use.calls:,} calls are left to torch: {failed[use.shape]}"
                for use in chosen.chosen
                if use.shape in failed
            ),
        ),
        ratios=tuple(shape_ratios),
    )


def _ratios(auto: Mapping[Any, Any] | None, best: Mapping[Any, Any] | None) -> tuple[float, float, float] | None:
    """Return the time of the best backend over torch's choice: as measured, and the least and most favourable bound."""
    if auto is None or best is None:
        return None
    values = [[row[f"{part}_ns"] for part in ("median", "low", "high")] for row in (auto, best)]
    if any(value is None or value != value or value <= 0 for triple in values for value in triple):  # noqa: PLR0124 - NaN
        return None
    (auto_mid, auto_low, auto_high), (mid, low, high) = values
    return mid / auto_mid, high / auto_low, low / auto_high


def _kernel_time(captured: CapturedAttention) -> float | None:
    """Return the time of all kernels of the program (ns), from the shares of its attention."""
    for use in captured.uses:
        if use.kernel_total_ns and use.share_pct:
            return 100.0 * use.kernel_total_ns / use.share_pct
    return None


def _say(
    faster: int,
    shapes: int,
    open_shapes: str,
    figures: list[float | None],
    per: str,
    pct: float | None,
    share: float | None,
    launching: int,
) -> str:
    has = "" if share is None else f" Attention takes {share:.1f} % of the time of all kernels."
    if not shapes:
        return f"None of the program's attention could be measured.{has}"
    if not faster and launching and not open_shapes:
        which = "1 shape" if launching == 1 else f"{launching} shapes"
        return (
            f"Another backend has less work on the GPU for {which} of the program, but the CPU is the bottleneck of "
            f"these calls, so they are left to torch.{has}"
        )
    if not faster and open_shapes:
        return f"No backend was shown to be faster; {open_shapes}.{has}"
    if not faster:
        return f"The program gains nothing from another backend: torch's own choice is not beaten on its shapes.{has}"
    spent, saved, low, high = figures
    which = f"Another backend is faster for {faster} of the {shapes} tuned shapes of the program"
    if spent is None or saved is None or low is None or high is None:
        return f"{which}; what that saves is unknown, because the capture has no kernels."
    amount = "" if pct is None else f", {pct:.2f} % of the time of all kernels"
    return (
        f"{which}: it saves {format_ns(round(saved))} [{format_ns(round(low))}, {format_ns(round(high))}] of "
        f"{format_ns(round(spent))} of attention per {per}{amount}.{has}"
    )


def judge_optimization(optimization: Optimization) -> Optimization:
    """Return the optimization with its answer, and with the lines whose shapes change from call to call."""
    counts = Counter(use.site for use in optimization.uses)
    changing = tuple(ChangingSite(site, count) for site, count in counts.items() if count > _MANY_SHAPES)
    return replace(optimization, answer=_answer(optimization), changing_sites=changing)


def _answer(optimization: Optimization) -> OptimizationAnswer:
    proven = optimization.proven
    if proven.is_confirmed if proven is not None else optimization.best is not None:
        return OptimizationAnswer.FASTER
    if optimization.failure:
        return OptimizationAnswer.FAILED
    if optimization.smallest is not None:
        return OptimizationAnswer.LESS_MEMORY
    if any(attempt.comparison.change.verdict is LatencyVerdict.INCONCLUSIVE for attempt in optimization.attempts):
        return OptimizationAnswer.UNDECIDED_ATTEMPTS
    return _answer_without_a_gain(optimization)


def _answer_without_a_gain(optimization: Optimization) -> OptimizationAnswer:
    if any(suggestion.code == UNFUSED_ATTENTION for suggestion in optimization.suggestions):
        return OptimizationAnswer.FUSE_FIRST
    if any(use.why == UNDECIDED for use in optimization.tuned):
        return OptimizationAnswer.UNDECIDED_SHAPES
    if optimization.tuned:
        return OptimizationAnswer.NO_OTHER_BACKEND
    return OptimizationAnswer.NOT_TUNED if optimization.uses else OptimizationAnswer.NOTHING
