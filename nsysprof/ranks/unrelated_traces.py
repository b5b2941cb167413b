"""Find out whether traces are no ranks of one job, so that nothing is said of stragglers among unrelated programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from nsysprof.errors import NotComparableError
from nsysprof.results.rank_results import RankRow

# Who launched a job numbered its ranks.
_LAUNCHERS = ("manifest", "environment", "NVTX")
# The ranks of a job share their kernels: at least this share of the time of all kernels is of kernels of several ranks.
_LEAST_COMMON = 0.2
_MOST_LISTED = 8


def refuse_unrelated(rows: Sequence[RankRow], kernels: pd.DataFrame, paths: Mapping[int, Path]) -> None:
    """Refuse traces that are no ranks of one job.

    kernels: the rows of kernels_over_ranks.csv.
    paths: the file of each trace by its position.

    Raises NotComparableError with the traces and the commands that fit.
    """
    reason = why_unrelated(rows, kernels)
    if not reason:
        return
    files = [str(paths[row.position]) for row in rows]
    names = [path.rpartition("/")[2] for path in files]
    listed = ", ".join(names[:_MOST_LISTED])
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    raise NotComparableError(
        f"These {len(rows)} traces are not the ranks of one job: {reason}. They are {listed}{more}.",
        f"Compare two of them: nsysprof compare {files[0]} {files[1]}. Look at one: nsysprof view {files[0]}. If they "
        "are a job, --by-order says so.",
    )


def why_unrelated(rows: Sequence[RankRow], kernels: pd.DataFrame) -> str:
    """Return why traces are no ranks of one job; "" where they may be.

    A number that a launcher gave to each rank is proof of a job.
    """
    read = [row for row in rows if row.is_read]
    if len(read) < 2 or all(row.rank_from in _LAUNCHERS for row in read):
        return ""
    working = [row for row in read if row.kernel_count]
    if working and len(working) < len(read):
        return "some of them have kernels, and others have none"
    with_collectives = sum(bool(row.comm_ns) for row in working)
    if 0 < with_collectives < len(working):
        return "some of them have collectives, and others have none"
    if len(working) > 1 and len(kernels):
        total_ns = int(kernels["total_ns"].sum())
        common_ns = int(kernels.loc[kernels["ranks"] > 1, "total_ns"].sum())
        if common_ns < _LEAST_COMMON * total_ns:
            return "they ran different kernels"
    return "they were recorded one after another" if _follow_each_other(read) else ""


def _follow_each_other(rows: Sequence[RankRow]) -> bool:
    """Return whether two of the traces, all of one host, have no moment in common."""
    spans = [
        (row.session_start_utc_ns + row.first_ns, row.session_start_utc_ns + row.last_ns)
        for row in rows
        if row.session_start_utc_ns is not None and row.first_ns is not None and row.last_ns is not None
    ]
    hosts = {row.host for row in rows}
    if len(spans) < len(rows) or len(hosts) != 1:
        return False
    return max(start for start, _ in spans) > min(end for _, end in spans)
