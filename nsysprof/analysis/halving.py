"""Successive halving over backends of equal work: which of them are still worth measuring.

A backend is dropped when it is far behind the best of its shape in every block, so that the slow ones cost one round,
or when the test of significance.py calls it slower. The best two of a shape stay to the end whatever comes, since what
is claimed is a difference of these two. What is dropped keeps its samples.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nsysprof.analysis.latency import Floats
from nsysprof.analysis.significance import Verdict, compare_medians, decide

# So much slower in every block that no number of samples would change it.
FAR_BEHIND = 1.5
MOST_BLOCKS = 12
_LEAST_ALONE = 4


def is_far_behind(best: Floats, other: Floats) -> bool:
    """Whether every block of `other` is far slower than every one of `best`; medians of blocks in ns."""
    return bool(other.min() > FAR_BEHIND * best.max())


def survivors(medians: Mapping[str, Floats], floor_pct: float) -> list[str]:
    """The backends to go on with, best first. medians: of each backend's blocks so far, in ns."""
    known = {name: values for name, values in medians.items() if len(values)}
    order = sorted(known, key=lambda name: float(np.median(known[name])))
    if len(order) <= 2:
        return order
    best, rest = known[order[0]], order[2:]
    # Each test by itself: that a backend is dropped claims nothing.
    verdicts = [decide([compare_medians(best, known[name])], floor_pct)[0] for name in rest]
    slower = [found is not None and found.verdict is Verdict.SLOWER for found in verdicts]
    return [
        *order[:2],
        *(n for n, is_slower in zip(rest, slower, strict=True) if not is_slower and not is_far_behind(best, known[n])),
    ]


def unsettled(medians: Mapping[str, Floats], floor_pct: float, most: int = MOST_BLOCKS) -> list[str]:
    """The backends of one shape that need more blocks: those still in the race that have fewer than `most`.

    A backend without any block yet needs one. Where a shape has one backend only, four blocks give it its interval.
    """
    fresh = [name for name, values in medians.items() if len(values) == 0]
    alive = survivors(medians, floor_pct)
    enough = _LEAST_ALONE if len(medians) == 1 else most
    return fresh + [name for name in alive if len(medians[name]) < enough]
