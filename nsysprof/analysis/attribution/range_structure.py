"""Compute how ranges relate: which encloses which, which names form a family, and when each family settles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.adoption import ThreadRanges, helped_parents
from nsysprof.analysis.attribution.nesting import Paths, find_paths, parents
from nsysprof.analysis.attribution.range_names import name_families
from nsysprof.analysis.attribution.warm_up import mark_warm_up
from nsysprof.trace.schema import Bools, Calls, Int64s


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
