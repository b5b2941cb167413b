"""Share the time of a search among the shapes of a program: decide which cells are measured next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nsysprof.attention.case import Case
from nsysprof.results.samples import Block

if TYPE_CHECKING:
    from nsysprof.analysis.attention_tuning.choose_shapes import ChosenShapes

# A shape that has had this many times the smallest time for its share waits for the others.
_AHEAD = 2.0
_NS = 1e-9


def cells_by_share(
    chosen: ChosenShapes, cells: Sequence[Case], wanted: Sequence[int], blocks: Sequence[Block]
) -> list[int]:
    """Return the cells to measure next: those of the shapes that have had the least time for their share.

    wanted: the cells that need more blocks.
    """
    weights = {use.shape: max(use.weight, 1e-3) for use in chosen.chosen}
    spent = dict.fromkeys(weights, 0.0)
    for block in blocks:
        spent[cells[block.cell].shape] += _NS * sum(block.values_ns)
    had = {shape: spent[shape] / weight for shape, weight in weights.items()}
    open_shapes = {cells[cell].shape for cell in wanted}
    least = min((had[shape] for shape in open_shapes), default=0.0)
    return [cell for cell in wanted if had[cells[cell].shape] <= _AHEAD * least or least == 0.0]
