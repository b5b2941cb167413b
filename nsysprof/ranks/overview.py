"""Turn the merged partial results and the details of all traces into the analysis that a person reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.range_names import name_families
from nsysprof.analysis.kernel_names.categories import categorize
from nsysprof.analysis.kernel_names.kernel_labels import label_kernels
from nsysprof.analysis.stragglers.late_ranks import choose_evidence, find_outliers, name_ranges, uneven_ranges
from nsysprof.notes import Note
from nsysprof.ranks.collective_waits.clocks import arrivals, fit_clocks
from nsysprof.ranks.collective_waits.collectives import Collectives
from nsysprof.ranks.collective_waits.stragglers import find_late
from nsysprof.ranks.distributions import ROUNDING_ERROR, Distributions, Key, rename
from nsysprof.ranks.partial import RANGE_COLUMNS, Detail, Partial
from nsysprof.ranks.rank_energy import energy_over_ranks
from nsysprof.ranks.rank_notes import rank_notes
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.results.column_registry.rank_columns import RANK_ENERGY
from nsysprof.results.rank_results import (
    RankCollectives,
    RankRow,
    RanksAnalysis,
)

QUANTILES = {"p05": 0.05, "q25": 0.25, "med": 0.5, "q75": 0.75, "p95": 0.95, "p99": 0.99}
_STATISTICS = (
    "ranks", "instances", "total_ns", "avg_ns", "min_ns", *(f"{name}_ns" for name in QUANTILES), "max_ns",
    "stddev_ns", "error_pct", "rank_least_ns", "rank_med_ns", "rank_most_ns", "slowest_rank", "imbalance_pct",
)  # fmt: skip
_OF_RANKS = ("ranks", "rank_least_ns", "rank_med_ns", "rank_most_ns", "slowest_rank", "imbalance_pct")
_INTEGERS = ("ranks", "instances", "total_ns", "min_ns", "max_ns", "rank_least_ns", "rank_most_ns", "slowest_rank")
_RANGE = ("range", "style", "domain")
Totals = dict[Key, dict[int, int]]


def overview(
    partial: Partial,
    details: Iterable[tuple[RankRow, Detail, dict[Key, int]]],
    engine: Mapping[str, Any],
    notes: Sequence[Note] = (),
) -> RanksAnalysis:
    """Return the analysis of all ranks.

    partial: everything merged, with ranks numbered.
    details: row, detail and totals (ns) of each trace that was read, given one at a time. Their rows have no rank yet
        and are matched by position.
    engine: where and how the work ran.
    notes: notes from before the analysis.
    """
    rows = tuple(sorted(partial.rows, key=lambda row: (row.rank or 0, row.position)))
    number = {row.position: row.rank for row in rows}
    totals: Totals = {}
    frames, energies, lanes = [], [], {}
    collectives: dict[int, Collectives | None] = {}
    for row, detail, mine in details:
        rank = number[row.position]
        assert rank is not None
        for key, total in mine.items():
            totals.setdefault(key, {})[rank] = total
        frames.append(detail.ranges.assign(rank=rank))
        if len(detail.energy):
            energies.append(detail.energy.assign(rank=rank))
        collectives[row.position] = detail.collectives
        if detail.lanes is not None:
            lanes[rank] = detail.lanes
    read = [row for row in rows if row.is_read]
    rank_ranges = _rank_ranges(frames)
    energy = _rank_energy(energies)
    clocks = fit_clocks(read, collectives)
    arrived = arrivals(read, clocks, collectives)
    uneven = uneven_ranges(rank_ranges)
    evidence, late = find_late(choose_evidence(read, uneven, has_arrivals=arrived is not None), arrived, read)
    durations = partial.durations
    imbalance = _imbalance([row.compute_ns for row in read])
    kernels = _table(durations, totals, "kernel", ("name", "short_name"))
    return RanksAnalysis(
        rows=rows,
        clocks=tuple(clocks),
        kernels=kernels,
        ranges=_table(durations, totals, "range", _RANGE),
        range_families=_table(*_fold(durations, totals), "range", _RANGE),
        range_kernels=_table(durations, {}, "range_kernel", (*_RANGE, "name", "short_name")),
        api=_table(durations, totals, "api", ("name",)),
        memops=_table(durations, totals, "memop", ("name",)),
        rank_ranges=rank_ranges,
        stragglers=name_ranges(late, rank_ranges),
        straggler_evidence=evidence,
        outliers=find_outliers(read),
        imbalance_pct=imbalance,
        lanes=lanes,
        notes=(*notes, *rank_notes(rows, clocks, rank_ranges, uneven, durations)),
        engine=engine,
        collectives=_by_rank(collectives, number),
        kernel_labels=tuple(label_kernels(kernels["name"].astype(str).tolist())),
        rank_energy=energy,
        energy=energy_over_ranks(energy),
    )


def _fold(found: Distributions, totals: Totals) -> tuple[Distributions, Totals]:
    """Return the walls of ranges, and their totals by rank, with counted names as one (`step#`)."""
    old = [key for key in found.keys if key.kind == "range"]
    new = [key._replace(range=name) for key, name in zip(old, name_families([key.range for key in old]), strict=True)]
    of_key = dict(zip(old, new, strict=True))
    folded: Totals = {}
    for key, of_ranks in totals.items():
        if key in of_key:
            mine = folded.setdefault(of_key[key], {})
            for rank, total in of_ranks.items():
                mine[rank] = mine.get(rank, 0) + total
    return rename(found, [of_key.get(key, key) for key in found.keys]), folded


def _by_rank(
    collectives: Mapping[int, Collectives | None], number: Mapping[int, int | None]
) -> dict[int, RankCollectives]:
    """Return what reports show about the collectives of each rank.

    collectives: the collectives by position.
    """
    found = {}
    for position, mine in collectives.items():
        rank = number[position]
        if mine is not None and rank is not None:
            found[rank] = RankCollectives(mine.names, mine.of, mine.ordinal, mine.start_ns, mine.end_ns)
    return found


def _rank_ranges(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    if not frames:
        return pd.DataFrame(columns=["rank", *RANGE_COLUMNS])
    return pd.concat(frames, ignore_index=True)[["rank", *RANGE_COLUMNS]].sort_values("rank", kind="stable")


def _rank_energy(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    if not frames:
        return empty_table(RANK_ENERGY)
    return pd.concat(frames, ignore_index=True)[list(RANK_ENERGY.names)].sort_values("rank", kind="stable")


def _table(found: Distributions, totals: Totals, kind: str, columns: tuple[str, ...]) -> pd.DataFrame:
    """Return one row per key, the largest total first: quantiles over all ranks, and how the ranks' totals differ."""
    rows = []
    for number, key in enumerate(found.keys):
        if key.kind == kind:
            rows.append(
                {**{name: getattr(key, name) for name in columns}, **_statistics(found, number, totals.get(key))}
            )
    extra: tuple[str, ...] = {
        "kernel": ("category", "share_pct"),
        "range_kernel": ("category",),
        "memop": ("total_bytes",),
    }.get(kind, ())
    table = pd.DataFrame(rows, columns=[*columns, *_STATISTICS, "total_bytes"])
    if "category" in extra:
        table["category"] = [categorize(name) for name in table["name"]]
    table["share_pct"] = 100.0 * table["total_ns"] / max(1, table["total_ns"].sum())
    table = table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)
    table = table.astype(dict.fromkeys((*_INTEGERS, "total_bytes"), "Int64"))
    left_out = _OF_RANKS if kind == "range_kernel" else ()
    return table[[column for column in (*columns, *extra, *_STATISTICS) if column not in left_out]]


