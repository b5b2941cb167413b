"""Read when the ranks of a job arrived at the collectives that they share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nsysprof.errors import TraceError
from nsysprof.ranks.collective_waits.clocks import Arrivals, arrivals, fit_clocks
from nsysprof.ranks.engine import Progress, plan_tasks, prepare_parts, renumber, run_serially
from nsysprof.ranks.identity import number_ranks
from nsysprof.ranks.partial_files import read_detail
from nsysprof.ranks.rank_source import RankSource
from nsysprof.results.rank_results import RankRow


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
