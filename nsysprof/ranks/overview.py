"""Have all traces read, and turn their merged results and details into the analysis that a person reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.range_names import name_families
from nsysprof.analysis.stragglers.late_ranks import choose_evidence, find_outliers, name_ranges, uneven_ranges
from nsysprof.errors import OutputError, TraceError
from nsysprof.kernels.labels import label_kernels
from nsysprof.kernels.names import categorize
from nsysprof.notes import Note, Severity, make_note
from nsysprof.ranks.collective_waits.collectives import Collectives, arrivals, fit_clocks, recorded_apart
from nsysprof.ranks.collective_waits.step_views import draw_together
from nsysprof.ranks.collective_waits.stragglers import find_late
from nsysprof.ranks.dask_cluster import TlsFiles, dask_workers
from nsysprof.ranks.distributions import ROUNDING_ERROR, Distributions, Key, rename
from nsysprof.ranks.engine import (
    Done,
    Progress,
    Task,
    plan_tasks,
    prepare_parts,
    renumber,
    run_parallel,
    run_serially,
)
from nsysprof.ranks.identity import drop_copies, find_sources, number_ranks, some
from nsysprof.ranks.job_facts import JobFacts
from nsysprof.ranks.job_findings import communication_rows, find_in_job, mean_step_ns, pipeline_bubbles
from nsysprof.ranks.pool import LocalWorkers
from nsysprof.ranks.rank_energy import energy_over_ranks
from nsysprof.ranks.replay.joined_graph import RankGraph
from nsysprof.ranks.summarize import RANGE_COLUMNS, Detail, Partial, read_detail
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.results.column_registry.rank_columns import COMMUNICATION, RANK_ENERGY
from nsysprof.results.rank_results import ClockFit, RankCollectives, RankRow, RanksAnalysis, StepPicture

QUANTILES = {"p05": 0.05, "q25": 0.25, "med": 0.5, "q75": 0.75, "p95": 0.95, "p99": 0.99}
_STATISTICS = (
    "ranks", "instances", "total_ns", "avg_ns", "min_ns", *(f"{name}_ns" for name in QUANTILES), "max_ns",
    "stddev_ns", "error_pct", "rank_least_ns", "rank_med_ns", "rank_most_ns", "slowest_rank", "imbalance_pct",
)  # fmt: skip
_OF_RANKS = ("ranks", "rank_least_ns", "rank_med_ns", "rank_most_ns", "slowest_rank", "imbalance_pct")
_INTEGERS = ("ranks", "instances", "total_ns", "min_ns", "max_ns", "rank_least_ns", "rank_most_ns", "slowest_rank")
_RANGE = ("range", "style", "domain")
Totals = dict[Key, dict[int, int]]


def run_tasks(
    tasks: list[Task],
    processes: LocalWorkers | None,
    advance: Progress,
    scheduler: str | None,
    tls: tuple[Path | None, Path | None, Path | None] | None,
) -> Done:
    """Return the partial results of all traces.

    processes: those of this machine; None where this process reads the traces.
    scheduler, tls: the address of a Dask cluster that reads them instead, and the files of its keys.
    """
    if scheduler is not None:
        with dask_workers(scheduler, None if tls is None else TlsFiles(*tls)) as workers:
            return run_parallel(tasks, workers, advance)
    return run_serially(tasks, advance) if processes is None else run_parallel(tasks, processes, advance)


def analyze_folder(folder: Path, work: Path, advance: Progress) -> RanksAnalysis:
    """Analyze a folder of several traces in this process. The result does not depend on the run.

    work: a folder for the partial result of each trace.
    """
    sources, copies = drop_copies(find_sources([folder], None), by_order=False)
    tasks = plan_tasks(sources, work)
    prepare_parts(work, tasks, fresh=True)
    return conclude(run_serially(tasks, advance), tasks, copies, {}, by_order=False)


def conclude(
    done: Done, tasks: list[Task], copies: Sequence[Note], engine: dict[str, Any], *, by_order: bool
) -> RanksAnalysis:
    """Return the analysis of all ranks from their partial results. Raises TraceError where there are none."""
    rows = done.merged.rows
    _refuse_if_all_failed([row.reason for row in rows], rows[0].next_step)
    ranks = number_ranks(rows, {task.source.position: task.source.path for task in tasks}, by_order=by_order)
    return overview(renumber(done.merged, ranks), _details(tasks, rows), engine, copies)


def _refuse_if_all_failed(reasons: list[str], next_step: str) -> None:
    if all(reasons):
        raise TraceError(f"None of {len(reasons)} traces could be read. The first: {reasons[0]}", next_step)


def _details(tasks: list[Task], rows: Sequence[RankRow]) -> Iterator[tuple[RankRow, Detail, dict[Key, int]]]:
    read = {row.position for row in rows if row.is_read}
    for task in tasks:
        if task.source.position in read:
            found = read_detail(task.part)
            if found is None:
                raise OutputError(
                    f"{task.part} was written by a worker, but cannot be seen from this machine.",
                    "Give an --out in a folder that this machine and all workers share.",
                )
            yield found


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
    facts: dict[int, JobFacts] = {}
    graphs: dict[int, RankGraph] = {}
    collectives: dict[int, Collectives | None] = {}
    for row, detail, mine in details:
        rank = number[row.position]
        assert rank is not None
        for key, total in mine.items():
            totals.setdefault(key, {})[rank] = total
        frames.append(detail.ranges.assign(rank=rank))
        facts[rank] = detail.facts
        if detail.graph is not None:
            graphs[rank] = detail.graph
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
    kernels = _table(durations, totals, "kernel", ("name", "short_name"))
    stragglers = name_ranges(late, rank_ranges)
    step_ns = mean_step_ns(facts)
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
        stragglers=stragglers,
        straggler_evidence=evidence,
        outliers=find_outliers(read),
        imbalance_pct=_imbalance([row.compute_ns for row in read]),
        lanes=lanes,
        notes=(*notes, *rank_notes(rows, clocks, rank_ranges, uneven, durations)),
        engine=engine,
        collectives=_by_rank(collectives, number),
        kernel_labels=tuple(label_kernels(kernels["name"].astype(str).tolist())),
        rank_energy=energy,
        energy=energy_over_ranks(energy),
        findings=find_in_job(facts, stragglers, graphs),
        no_findings=_why_no_findings(facts),
        communication=_communication(facts, read),
        step_ns=step_ns,
        bubbles=pipeline_bubbles(facts),
        picture=None if step_ns is None else _picture(facts, clocks, step_ns, stragglers),
    )


_ONE_RANK = "only one of its traces was read. nsysprof analyze of that trace alone shows its own findings"


def _picture(
    facts: Mapping[int, JobFacts], clocks: Sequence[ClockFit], step_ns: float, stragglers: pd.DataFrame
) -> StepPicture | None:
    offset = {fit.rank: fit.offset_ns for fit in clocks if fit.offset_ns is not None}
    views = {rank: facts[rank].views for rank in sorted(facts)}
    return draw_together(views, offset, step_ns, tuple(dict.fromkeys(stragglers["rank"].tolist())))


def _why_no_findings(facts: Mapping[int, JobFacts]) -> str:
    """Return why the job has no findings; "" where it could have some."""
    unknown = [rank for rank, fact in facts.items() if not fact.has_steps]
    if len(facts) - len(unknown) > 1:
        return ""
    reason = next((facts[rank].unknown_because for rank in unknown if facts[rank].unknown_because), "")
    return f"no steps were found on rank {some(unknown)}" + (f": {reason}" if reason else "") if unknown else _ONE_RANK


def _communication(facts: Mapping[int, JobFacts], read: Sequence[RankRow]) -> pd.DataFrame:
    hosts = {row.host for row in read}
    rows = communication_rows(facts, one_host=len(hosts) == 1 and None not in hosts)
    table = pd.DataFrame(rows, columns=list(COMMUNICATION.names))
    return table.astype(dict.fromkeys(("message_bytes", "hidden_ns", "exposed_ns"), "Int64"))


def _fold(distributions: Distributions, totals: Totals) -> tuple[Distributions, Totals]:
    """Return the walls of ranges, and their totals by rank, with counted names as one (`step#`)."""
    old = [key for key in distributions.keys if key.kind == "range"]
    new = [key._replace(range=name) for key, name in zip(old, name_families([key.range for key in old]), strict=True)]
    of_key = dict(zip(old, new, strict=True))
    folded: Totals = {}
    for key, of_ranks in totals.items():
        if key in of_key:
            mine = folded.setdefault(of_key[key], {})
            for rank, total in of_ranks.items():
                mine[rank] = mine.get(rank, 0) + total
    return rename(distributions, [of_key.get(key, key) for key in distributions.keys]), folded


def _by_rank(
    collectives: Mapping[int, Collectives | None], number: Mapping[int, int | None]
) -> dict[int, RankCollectives]:
    """Return what reports show about the collectives of each rank.

    collectives: the collectives by position.
    """
    of_ranks = {}
    for position, mine in collectives.items():
        rank = number[position]
        if mine is not None and rank is not None:
            of_ranks[rank] = RankCollectives(mine.names, mine.of, mine.ordinal, mine.start_ns, mine.end_ns)
    return of_ranks


def _rank_ranges(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    if not frames:
        return pd.DataFrame(columns=["rank", *RANGE_COLUMNS])
    return pd.concat(frames, ignore_index=True)[["rank", *RANGE_COLUMNS]].sort_values("rank", kind="stable")


def _rank_energy(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    if not frames:
        return empty_table(RANK_ENERGY)
    return pd.concat(frames, ignore_index=True)[list(RANK_ENERGY.names)].sort_values("rank", kind="stable")


def _table(distributions: Distributions, totals: Totals, kind: str, columns: tuple[str, ...]) -> pd.DataFrame:
    """Return one row per key, the largest total first: quantiles over all ranks, and how the ranks' totals differ."""
    rows = []
    for number, key in enumerate(distributions.keys):
        if key.kind == kind:
            rows.append(
                {
                    **{name: getattr(key, name) for name in columns},
                    **_statistics(distributions, number, totals.get(key)),
                }
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


def _statistics(distributions: Distributions, number: int, of_ranks: dict[int, int] | None) -> dict[str, Any]:
    count, total = int(distributions.count[number]), int(distributions.total[number])
    quantiles = distributions.quantiles(number, list(QUANTILES.values()))
    line: dict[str, Any] = {
        "instances": count, "total_ns": total, "avg_ns": total / count, "min_ns": int(distributions.least[number]),
        "max_ns": int(distributions.most[number]), "stddev_ns": distributions.stddev(number),
        "error_pct": 100 * ROUNDING_ERROR if distributions.rounded[number] else 0.0,
        "total_bytes": int(distributions.size_bytes[number]),
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
        counts = Counter(name for of_rank in names.values() for name in of_rank)
        alone = [
            int(str(rank)) for rank, of_rank in names.items() if of_rank and all(counts[name] == 1 for name in of_rank)
        ]
        if alone:
            yield make_note("different-jobs", "nothing-shared", ranks=some(alone))
    versions = Counter(row.nsys_version or "unknown" for row in read)
    if len(versions) > 1:
        counted = ", ".join(f"{version} ({count})" for version, count in versions.most_common(5))
        yield make_note("mixed-nsys", versions=counted)


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
    for given in by_code.values():
        ranks = sorted({rank for rank, _ in given})
        worst = Severity.ERROR if any(note.severity == Severity.ERROR for _, note in given) else given[0][1].severity
        yield replace(given[0][1], severity=worst, text=f"Rank {some(ranks)}: {given[0][1].text}")
