"""Compute how much of something a step has, in the same steps whose time a replay gives: all but the first of several.

The first replayed step only prepares the state. If it counted, a text would name other times than those it saves.
"""

from __future__ import annotations

import numpy as np

from nsysprof.analysis.findings.situation import Situation
from nsysprof.trace.schema import Bools, Int64s


def in_calls(situation: Situation, chosen: Bools, values: Int64s | None = None) -> float:
    """Return how many of these calls a step has, or the sum of their values in it.

    chosen: which calls.
    values: a number for each call of the graph.
    """
    return _each_step(situation, chosen, values, situation.graph.first_calls)


def in_work(situation: Situation, chosen: Bools, values: Int64s | None = None) -> float:
    """Return how many of these pieces of work a step has, or the sum of their values in it.

    chosen: which work.
    values: a number for each piece of work of the graph.
    """
    return _each_step(situation, chosen, values, int(situation.graph.first_work[situation.graph.first_calls]))


def in_work_by(situation: Situation, chosen: Bools, values: Int64s, owner: Int64s) -> dict[int, float]:
    """Return the sum of values in a step of the work that each owner has.

    chosen: which work; its owners are not negative.
    values: a number for each piece of work of the graph.
    owner: the number of the owner of each piece.
    """
    since = int(situation.graph.first_work[situation.graph.first_calls])
    chosen, values, owner = chosen[since:], values[since:], owner[since:]
    sums = np.bincount(owner[chosen], values[chosen]) / situation.periods
    return {number: float(sums[number]) for number in np.unique(owner[chosen]).tolist()}


def _each_step(situation: Situation, chosen: Bools, values: Int64s | None, since: int) -> float:
    counts = chosen[since:]
    total = np.count_nonzero(counts) if values is None else values[since:][counts].sum()
    return float(total / situation.periods)


def number_text(per_step: float) -> str:
    """Return how often something happens in a step, as text: "3,999", "2", "2.5"."""
    return f"{per_step:,.0f}" if per_step >= 10 or per_step == int(per_step) else f"{per_step:.1f}"


def counted(per_step: float, one: str, many: str = "") -> str:
    """Return how often something happens in a step, with its noun: "1 copy", "2.5 copies"."""
    number = number_text(per_step)
    return f"{number} {one if number == '1' else many or one + 's'}"
