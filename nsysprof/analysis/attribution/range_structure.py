"""Compute how ranges relate: which encloses which, which names form a family, and when each family settles."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.adoption import ThreadRanges, helped_parents
from nsysprof.analysis.attribution.nesting import Paths, find_paths, parents
from nsysprof.analysis.attribution.range_names import name_families
from nsysprof.arrays import find_trend
from nsysprof.trace.schema import Bools, Calls, Int64s, Ints

# With fewer instances, none can be told to be warm-up.
LEAST_INSTANCES = 3
# An instance differs from the steady ones if it is further from their median than this many standard deviations
# (estimated by the median absolute deviation), and at least this share of the median. Few instances estimate the
# deviation poorly.
_DEVIATIONS = 5.0
_LEAST_SHARE = 0.10
_LEAST_SHARE_OF_FEW = 0.50
_FEW = 8
_SIGMA = 1.4826
# A beginning that lasts longer than this share of the series, and is less than this many times as slow, may be a phase
# of the program.
_PHASE_SHARE = 1 / 3
_SLOW = 2.0


@dataclass(frozen=True)
class SteadyFrom:
    """From when on the instances of the step range on one thread are steady."""

    family: str
    global_tid: int
    # The instances that begin before this time (ns) are warm-up, and no others.
    start_ns: int


@dataclass(frozen=True)
class RangeStructure:
    """The structure of range instances, in order of start."""

    # The row of the enclosing push/pop range of the thread, or -1.
    parent: Int64s
    # Paths made of the ranges' own names, and paths made of the names of their families. Here the ranges of a thread
    # that works for another one are inside the ranges that wait for it.
    paths: Paths
    folded: Paths
    # Paths made of the ranges' own names, of their own threads alone.
    on_thread: Paths
    # The family of each group of ranges, such as `step#`.
    families: list[str]
    # The number of each instance's series (see find_structure).
    series: Int64s
    # Whether each instance belongs to the warm-up of its series.
    warm_up: Bools


def find_structure(
    ranges: pd.DataFrame, keys: pd.DataFrame, calls: Calls | None = None, steady_from: Sequence[SteadyFrom] = ()
) -> RangeStructure:
    """Return the structure of the ranges.

    Instances of one family, style and domain on one thread form a series, which has one warm-up.

    ranges: instances in order of start, with `group`.
    keys: name, style and domain of each group.
    calls: all API calls, which tell whether a thread waits for another; None where they were not recorded.
    steady_from: when steps settled, for each thread that has some; all other warm-up is found here.
    """
    parent = parents(ranges)
    around = parent if calls is None else helped_parents(ThreadRanges(ranges, parent, calls))
    group = ranges["group"].to_numpy(dtype=np.int64)
    names = keys["name"].tolist()
    families = name_families(names)
    kind = pd.MultiIndex.from_arrays([families, keys["style"], keys["domain"]])
    codes, kinds = pd.factorize(kind)
    family_of = codes.astype(np.int64)[group] if len(keys) else group
    tid = pd.factorize(ranges["global_tid"])[0].astype(np.int64)
    series = family_of * (int(tid.max(initial=0)) + 1) + tid
    wall = (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64)
    paths = find_paths(around, group, names)
    return RangeStructure(
        parent=parent,
        paths=paths,
        on_thread=paths if np.array_equal(around, parent) else find_paths(parent, group, names),
        folded=find_paths(around, family_of, [family for family, _, _ in kinds]),
        families=families,
        series=series,
        warm_up=_settle(mark_warm_up(series, wall), steady_from, ranges, families),
    )


def _settle(warm_up: Bools, steady_from: Sequence[SteadyFrom], ranges: pd.DataFrame, families: list[str]) -> Bools:
    group, tid = (ranges[name].to_numpy(dtype=np.int64) for name in ("group", "global_tid"))
    settled = warm_up.copy()
    for steady in steady_from:
        mine = np.array([family == steady.family for family in families], dtype=bool)[group] & (
            tid == steady.global_tid
        )
        settled[mine] = ranges["start_ns"].to_numpy(dtype=np.int64)[mine] < steady.start_ns
    return settled


def count_warm_up(wall_ns: Int64s) -> int:
    """Return how many instances from the start belong to the warm-up; 0 where all are alike.

    The last half is taken as steady. Each earlier instance that differs from its median scores for the change point,
    and each that does not scores against it; the point with the highest sum wins. So one normal instance among many
    slow ones does not end the warm-up, and one slow instance in the middle does not extend it. A trend that lasts to
    the end is not a warm-up. A long and even beginning is a phase of the program, not its warm-up, unless it is more
    than twice as slow.

    wall_ns: the durations in order of start.
    """
    half = len(wall_ns) // 2
    if len(wall_ns) < LEAST_INSTANCES or find_trend(wall_ns) is not None:
        return 0
    middle, tolerance = tolerance_ns(wall_ns[half:], len(wall_ns))
    score = np.cumsum(np.where(np.abs(wall_ns[:half] - middle) > tolerance, 1, -1))
    best = int(np.argmax(score))
    if score[best] <= 0:
        return 0
    settled = best + 1
    if settled > len(wall_ns) * _PHASE_SHARE and _is_phase(wall_ns[:settled], middle):
        return count_warm_up(wall_ns[:settled])
    # A warm-up that reaches the middle may continue beyond it.
    return settled + (count_warm_up(wall_ns[half:]) if settled == half and half >= _FEW else 0)


def _is_phase(wall_ns: Int64s, steady_ns: float) -> bool:
    middle = float(np.median(wall_ns))
    deviation = float(np.median(np.abs(wall_ns - middle))) * _SIGMA
    return middle <= _SLOW * steady_ns and abs(middle - steady_ns) > _DEVIATIONS * deviation


def tolerance_ns(steady: Int64s, instances: int) -> tuple[float, float]:
    """Return the median of the steady durations, and how far from it an instance may lie to be like them (ns)."""
    middle = float(np.median(steady))
    deviation = float(np.median(np.abs(steady - middle))) * _SIGMA
    least = _LEAST_SHARE if instances >= _FEW else _LEAST_SHARE_OF_FEW
    return middle, max(_DEVIATIONS * deviation, least * middle)


def mark_warm_up(series: Ints, wall_ns: Int64s) -> Bools:
    """Return for each instance (in order of start) whether it belongs to the warm-up of its series."""
    marked = np.zeros(len(series), dtype=bool)
    order = np.argsort(series, kind="stable")
    edges = np.flatnonzero(np.diff(series[order], prepend=-1, append=-1))
    for low, high in itertools.pairwise(edges.tolist()):
        if high - low >= LEAST_INSTANCES:
            rows = order[low:high]
            marked[rows[: count_warm_up(wall_ns[rows])]] = True
    return marked


def steady_medians(group: Ints, wall_ns: Int64s, warm_up: Bools, groups: int) -> tuple[Int64s, Bools]:
    """Return the median duration of each group's instances after the warm-up (ns), and which groups have any."""
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
