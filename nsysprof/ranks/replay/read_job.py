"""Read the traces of all ranks of a job for a replay of their last steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nsysprof.analysis.overview.trace_overview import attribute
from nsysprof.errors import NotComparableError, TraceError, UsageError
from nsysprof.files.scratch_folder import scratch_folder
from nsysprof.ranks.collective_waits.collectives import Arrivals, arrivals, fit_clocks
from nsysprof.ranks.engine import Progress, plan_tasks, prepare_parts, renumber, run_serially
from nsysprof.ranks.identity import RankSource, number_ranks
from nsysprof.ranks.partial import read_detail
from nsysprof.ranks.replay.changes import ReplayedJob
from nsysprof.ranks.replay.joined_graph import RankGraph, read_rank_graph, share_collectives
from nsysprof.results.rank_results import RankRow
from nsysprof.trace.inputs.resolve_input import identity_of, resolve_input
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables


def read_replayed_job(sources: Sequence[RankSource], advance: Progress = lambda _more, _name: None) -> ReplayedJob:
    """Return the last steps of all ranks.

    Raises UsageError where a rank has no steps, no host calls or no collectives, NotComparableError where the ranks do
    not share their collectives, and TraceError for a trace that cannot be read.
    """
    ranks: list[RankGraph] = []
    for source in sources:
        rank = _read(source, len(ranks[0].step_calls) - 1 if ranks else 0)
        if rank is None:
            _refuse(sources, f"{source.path.name} has no two steps with their calls and collectives")
            raise UsageError(
                f"The job cannot be replayed: {source.path.name} has no two steps with their calls and collectives.",
                "Record several steps of all ranks with nsysprof capture --per-rank.",
            )
        ranks.append(rank)
        advance(1, source.path.name)
    shared = share_collectives(ranks)
    if shared is None:
        _refuse(sources, "they do not share their collectives")
        raise UsageError(
            "The job cannot be replayed: its ranks do not share their collectives.",
            "Record the same steps of all ranks, to their end, with nsysprof capture --per-rank.",
        )
    return ReplayedJob(ranks, shared)


def _read(source: RankSource, last_steps: int) -> RankGraph | None:
    with scratch_folder() as scratch:
        path = resolve_input(source.path, source.nsys, scratch)
        with open_trace(path, identity_of(source.path, path), one_thread=source.one_thread) as trace:
            tables = read_tables(trace)
            return read_rank_graph(tables, attribute(tables).attributed.ranges, last_steps)


def _refuse(sources: Sequence[RankSource], reason: str) -> None:
    """Raise NotComparableError for traces that no manifest calls the ranks of a job."""
    if all(source.rank is not None for source in sources):
        return
    names = [str(source.path) for source in sources]
    raise NotComparableError(
        f"These {len(sources)} traces are not the ranks of one job that can be replayed: {reason}.",
        f"Compare two of them: nsysprof compare {names[0]} {names[1]}. Look at one: nsysprof view {names[0]}.",
    )


def read_arrivals(
    sources: Sequence[RankSource], work: Path, advance: Progress = lambda _more, _name: None
) -> tuple[Arrivals | None, list[RankRow]]:
    """Return the arrivals of all ranks on one clock, and their rows; no arrivals where the traces share no clock.

    Raises TraceError for a trace that cannot be read.

    work: a folder for the partial result of each trace.
    """
    tasks = plan_tasks(list(sources), work)
    prepare_parts(work, tasks, fresh=True)
    merged = run_serially(tasks, advance).merged
    failed = next((row for row in merged.rows if not row.is_read), None)
    if failed is not None:
        raise TraceError(failed.reason, failed.next_step)
    ranks = number_ranks(merged.rows, {source.position: source.path for source in sources}, by_order=False)
    details = [stored for task in tasks if (stored := read_detail(task.part)) is not None]
    rows = sorted(renumber(merged, ranks).rows, key=lambda row: row.rank or 0)
    collectives = {row.position: detail.collectives for row, detail, _ in details}
    return arrivals(rows, fit_clocks(rows, collectives), collectives), rows
