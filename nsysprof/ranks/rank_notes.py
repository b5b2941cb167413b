"""What a reader of many traces must know: what is missing, what does not fit together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pandas as pd

from nsysprof.notes import Note, Severity
from nsysprof.rank_results import ClockFit, RankRow
from nsysprof.ranks.clocks import recorded_apart
from nsysprof.ranks.distributions import ROUNDING_ERROR, Distributions
from nsysprof.ranks.identity import some

_NAME = 60  # characters of a range's


def rank_notes(
    rows: Sequence[RankRow],
    clocks: Sequence[ClockFit],
    rank_ranges: pd.DataFrame,
    uneven: pd.DataFrame,
    durations: Distributions,
) -> Iterator[Note]:
    """All notes, those of traces joined over ranks. uneven: ranges that ranks do not have equally often."""
    read = [row for row in rows if row.is_read]
    yield from _missing(rows)
    yield from _foreign(read, rank_ranges)
    yield from _of_traces(read)
    unclocked = [fit for fit in clocks if fit.offset_ns is None]
    if unclocked:
        text = (
            f"No common clock for {len(unclocked)} of {len(clocks)} ranks ({some([fit.rank for fit in unclocked])}): "
            f"{unclocked[0].reason}. They are not in the timeline, and who waits for them is unknown."
        )
        step = "Trace NCCL's kernels (-t cuda) on all ranks, or capture with nsysprof, which records the host."
        yield Note("no-common-clock", Severity.WARNING, text, step)
    yield from _uneven(uneven)
    if durations.rounded.any():
        text = (
            f"{int(durations.rounded.sum())} of {len(durations.keys)} distributions have too many different values to "
            f"keep; their quantiles are within {100 * ROUNDING_ERROR:.1f} %, counts, totals, least and most exact."
        )
        yield Note("rounded-quantiles", Severity.INFO, text)


def _missing(rows: Sequence[RankRow]) -> Iterator[Note]:
    failed = [row for row in rows if not row.is_read]
    if failed:
        text = (
            f"{len(failed)} of {len(rows)} traces could not be read and are in no number: "
            f"rank {failed[0].rank}: {failed[0].reason}"
        )
        yield Note("traces-unread", Severity.ERROR, text, failed[0].next_step)
    worlds = {row.world_size for row in rows if row.world_size is not None}
    ranks = {row.rank for row in rows if row.rank is not None}
    expected = max(worlds) if len(worlds) == 1 else max(ranks) + 1
    missing = [rank for rank in range(expected) if rank not in ranks] if expected <= 10**6 else []
    if missing:
        of = f"the job had {expected} ranks" if len(worlds) == 1 else f"ranks up to {expected - 1} were given"
        text = f"{len(missing)} ranks are missing ({some(missing)}): {of}. All numbers are of the others."
        yield Note("missing-ranks", Severity.WARNING, text, "Give the traces of all ranks.")
    if any(row.rank_from == "order" for row in rows):
        text = "Ranks are numbered by the order of the inputs: neither manifest, trace nor file name says them."
        yield Note("ranks-by-order", Severity.WARNING, text, "Name the files rank0.sqlite, rank1.sqlite, ...")


def _foreign(read: Sequence[RankRow], rank_ranges: pd.DataFrame) -> Iterator[Note]:
    """Signs that the traces are not of one job."""
    step = "Give the traces of one job; compare two jobs with nsysprof compare."
    worlds = sorted({row.world_size for row in read if row.world_size is not None})
    if len(worlds) > 1:
        text = f"Ranks of jobs of {' and '.join(map(str, worlds[:4]))} ranks: they are not of one job."
        yield Note("different-jobs", Severity.ERROR, text, step)
    for early, late in recorded_apart(list(read)):
        text = (
            f"Rank {early.rank} ended minutes before rank {late.rank} began, by their sessions' starts: "
            "they are not of one job."
        )
        yield Note("different-jobs", Severity.ERROR, text, step)
    names = {rank: frozenset(some["range"]) for rank, some in rank_ranges.groupby("rank")}
    if len(names) > 1:
        counts = Counter(name for each in names.values() for name in each)
        alone = [int(str(rank)) for rank, each in names.items() if each and all(counts[name] == 1 for name in each)]
        if alone:
            text = f"Rank {some(alone)} shares no range with any other: the traces may not be of one job."
            yield Note("different-jobs", Severity.ERROR, text, step)
    versions = Counter(row.nsys_version or "unknown" for row in read)
    if len(versions) > 1:
        told = ", ".join(f"{version} ({count})" for version, count in versions.most_common(5))
        text = f"Traces of several nsys versions: {told}. What one of them did not record is unknown of its ranks."
        yield Note("mixed-nsys", Severity.WARNING, text, "Use one nsys on all hosts.")


def _uneven(uneven: pd.DataFrame) -> Iterator[Note]:
    if len(uneven):
        worst = uneven.iloc[(uneven["most"] / uneven["least"]).argmax()]
        name = worst["range"][:_NAME]
        text = (
            f"The ranks did not record the same work: {len(uneven)} ranges differ in number, as {name} "
            f"({worst['least']:,} on rank {worst['least_rank']}, {worst['most']:,} on rank {worst['most_rank']}). "
            "Totals of ranks and ranges differ for that alone."
        )
        step = "Record whole runs, or the same steps of each rank (--capture-range) instead of --delay and --duration."
        yield Note("uneven-ranks", Severity.WARNING, text, step)


def _of_traces(read: Sequence[RankRow]) -> Iterator[Note]:
    """One note a code, with the ranks that have it and the first one's text."""
    by_code: dict[str, list[tuple[int, Note]]] = {}
    for row in read:
        for note in row.notes:
            by_code.setdefault(note.code, []).append((row.rank or 0, note))
    for code, found in by_code.items():
        ranks = sorted({rank for rank, _ in found})
        worst = Severity.ERROR if any(note.severity == Severity.ERROR for _, note in found) else found[0][1].severity
        text = f"Rank {some(ranks)}: {found[0][1].text}"
        yield Note(code, worst, text, found[0][1].next_step)
