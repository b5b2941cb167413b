"""Judge whether the wall time of a range differs between two sides; each instance after the warm-up is a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from nsysprof.analysis.comparison.compare_latency import Settings, compare_latencies
from nsysprof.analysis.comparison.measured_units import cut_shortest_stretches
from nsysprof.analysis.sampling.series_ratio import LEAST_INSTANCES
from nsysprof.attention.shape import Case
from nsysprof.results.comparison import (
    WHOLE_TRACE,
    LatencyChange,
    LatencyVerdict,
    Measured,
    RangeChange,
    RangeFacts,
)

# Only this many ranges are judged: each costs a bootstrap, and makes every other verdict harder to reach.
MOST_JUDGED = 40
# The most stretches of a series, each of which stands for a block. More make the bootstrap slow and decide nothing.
_MOST_STRETCHES = 200
# A change of wall time below this (percent) does not become the headline.
_LEAST_WALL_PCT = 1.0
_DECIDED = (LatencyVerdict.SLOWER, LatencyVerdict.FASTER)
Key = tuple[str, str]

METHOD = (
    "the time of a range is judged as a case's latency is: stretches of its instances after the warm-up, twice as long "
    "as their autocorrelation but at least eight of them, are blocks, a trace is a process (a run, where a side has "
    f"several): the {MOST_JUDGED} ranges with the most time with at least {LEAST_INSTANCES} instances on each side",
)


def judge_walls(
    changes: Sequence[RangeChange],
    baseline: Sequence[Mapping[Key, RangeFacts]],
    candidate: Sequence[Mapping[Key, RangeFacts]],
    settings: Settings,
) -> tuple[RangeChange, ...]:
    """Return the changes with a verdict on the time of each range; None where it has too few instances.

    changes: what compare_ranges returned for these sides.
    """
    chosen = _chosen(changes)
    sides = [[_samples(facts, chosen) for facts in side] for side in (baseline, candidate)]
    # The key only has to distinguish ranges.
    old, new = (cast("list[dict[Case, Measured]]", side) for side in sides)
    names = cast("dict[Case, str]", dict(chosen))
    judged = compare_latencies(old, new, names, settings) if chosen else None
    if judged is None:
        return tuple(changes)
    by_key: dict[Key, LatencyChange] = dict(zip(_order(old, new), judged.changes, strict=True))
    return tuple(_with_verdict(change, by_key.get((change.range, change.domain))) for change in changes)


def choose_headline(changes: Sequence[RangeChange], step: str | None = None) -> RangeChange | None:
    """Return the range of the program whose total wall time changed the most; None where no change is certain.

    A range with a verdict must be slower or faster by it. A range with too few instances for a verdict may be chosen
    too, unless the time of a step is known, which tells more.

    step: the range of the steps, if their time is told. It is not chosen.
    """
    sizes = {}
    for number, change in enumerate(changes):
        wall = change.metrics.get("wall")
        if change.how != "both" or wall is None or wall.change is None or abs(wall.change_pct or 0) < _LEAST_WALL_PCT:
            continue
        if change.is_library or change.range == step:
            continue
        verdict = None if change.wall_verdict is None else change.wall_verdict.verdict
        if verdict in _DECIDED or (change.wall_verdict is None and step is None):
            sizes[number] = abs(wall.change) * min(change.baseline_calls, change.candidate_calls)
    return changes[max(sizes, key=lambda number: sizes[number])] if sizes else None


def _chosen(changes: Sequence[RangeChange]) -> dict[Key, str]:
    """Return the labels of the ranges to judge, by (range, domain)."""
    able = [change for change in changes if change.how == "both" and change.wall_ratio is not None]
    able = [change for change in able if change.range != WHOLE_TRACE]
    able.sort(key=lambda change: -(change.metrics["wall"].baseline or 0) * change.baseline_calls)
    return {(change.range, change.domain): change.label for change in able[:MOST_JUDGED]}


def _samples(facts: Mapping[Key, RangeFacts], chosen: Mapping[Key, str]) -> dict[Key, Measured]:
    samples = {}
    for key in chosen:
        walls = tuple(wall for wall in facts[key].walls_ns if wall > 0) if key in facts else ()
        if walls:
            stretches = tuple(map(tuple, cut_shortest_stretches(walls, _MOST_STRETCHES)))
            samples[key] = Measured("ok", processes=(stretches,), host_bound=facts[key].host_bound)
    return samples


def _order(old: Sequence[Mapping[Case, Measured]], new: Sequence[Mapping[Case, Measured]]) -> list[Key]:
    """Return the keys in the order in which compare_latencies returns their changes."""
    return cast("list[Key]", list(dict.fromkeys(key for cases in (*old, *new) for key in cases)))


def _with_verdict(change: RangeChange, judged_wall: LatencyChange | None) -> RangeChange:
    if judged_wall is None or judged_wall.verdict is None:
        return change
    return replace(change, wall_verdict=judged_wall)
