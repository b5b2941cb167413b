"""Decide the choices of a policy that the search left open, by what the program itself ran."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from nsysprof.analysis.attention_tuning.choose_shapes import shape_of_use, why_not
from nsysprof.analysis.sampling.tune import OPEN, Choice
from nsysprof.attention.policy_file import AUTO
from nsysprof.attention.shape import Shape, shape_of_row

if TYPE_CHECKING:
    import pandas as pd

    from nsysprof.analysis.attention_tuning.choose_shapes import ChosenShapes
    from nsysprof.results.optimization import CapturedAttention

# The reason for leaving a shape to torch when torch's own choice is already the best backend.
OWN = "own choice"


def fill_groups(chosen: ChosenShapes, choices: Sequence[Choice]) -> list[Choice]:
    """Return the choices, with shapes between two tuned ones added where both have the same backend."""
    by_shape: dict[Shape, Choice] = {choice.shape: choice for choice in choices}
    found = list(choices)
    for use in chosen.chosen:
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
        if choice.why == OPEN
        and len(own := ran.get(_bare(choice.shape), set())) == 1
        and left.get(choice.shape, {""}) <= {AUTO, *own}
        else choice
        for choice in choices
    ]


def _bare(shape: Shape) -> Shape:
    return msgspec.structs.replace(shape, pass_="fwd", layout="bhsd")
