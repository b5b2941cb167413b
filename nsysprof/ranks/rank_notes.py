"""Write the notes of an analysis of many traces: what is missing, and what is inconsistent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from nsysprof.notes import Note, Severity, make_note
from nsysprof.ranks.collective_waits.clocks import recorded_apart
from nsysprof.ranks.distributions import ROUNDING_ERROR, Distributions
from nsysprof.ranks.identity import some
from nsysprof.results.rank_results import ClockFit, RankRow

_NAME = 60  # the most characters of a range's name that a note shows


def rank_notes(
    rows: Sequence[RankRow],
    clocks: Sequence[ClockFit],
    rank_ranges: pd.DataFrame,
    uneven: pd.DataFrame,
    durations: Distributions,
) -> Iterator[Note]:
    """Yield all notes. A note that several traces have becomes one note that names their ranks.

    uneven: the ranges that not all ranks have equally often.
    """
    read = [row for row in rows if row.is_read]
    yield from _missing(rows)
    yield from _foreign(read, rank_ranges)
    yield from _of_traces(read)
    unclocked = [fit for fit in clocks if fit.offset_ns is None]
    if unclocked:
        which = some([fit.rank for fit in unclocked])
        counts: dict[str, Any] = {"without": len(unclocked), "ranks": len(clocks)}
        yield make_note("no-common-clock", which=which, reason=unclocked[0].reason, **counts)
    yield from _uneven(uneven)
    if durations.rounded.any():
        sizes: dict[str, Any] = {"rounded": int(durations.rounded.sum()), "distributions": len(durations.keys)}
        yield make_note("rounded-quantiles", error_pct=100 * ROUNDING_ERROR, **sizes)


def _missing(rows: Sequence[RankRow]) -> Iterator[Note]:
    failed = [row for row in rows if not row.is_read]
    if failed:
        first: dict[str, Any] = {"rank": failed[0].rank, "reason": failed[0].reason, "next_step": failed[0].next_step}
        yield make_note("traces-unread", failed=len(failed), traces=len(rows), **first)
    worlds = {row.world_size for row in rows if row.world_size is not None}
    ranks = {row.rank for row in rows if row.rank is not None}
    expected = max(worlds) if len(worlds) == 1 else max(ranks) + 1
    missing = [rank for rank in range(expected) if rank not in ranks] if expected <= 10**6 else []
    if missing:
        of = f"the job had {expected} ranks" if len(worlds) == 1 else f"ranks up to {expected - 1} were given"
        yield make_note("missing-ranks", missing=len(missing), ranks=some(missing), expected=of)
    if any(row.rank_from == "order" for row in rows):
        yield make_note("ranks-by-order")


def _foreign(read: Sequence[RankRow], rank_ranges: pd.DataFrame) -> Iterator[Note]:
    """Yield notes about signs that the traces do not belong to one job."""
    worlds = sorted({row.world_size for row in read if row.world_size is not None})
    if len(worlds) > 1:
        yield make_note("different-jobs", sizes=" and ".join(map(str, worlds[:4])))
    for early, late in recorded_apart(list(read)):
        yield make_note("different-jobs", "apart", early=early.rank, late=late.rank)
    names = {rank: frozenset(some["range"]) for rank, some in rank_ranges.groupby("rank")}
    if len(names) > 1:
        counts = Counter(name for each in names.values() for name in each)
        alone = [int(str(rank)) for rank, each in names.items() if each and all(counts[name] == 1 for name in each)]
        if alone:
            yield make_note("different-jobs", "nothing-shared", ranks=some(alone))
    versions = Counter(row.nsys_version or "unknown" for row in read)
    if len(versions) > 1:
        told = ", ".join(f"{version} ({count})" for version, count in versions.most_common(5))
        yield make_note("mixed-nsys", versions=told)


def _uneven(uneven: pd.DataFrame) -> Iterator[Note]:
    if len(uneven):
        worst = uneven.iloc[(uneven["most"] / uneven["least"]).argmax()]
        facts: dict[str, Any] = {name: worst[name] for name in ("least", "least_rank", "most", "most_rank")}
        yield make_note("uneven-ranks", ranges=len(uneven), range=worst["range"][:_NAME], **facts)


def _of_traces(read: Sequence[RankRow]) -> Iterator[Note]:
    """Yield one note per code, with the ranks that have it and the text of the first."""
    by_code: dict[str, list[tuple[int, Note]]] = {}
    for row in read:
        for note in row.notes:
            by_code.setdefault(note.code, []).append((row.rank or 0, note))
    for found in by_code.values():
        ranks = sorted({rank for rank, _ in found})
        worst = Severity.ERROR if any(note.severity == Severity.ERROR for _, note in found) else found[0][1].severity
        yield replace(found[0][1], severity=worst, text=f"Rank {some(ranks)}: {found[0][1].text}")
