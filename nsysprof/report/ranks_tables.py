"""The tables of many traces as text cells, the same for the terminal, Markdown and HTML."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from nsysprof.rank_results import RankRow, RanksAnalysis
from nsysprof.report.escape import clean
from nsysprof.report.tables import Table, value
from nsysprof.units import UNKNOWN, format_bytes, format_count, format_ns, format_percent

_SOURCE = 28


def headline(found: RanksAnalysis) -> list[str]:
    """What a reader wants first: who falls behind and where, how even the work is, how much communication shows."""
    read = found.read
    hosts = {row.host for row in read if row.host}
    lines = [
        f"{len(read)} of {len(found.rows)} traces read"
        + (f", of {len(hosts)} host{'s' * (len(hosts) > 1)}." if hosts else ".")
    ]
    lines += straggler_lines(found)
    if found.imbalance_pct is not None:
        text = (
            f"Load imbalance: the rank that computes longest is {format_percent(found.imbalance_pct)} above the mean."
        )
        lines.append(text)
    comm, exposed = (_sum(read, name) for name in ("comm_ns", "exposed_comm_ns"))
    if comm:
        lines.append(
            f"NCCL: {format_ns(comm)} over all ranks, {format_ns(exposed)} "
            f"({format_percent(100 * (exposed or 0) / comm)}) of it not behind computation."
        )
    lines += [f"Rank {rank} is an outlier: {text}." for rank, text in list(found.outliers.items())[:5]]
    return lines


_NO_STRAGGLER = {
    "collectives": "No straggler: no rank keeps the others waiting with nothing to compute for 1 % of the time.",
    "own work": "No straggler: no rank computes 5 % longer than is usual (they share no collective on one clock).",
    "": "Whether a rank holds up the others is unknown: the traces share no collective on one clock, and their work "
    "cannot be compared.",
}


def straggler_lines(found: RanksAnalysis, limit: int = 5) -> list[str]:
    """A line a straggler, with the range it falls behind in most."""
    lines = []
    for _, line in found.stragglers.drop_duplicates("rank").head(limit).iterrows():
        late, percent = format_ns(line["late_ns"]), format_percent(line["late_pct"])
        exposed, cost = format_ns(value(line["exposed_late_ns"])), format_percent(value(line["exposed_late_pct"]))
        text = f"Rank {line['rank']} computes {late} ({percent}) longer than is usual"
        if line["evidence"] == "collectives":
            text = (
                f"Rank {line['rank']} is a straggler: last in {line['last_in']} of {line['collectives']} collectives, "
                f"for which the others' NCCL kernels waited {late}, at least {exposed} of it with nothing to compute "
                f"({cost} of the time between first and last)"
            )
        where = value(line["excess_ns"])
        if where is not None:
            percent = value(line["excess_pct"])
            more = "" if percent is None else f", {percent:+.0f} %"
            text += f"; it falls behind in {clean(str(line['range']), 60)} ({line['where']} +{format_ns(where)}{more})"
        lines.append(text + ".")
    return lines or [_NO_STRAGGLER[found.straggler_evidence]]


def _sum(rows: list[RankRow], name: str) -> int | None:
    known = [getattr(row, name) for row in rows if getattr(row, name) is not None]
    return sum(known) if known else None


def rank_table(found: RanksAnalysis, limit: int = 1000) -> Table:
    """One row a rank; stragglers and outliers are marked."""
    slow = set(found.stragglers["rank"].tolist())
    rows, marks = [], {}
    for number, row in enumerate(found.rows[:limit]):
        words = ["straggler"] * (row.rank in slow) + ["outlier"] * (row.rank in found.outliers)
        if words:
            marks[number] = ", ".join(words)
        rows.append(
            (
                f"{row.rank}" if row.is_read else f"{row.rank}: {clean(row.reason, 60)}",
                clean(row.source, _SOURCE),
                format_count(row.kernel_count),
                format_ns(row.compute_ns),
                format_ns(row.comm_ns),
                format_ns(row.overlap_ns),
                format_ns(row.exposed_comm_ns),
                format_ns(row.idle_ns),
                format_bytes(row.memcpy_bytes),
                format_bytes(row.peak_vram_bytes),
                clean(found.outliers.get(row.rank if row.rank is not None else -1, ""), 60),
            )
        )
    headers = (
        "rank", "trace", "kernels", "compute", "NCCL", "overlap", "exposed", "idle", "copied", "peak VRAM",
        "unlike others",
    )  # fmt: skip
    return Table(
        "Ranks", headers, tuple(rows), frozenset({0, 1, 10}), len(found.rows), "per_rank.csv", marks, are_bad=True
    )


def straggler_table(found: RanksAnalysis, limit: int = 50) -> Table:
    """The ranges in which late ranks fall behind."""
    rows = []
    for _, line in found.stragglers.head(limit).iterrows():
        percent = value(line["excess_pct"])
        rows.append(
            (
                f"{line['rank']}",
                clean(str(line["range"])),
                str(line["where"]),
                format_ns(value(line["own_ns"])),
                format_ns(value(line["typical_ns"])),
                format_ns(value(line["excess_ns"])),
                UNKNOWN if percent is None else f"{percent:+.1f} %",
                format_ns(value(line["late_ns"])),
                format_ns(value(line["exposed_late_ns"])),
            )
        )
    headers = ("rank", "range", "where", "its time", "usual", "more", "more, %", "others waited", "exposed")
    return Table("Stragglers", headers, tuple(rows), frozenset({0, 1, 2}), len(found.stragglers), "stragglers.csv")


_SPREAD = (
    ("instances", format_count), ("total_ns", format_ns), ("min_ns", format_ns), ("q25_ns", format_ns),
    ("med_ns", format_ns), ("q75_ns", format_ns), ("p99_ns", format_ns), ("max_ns", format_ns),
    ("imbalance_pct", format_percent), ("slowest_rank", format_count),
)  # fmt: skip
_SPREAD_HEADERS = (
    "n", "total", "min", "q25", "median", "q75", "p99", "max", "imbalance", "longest on rank",
)  # fmt: skip


def range_table(found: RanksAnalysis, limit: int = 25) -> Table:
    """Ranges over ranks, the longest first."""
    return _spread("Ranges over ranks", found.ranges, "range", "range", limit, "ranges_over_ranks.csv")


def kernel_table(found: RanksAnalysis, limit: int = 15) -> Table:
    """Kernels over ranks."""
    return _spread("Kernels over ranks", found.kernels, "short_name", "kernel", limit, "kernels_over_ranks.csv", "name")


def api_table(found: RanksAnalysis, limit: int = 15) -> Table:
    """API calls over ranks."""
    return _spread("API calls over ranks", found.api, "name", "call", limit, "api_over_ranks.csv")


def memop_table(found: RanksAnalysis, limit: int = 20) -> Table:
    """Copies and fills over ranks."""
    return _spread("Copies and fills over ranks", found.memops, "name", "operation", limit, "memops_over_ranks.csv")


def _spread(
    title: str, table: pd.DataFrame, name: str, header: str, limit: int, csv_name: str, full: str | None = None
) -> Table:
    shown = table.head(limit)
    rows = tuple(
        (str(line[name]), *(render(value(line[column])) for column, render in _SPREAD))
        for line in shown.to_dict("records")
    )
    names = () if full is None else tuple(str(text) for text in shown[full])
    return Table(title, (header, *_SPREAD_HEADERS), rows, frozenset({0}), len(table), csv_name, full=names)


def clock_table(found: RanksAnalysis, limit: int = 1000) -> Table:
    """How each rank's clock was found, with what is left over."""
    rows = tuple(
        (
            f"{fit.rank}",
            fit.how if fit.offset_ns is not None else clean(f"refused: {fit.reason}", 80),
            _or_unknown(fit.offset_ns, lambda offset: f"{offset:+,} ns"),
            format_count(fit.anchors),
            format_ns(fit.residual_ns),
            format_ns(fit.worst_ns),
        )
        for fit in found.clocks[:limit]
    )
    headers = ("rank", "clock", "offset", "anchors", "residual, median", "residual, worst")
    return Table("Clocks", headers, rows, frozenset({0, 1}), len(found.clocks), "ranks.json")


def _or_unknown(cell: Any, render: Callable[[Any], str]) -> str:
    return UNKNOWN if cell is None else render(cell)
