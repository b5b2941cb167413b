"""Successive halving over backends of equal work: which of them are still worth measuring.

A backend is dropped when it is far behind the best of its shape in every block, so that the slow ones cost one round,
or when the test of significance.py calls it slower, corrected for all comparisons of all shapes as in the end: what is
dropped needs no more blocks for its verdict. The best two of a shape stay to the end whatever comes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from nsysprof.analysis.latency import Floats

# So much slower in every block that no number of samples would change it. To be dropped takes more than to be called
# far behind: the best's later blocks may be slower than its first.
_DROPPED, FAR_BEHIND = 2.0, 1.5
MOST_BLOCKS = 12
_LEAST_ALONE = 4


def is_far_behind(best: Floats, other: Floats, factor: float = FAR_BEHIND) -> bool:
    """Whether every block of `other` is far slower than every one of `best`; medians of blocks in ns."""
    return bool(other.min() > factor * best.max())


def by_median(medians: Mapping[str, Floats]) -> list[str]:
    """The backends of one shape that have blocks, best first. medians: of each backend's blocks, in ns."""
    return sorted((n for n, values in medians.items() if len(values)), key=lambda n: float(np.median(medians[n])))


def survivors(medians: Mapping[str, Floats], slower: Collection[str]) -> list[str]:
    """The backends to go on with, best first. slower: those that the test calls slower than the best."""
    order = by_median(medians)
    if len(order) <= 2:
        return order
    best = medians[order[0]]
    kept = [n for n in order[2:] if n not in slower and not is_far_behind(best, medians[n], _DROPPED)]
    return [*order[:2], *kept]


def unsettled(medians: Mapping[str, Floats], slower: Collection[str], most: int = MOST_BLOCKS) -> list[str]:
    """The backends of one shape that need more blocks: those still in the race that have fewer than `most`.

    A backend without any block yet needs one. Where a shape has one backend only, four blocks give it its interval.
    """
    fresh = [name for name, values in medians.items() if len(values) == 0]
    enough = _LEAST_ALONE if len(medians) == 1 else most
    return fresh + [name for name in survivors(medians, slower) if len(medians[name]) < enough]