def _statistics(found: Distributions, number: int, of_ranks: dict[int, int] | None) -> dict[str, Any]:
    count, total = int(found.count[number]), int(found.total[number])
    quantiles = found.quantiles(number, list(QUANTILES.values()))
    line: dict[str, Any] = {
        "instances": count, "total_ns": total, "avg_ns": total / count, "min_ns": int(found.least[number]),
        "max_ns": int(found.most[number]), "stddev_ns": found.stddev(number),
        "error_pct": 100 * ROUNDING_ERROR if found.rounded[number] else 0.0,
        "total_bytes": int(found.size_bytes[number]),
    }  # fmt: skip
    line |= {f"{name}_ns": value for name, value in zip(QUANTILES, quantiles, strict=True)}
    if of_ranks:
        values = list(of_ranks.values())
        line |= {
            "ranks": len(values), "rank_least_ns": min(values), "rank_med_ns": float(np.median(values)),
            "rank_most_ns": max(values), "slowest_rank": max(of_ranks, key=lambda rank: (of_ranks[rank], -rank)),
            "imbalance_pct": _imbalance(values),
        }  # fmt: skip
    return line


def _imbalance(values: Sequence[int | None]) -> float | None:
    """Return how far the largest value is above the mean (percent of the mean): the most that perfect balance saves."""
    known = [value for value in values if value is not None]
    mean = sum(known) / len(known) if known else 0
    return 100 * (max(known) / mean - 1) if len(known) > 1 and mean else None
