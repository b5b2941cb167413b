"""Find where a series of instances settles. Earlier instances that differ from the rest are left out of medians."""

from __future__ import annotations

import itertools

import numpy as np

from nsysprof.trace.schema import Bools, Int64s, Ints

LEAST_INSTANCES = 3
# An instance is unlike the steady ones beyond so many standard deviations (of the median absolute deviation), but at
# least this share of the median: with few instances the deviation is not known well.
_DEVIATIONS = 5.0
_LEAST_SHARE = 0.10
_LEAST_SHARE_OF_FEW = 0.50
_FEW = 8
_SIGMA = 1.4826
# A beginning that is longer than this share of the series, and less than so many times as slow, may be a phase.
_PHASE_SHARE = 1 / 3
_SLOW = 2.0


def count_warm_up(wall_ns: Int64s) -> int:
    """Return how many instances from the start come before the change point, 0 where the series is alike throughout.

    The last half is taken as steady. Each instance before it that is unlike its median counts for the change point,
    each that is alike against it, and the point with the highest sum is taken: one that is alike by chance among
    many unlike ones does not end the warm-up, and a slow one in the middle is not one. A long and steady beginning is
    a phase of the program, not its warm-up, unless it is more than twice as slow. wall_ns: in order of start.
    """
    half = len(wall_ns) // 2
    if len(wall_ns) < LEAST_INSTANCES:
        return 0
    middle, tolerance = tolerance_ns(wall_ns[half:], len(wall_ns))
    score = np.cumsum(np.where(np.abs(wall_ns[:half] - middle) > tolerance, 1, -1))
    best = int(np.argmax(score))
    if score[best] <= 0:
        return 0
    settled = best + 1
    if settled > len(wall_ns) * _PHASE_SHARE and _is_phase(wall_ns[:settled], middle):
        return count_warm_up(wall_ns[:settled])
    # A warm-up that reaches the half may go on behind it.
    return settled + (count_warm_up(wall_ns[half:]) if settled == half and half >= _FEW else 0)


def _is_phase(wall_ns: Int64s, steady_ns: float) -> bool:
    middle = float(np.median(wall_ns))
    deviation = float(np.median(np.abs(wall_ns - middle))) * _SIGMA
    return middle <= _SLOW * steady_ns and abs(middle - steady_ns) > _DEVIATIONS * deviation


def tolerance_ns(steady: Int64s, instances: int) -> tuple[float, float]:
    """Return the median of the steady walls, and how far from it an instance is still alike (ns)."""
    middle = float(np.median(steady))
    deviation = float(np.median(np.abs(steady - middle))) * _SIGMA
    least = _LEAST_SHARE if instances >= _FEW else _LEAST_SHARE_OF_FEW
    return middle, max(_DEVIATIONS * deviation, least * middle)


def mark_warm_up(series: Ints, wall_ns: Int64s) -> Bools:
    """Return for each instance (in order of start) whether it is of the warm-up of its series."""
    marked = np.zeros(len(series), dtype=bool)
    order = np.argsort(series, kind="stable")
    edges = np.flatnonzero(np.diff(series[order], prepend=-1, append=-1))
    for low, high in itertools.pairwise(edges.tolist()):
        if high - low >= LEAST_INSTANCES:
            rows = order[low:high]
            marked[rows[: count_warm_up(wall_ns[rows])]] = True
    return marked


def steady_medians(group: Ints, wall_ns: Int64s, warm_up: Bools, groups: int) -> tuple[Int64s, Bools]:
    """Return the median wall of each group's instances after the warm-up (ns), and which groups have any."""
    chosen = np.flatnonzero(~warm_up)
    order = chosen[np.lexsort((wall_ns[chosen], group[chosen]))]
    edges = np.searchsorted(group[order], np.arange(groups + 1))
    low, high = edges[:-1], edges[1:]
    known = high > low
    median = np.zeros(groups, dtype=np.int64)
    sorted_ns = wall_ns[order]
    count = (high - low)[known]
    first, second = low[known] + (count - 1) // 2, low[known] + count // 2
    median[known] = (sorted_ns[first] + sorted_ns[second]) // 2
    return median, known
