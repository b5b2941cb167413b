"""Choose by successive halving which backends with equal work are still worth measuring.

A backend is dropped when it is far behind the best of its shape in every block, so that slow backends cost one round
only. It is also dropped when the test of significance.py calls it slower at the level of an interim test. The best two
of a shape always stay to the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from nsysprof.arrays import Floats

# A backend that is this many times slower in every block is dropped: more samples would not change that. Dropping takes
# a larger ratio than calling it far behind, because the best backend's later blocks may be slower than its first.
_DROPPED, FAR_BEHIND = 2.0, 1.5
# The blocks of each backend that stays to the end, how many always stay, and the blocks of a backend without a rival,
# which give it its interval.
MOST_BLOCKS, _KEPT, _LEAST_ALONE = 12, 2, 4
METHOD = (
    "Search: successive halving by shape. After each process a backend is dropped when every block of it is more than "
    f"{_DROPPED:g} times the best's, or the test calls it slower; the best {_KEPT} stay to the end. A shape has a "
    "winner where the test calls slower every other that stayed; else it is a tie, and the policy leaves the shape to "
    "torch where torch's own choice is part of the tie. Where the search found a winner, or something faster than "
    "torch's own choice, the best two and torch's choice are measured again in three fresh processes; these alone "
    "decide and give the numbers, because the best of a search is partly the luckiest."
)


def is_far_behind(best: Floats, other: Floats, factor: float = FAR_BEHIND) -> bool:
    """Return whether every block of `other` is far slower than every block of `best`.

    best, other: medians of blocks (ns).
    """
    return bool(other.min() > factor * best.max())


def by_median(medians: Mapping[str, Floats]) -> list[str]:
    """Return the backends of one shape that have blocks, the best first.

    medians: the medians of each backend's blocks (ns).
    """
    return sorted((n for n, values in medians.items() if len(values)), key=lambda n: float(np.median(medians[n])))


def survivors(medians: Mapping[str, Floats], slower: Collection[str]) -> list[str]:
    """Return the backends that are worth measuring further, the best first.

    slower: the backends that the test calls slower than the best.
    """
    order = by_median(medians)
    if len(order) <= _KEPT:
        return order
    best = medians[order[0]]
    kept = [n for n in order[_KEPT:] if n not in slower and not is_far_behind(best, medians[n], _DROPPED)]
    return [*order[:_KEPT], *kept]


def unsettled(medians: Mapping[str, Floats], slower: Collection[str], most: int = MOST_BLOCKS) -> list[str]:
    """Return the backends of one shape that need more blocks: those still in the race that have fewer than `most`.

    A backend without any block needs one. If a shape has only one backend, four blocks give it its interval.
    """
    fresh = [name for name, values in medians.items() if len(values) == 0]
    enough = _LEAST_ALONE if len(medians) == 1 else most
    return fresh + [name for name in survivors(medians, slower) if len(medians[name]) < enough]
