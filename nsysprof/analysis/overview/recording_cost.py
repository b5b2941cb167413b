"""Compute what recording costs: compare a recording's ranges with the same program with NVTX only, or unrecorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import median

import pandas as pd

from nsysprof.analysis.attribution.range_names import name_families
from nsysprof.analysis.sampling.series_ratio import LEAST_INSTANCES, ratio_of_medians, ratio_within_run
from nsysprof.results.analysis import HOST_FINDINGS, MOST_COST, STEPS, RangeCost
from nsysprof.results.findings import Findings
from nsysprof.trace.schema import Int64s

# The start and the duration (ns) of each instance of a range.
Walls = Mapping[str, list[tuple[int, int]]]
# Ranges whose instances are shorter than this on average (ns) are left out of the comparison.
_LEAST_NS = 1_000
# No program has times beyond this (ns); a range without an end has such an end.
_FAR_NS = 1 << 61


def compare_with_plain(recorded: pd.DataFrame, plain: pd.DataFrame) -> tuple[RangeCost, ...]:
    """Return what recording costs each range that both runs have, those with the most time first.

    recorded, plain: the ranges as the reader of traces returns them.
    """
    return compare_walls(_walls(recorded), _walls(plain))


def compare_walls(recorded: Walls, plain: Walls, *, in_one_run: bool = False) -> tuple[RangeCost, ...]:
    """Return what recording costs each range that both sides have, those with the most time first.

    Names that differ only in a counter count as one range.

    in_one_run: whether both come from one run of the program, which was recorded for a part of its time in between.
    """
    names = list(dict.fromkeys((*recorded, *plain)))
    family = dict(zip(names, name_families(names), strict=True))
    old, new = _folded(plain, family), _folded(recorded, family)
    found = (
        cost_of(
            name,
            [wall for _, wall in old.get(name, [])],
            [wall for _, wall in new[name]],
            before=sum(start < new[name][0][0] for start, _ in old.get(name, [])) if in_one_run else None,
        )
        for name in new
    )
    return tuple(sorted((each for each in found if each), key=lambda cost: -cost.wall_med_ns * cost.instances))


def cost_of(name: str, plain: list[int], recorded: list[int], *, before: int | None = None) -> RangeCost | None:
    """Return what recording costs one range; None where its instances are too short to tell.

    The first instance of each side is left out where enough others are left.

    plain, recorded: the durations of the instances (ns), in order of time.
    before: how many plain instances came before the recorded ones in the same run; None where these had their own run.
    """
    old, new = _steady(plain), _steady(recorded)
    if not old or not new or min(sum(old) / len(old), sum(new) / len(new)) < _LEAST_NS:
        return None
    if before is None:
        slowdown, low, high = ratio_of_medians(old, new)
    else:
        switch = max(0, before - (len(plain) - len(old)))
        slowdown, low, high = ratio_within_run(old[:switch], new, old[switch:])
    medians = round(median(new)), round(median(old))
    return judge_cost(RangeCost(name, len(new), len(old), *medians, slowdown, low, high))


def judge_cost(cost: RangeCost) -> RangeCost:
    """Return the cost of a range with the verdict whether recording distorts it, also where it came from a file."""
    is_slower = cost.slowdown_low is not None and cost.slowdown_low > 1
    return replace(cost, is_distorted=is_slower and cost.slowdown > 1 + MOST_COST)


def without_distorted(found: Findings, costs: tuple[RangeCost, ...]) -> tuple[Findings, tuple[str, ...]]:
    """Return the findings that can be trusted, and the codes of the removed ones.

    Those removed are about the host's time in ranges that recording slows.
    """
    slowed = {cost.range for cost in costs if cost.is_distorted}
    is_out = [
        item.code in HOST_FINDINGS
        and (STEPS in slowed or bool({item.range, name_of(item.range, slowed), found.per} & slowed))
        for item in found.items
    ]
    kept = [item for item, out in zip(found.items, is_out, strict=True) if not out]
    gone = tuple(dict.fromkeys(item.code for item, out in zip(found.items, is_out, strict=True) if out))
    if not gone:
        return found, ()
    ranked = tuple(replace(item, rank=rank) for rank, item in enumerate(kept, 1))
    # The saving of all findings together included the removed ones. The rest saves no more than the sum of its parts.
    together = min(found.together_ns, sum(item.saving_ns for item in ranked))
    return replace(found, items=ranked, together_ns=together), gone


def name_of(name: str, families: set[str]) -> str:
    """Return the family among `families` that a name belongs to, or else the name itself."""
    return next((each for each in families if "#" in each and _fits(name, each)), name)


def _fits(name: str, family: str) -> bool:
    head, _, tail = family.partition("#")
    middle = name[len(head) : len(name) - len(tail)]
    return name.startswith(head) and name.endswith(tail) and middle.isdigit()


def _walls(ranges: pd.DataFrame) -> dict[str, list[tuple[int, int]]]:
    """Return start and duration (ns) of the instances of each name, without those that have no end.

    Where a name has ranges of both styles, these are often the same ones, so only push/pop ranges count.
    """
    of_both = set(ranges["name"][ranges["style"] == "PushPop"]) & set(ranges["name"][ranges["style"] == "StartEnd"])
    if of_both:
        ranges = ranges[(ranges["style"] == "PushPop") | ~ranges["name"].isin(of_both)]
    start: Int64s = ranges["start_ns"].to_numpy(dtype="int64")
    end: Int64s = ranges["end_ns"].to_numpy(dtype="int64")
    good = (start > -_FAR_NS) & (end < _FAR_NS) & (end > start)
    found: dict[str, list[tuple[int, int]]] = {}
    for name, begin, wall in zip(
        ranges["name"].to_numpy()[good].tolist(), start[good].tolist(), (end - start)[good].tolist(), strict=True
    ):
        found.setdefault(str(name), []).append((begin, wall))
    return found


def _folded(walls: Walls, family: dict[str, str]) -> dict[str, list[tuple[int, int]]]:
    """Return the start and the duration of the instances of each family of names, in order."""
    folded: dict[str, list[tuple[int, int]]] = {}
    for name, found in walls.items():
        folded.setdefault(family[name], []).extend(found)
    return {name: sorted(found) for name, found in folded.items()}


def _steady(walls: list[int]) -> list[int]:
    """Return the instances without the first one, which loads and compiles, where enough others are left."""
    return walls[1:] if len(walls) > LEAST_INSTANCES else walls
