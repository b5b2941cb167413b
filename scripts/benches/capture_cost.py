"""Judge what `capture` costs beyond a bare nsys, from turns that recorded the same program with each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nsysprof.analysis.sampling.significance import estimate, fit

# The peer and the command that is judged.
SIDES = ("nsys profile", "nsysprof capture")


def describe_cost(turns: Sequence[Mapping[str, Mapping[str, float]]], key: str) -> str:
    """Return by how many percent the second side takes longer, with the 95 % interval over the turns.

    turns: for each side of SIDES its times, of which `key` is one. At least two turns.
    """
    ratios = [math.log(each[SIDES[1]][key] / each[SIDES[0]][key]) for each in turns]
    cost = estimate(np.array(ratios), fit([]))
    assert cost is not None
    low, middle, high = (100 * math.expm1(cost.value + side * cost.reach()) for side in (-1, 0, 1))
    return f"{middle:+.1f} % [{low:+.1f} %, {high:+.1f} %]"
