"""Tune for a program: tune its shapes instead of a grid, share the budget by their time, and compute the saving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nsysprof.analysis.attention_tuning.choose_shapes import ChosenShapes, choose_shapes, shape_of_use, why_not
from nsysprof.app.tuning.captured_attention import read_captured_attention
from nsysprof.attention.case import Case, make_case
from nsysprof.attention.policy_file import AUTO
from nsysprof.attention.shape import Shape, shape_of_row
from nsysprof.errors import UsageError
from nsysprof.results.block import Block
from nsysprof.results.programs.captured_attention import CapturedAttention

if TYPE_CHECKING:
    import pandas as pd

    from nsysprof.analysis.sampling.tune import Choice

# A shape that has had this many times the smallest time for its share waits for the others.
_AHEAD = 2.0
# The reason for leaving a shape to torch when torch's own choice is already the best backend.
OWN = "own choice"
_NS = 1e-9


@dataclass(frozen=True)
class ProgramShapes:
    """The attention that a program ran, and which of its shapes are tuned."""

    captured: CapturedAttention
    chosen: ChosenShapes


def read_program_shapes(source: Path, device: str) -> ProgramShapes:
    """Return what the program in a capture or analysis ran. Raises UsageError where it cannot be tuned here.

    device: where the tuning measures, "cuda" or "cpu".
    """
    captured = read_captured_attention(source)
    _check_machine(captured, device)
    chosen = choose_shapes(captured.uses)
    if not chosen.chosen:
        reasons = "; ".join(f"{each.calls:,} calls: {each.reason}" for each in chosen.refused)
        raise UsageError(
            f"None of the attention in {source} can be tuned: {reasons}.",
            "Change the program as these reasons suggest.",
        )
    return ProgramShapes(captured, chosen)


def cases_of(shapes: ProgramShapes, backends: Sequence[str]) -> tuple[Case, ...]:
    """Return the cases to measure, with torch's own choice among the backends."""
    names = tuple(dict.fromkeys((AUTO, *backends)))
    return tuple(make_case(backend, use.shape) for use in shapes.chosen.chosen for backend in names)


def cells_by_share(
    shapes: ProgramShapes, cells: Sequence[Case], wanted: Sequence[int], blocks: Sequence[Block]
) -> list[int]:
    """Return the cells to measure next: those of the shapes that have had the least time for their share.

    wanted: the cells that need more blocks.
    """
    weights = {use.shape: max(use.weight, 1e-3) for use in shapes.chosen.chosen}
    spent = dict.fromkeys(weights, 0.0)
    for block in blocks:
        spent[cells[block.cell].shape] += _NS * sum(block.values_ns)
    had = {shape: spent[shape] / weight for shape, weight in weights.items()}
    open_shapes = {cells[cell].shape for cell in wanted}
    least = min((had[shape] for shape in open_shapes), default=0.0)
    return [cell for cell in wanted if had[cells[cell].shape] <= _AHEAD * least or least == 0.0]


def fill_groups(shapes: ProgramShapes, choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices, with shapes between two tuned ones added where both have the same backend."""
    from nsysprof.analysis.sampling.tune import Choice

    by_shape: dict[Shape, Choice] = {choice.shape: choice for choice in choices}
    found = list(choices)
    for use in shapes.chosen.chosen:
        last, first = by_shape.get(use.shape), by_shape.get(use.between[0]) if use.between else None
        if last is None or first is None or last.backend != first.backend:
            continue
        found += [Choice(shape, last.backend, "between", None, None) for shape in use.between if shape not in by_shape]
    return found


def settle_own_choices(captured: CapturedAttention, choices: Sequence[Choice], winners: pd.DataFrame) -> list[Choice]:
    """Return the choices, with a shape settled where only the backend that torch chose is left beside torch's choice.

    Both are the same kernels, so no number of measurements can distinguish them.
    """
    ran: dict[Shape, set[str]] = {}
    for use in captured.uses:
        if use.row["backend_ran"] and use.row["pass"] == "fwd" and not why_not(use.row):
            ran.setdefault(_bare(shape_of_use(use.row, "fwd")), set()).add(str(use.row["backend_ran"]))
    left = {
        shape_of_row(row): {row["backend"], *filter(None, str(row["tied"]).split(", "))}
        for row in winners.to_dict("records")
    }
    return [
        replace(choice, why=OWN)
        if choice.why == "inconclusive"
        and len(own := ran.get(_bare(choice.shape), set())) == 1
        and left.get(choice.shape, {""}) <= {AUTO, *own}
        else choice
        for choice in choices
    ]


def _bare(shape: Shape) -> Shape:
    return msgspec.structs.replace(shape, pass_="fwd", layout="bhsd")


def _check_machine(captured: CapturedAttention, device: str) -> None:
    if captured.gpu_name is None:
        return
    if device == "cpu" and "NVIDIA" in captured.gpu_name:
        raise UsageError(
            f"The program ran on {captured.gpu_name}, and this tuning would measure on the CPU.",
            "Tune on the machine of the program.",
        )
    if device == "cuda":
        from nsysprof.environment import collect_gpus

        here = {str(gpu["name"]) for gpu in collect_gpus()}
        if here and captured.gpu_name not in here:
            raise UsageError(
                f"The program ran on {captured.gpu_name}, and this machine has {', '.join(sorted(here))}.",
                "Tune on the machine of the program, or capture it here.",
            )
