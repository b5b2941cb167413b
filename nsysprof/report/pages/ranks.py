"""Compose and write what the traces of many ranks say: tables, ranks.json, figures and reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from nsysprof.files.plain_file import VERSION, json_value, output_error, plain_json, write_whole
from nsysprof.report.document import (
    Cell,
    Chart,
    Column,
    Figure,
    Lines,
    Notes,
    Paragraph,
    Ranking,
    Report,
    Section,
    Table,
    Unit,
    make_table,
    table_of,
)
from nsysprof.report.figure_files import figure_paths, write_figures, write_report
from nsysprof.report.figures.drawing import can_draw
from nsysprof.report.figures.ranks import (
    ALT,
    HINT,
    describe_heatmap,
    describe_step,
    draw_heatmap,
    draw_step,
    ranks_timeline_data,
)
from nsysprof.report.pages.analysis import figure_sections, finding_item
from nsysprof.report.pages.cases import facts_table
from nsysprof.report.pages.range_rows import qualified_name
from nsysprof.report.pages.trace_tables import MOST_ROWS, energy_cell, rows_of
from nsysprof.results.column_registry import rank_columns
from nsysprof.results.column_registry.column import TableFile
from nsysprof.results.column_registry.csv_table import empty_table, render_csv, to_records
from nsysprof.results.findings import LEAST_SHARE, JobFinding
from nsysprof.results.rank_results import (
    FORMAT_VERSION,
    MOST_RESIDUAL_NS,
    OUTLIER_PCT,
    OUTLIER_RANKS,
    OUTLIER_TIMES,
    STRAGGLER_ALPHA,
    STRAGGLER_COST_PCT,
    RankRow,
    RanksAnalysis,
)
from nsysprof.results.roof import known
from nsysprof.units import format_ns, format_percent

JSON = "ranks.json"
# At most so many ranks are named that wait for their neighbours.
_MOST_BUBBLES = 8
# The picture that stands first.
_STEP = "step.png"


def write_ranks(
    job: RanksAnalysis, out: Path, *, figures: bool, svg: bool, progress: Callable[[str], None]
) -> list[Path]:
    """Write everything into `out`, and return the paths. ranks.json comes last, to show that the folder is complete."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / JSON).unlink(missing_ok=True)
        written = [write_whole(out / file.name, render_csv(table, file)) for file, table in _tables(job)]
        pictures = _write_figures(job, out, svg, progress) if figures and can_draw() else []
        report = ranks_report(job, pictures, timeline=ranks_timeline_data(job))
        written += [*figure_paths(pictures, out, svg=svg), *write_report(report, out)]
        text = plain_json(ranks_json(job))
        return [*written, write_whole(out / JSON, text.encode("utf-8", "replace"))]
    except OSError as error:
        raise output_error(out, error) from error


def ranks_json(job: RanksAnalysis) -> dict[str, Any]:
    """Return ranks.json. In it null is unknown, and a note says why."""
    stragglers = to_records(job.stragglers)
    return {
        "format_version": FORMAT_VERSION,
        "nsysprof_version": VERSION,
        "ranks_read": len(job.read),
        "ranks_given": len(job.rows),
        "imbalance_pct": job.imbalance_pct,
        "straggler_evidence": job.straggler_evidence or None,
        "stragglers": stragglers,
        "pipeline_bubbles_ns": {str(rank): waited_ns for rank, waited_ns in job.bubbles.items()},
        "outliers": {str(rank): text for rank, text in job.outliers.items()},
        "clocks": [asdict(fit) for fit in job.clocks],
        "ranks": [{k: v for k, v in json_value(row).items() if k != "notes"} for row in job.rows],
        "engine": dict(job.engine),
        "notes": json_value(job.notes),
    }


def whole_ranks_json(job: RanksAnalysis) -> dict[str, Any]:
    """Return what `analyze --json` prints of many traces: the whole result, every table as a list of rows."""
    tables = {file.name.removesuffix(".csv"): to_records(table) for file, table in _tables(job)}
    return {**tables, **ranks_json(job)}


def _tables(job: RanksAnalysis) -> list[tuple[TableFile, pd.DataFrame]]:
    clocks = {fit.rank: fit for fit in job.clocks}
    slow = set(job.stragglers["rank"].tolist())
    lines = []
    for row in job.rows:
        line = {key: cell for key, cell in json_value(row).items() if key not in ("notes", "next_step", "position")}
        fit = clocks.get(row.rank if row.rank is not None else -1) if row.is_read else None
        line["gpus"] = "; ".join(row.gpus)
        line["clock"] = None if fit is None else fit.how
        line["clock_offset_ns"] = None if fit is None else fit.offset_ns
        line["is_straggler"] = row.rank in slow if row.is_read else None
        line["outlier"] = job.outliers.get(row.rank if row.rank is not None else -1, "")
        lines.append(line)
    findings = pd.DataFrame([asdict(item) for item in job.findings], columns=list(rank_columns.JOB_FINDINGS.names))
    return [
        (rank_columns.JOB_FINDINGS, findings),
        (rank_columns.COMMUNICATION, _or_empty(job.communication, rank_columns.COMMUNICATION)),
        (rank_columns.PER_RANK, pd.DataFrame(lines, columns=list(rank_columns.PER_RANK.names))),
        (rank_columns.RANGES_OVER_RANKS, job.ranges),
        (rank_columns.KERNELS_OVER_RANKS, job.kernels),
        (rank_columns.RANGE_KERNELS_OVER_RANKS, job.range_kernels),
        (rank_columns.API_OVER_RANKS, job.api),
        (rank_columns.MEMOPS_OVER_RANKS, job.memops.rename(columns={"name": "operation"})),
        (rank_columns.RANK_RANGES, job.rank_ranges),
        (rank_columns.STRAGGLERS, job.stragglers),
        (rank_columns.ENERGY_OVER_RANKS, _or_empty(job.energy, rank_columns.ENERGY_OVER_RANKS)),
        (rank_columns.RANK_ENERGY, _or_empty(job.rank_energy, rank_columns.RANK_ENERGY)),
    ]


def _or_empty(table: pd.DataFrame | None, file: TableFile) -> pd.DataFrame:
    return empty_table(file) if table is None else table


def _write_figures(job: RanksAnalysis, out: Path, svg: bool, say: Callable[[str], None]) -> list[Figure]:

    draw = {
        "step": lambda: draw_step(job),
        "heatmap": lambda: draw_heatmap(job),
    }
    alts = {
        "step": lambda: describe_step(job),
        "heatmap": lambda: describe_heatmap(job),
    }
    return write_figures(draw, alts, out, svg=svg, say=say)


_METHOD = (
    "Kernels, calls, copies and ranges are counted in each trace as nsysprof analyze does it. Their durations are "
    "merged as counts of values, so that quantiles are of all ranks' instances, and not of the ranks' quantiles.",
    "compute: when a kernel ran that is not NCCL's; exposed: when one of NCCL's ran and no other; idle: neither kernel "
    "nor copy, between a device's first and last kernel. Unions by device, added over devices. Time in an NCCL kernel "
    "includes waiting for other ranks.",
    "A range's own time is the time of the work whose innermost range it is; work of threads without ranges "
    "(autograd's) counts for the range that began last in their process. Its host time excludes nested ranges.",
    "Straggler: a rank without whose delay the job would take at least "
    f"{STRAGGLER_COST_PCT:g} % less. The collectives are replayed as recorded, and with this rank like the typical "
    "other one, longest work where its own was longest; the difference is the cost. It must exceed what the other "
    f"ranks cost in nearly all parts of the job (t-test, error {100 * STRAGGLER_ALPHA:g} % shared by all ranks). The "
    "warm-up, at least a sixteenth of the job, is not judged. The interval of the cost covers what differs from step "
    "to step; it is too narrow where a rank's deviations last over several steps. What the others waited is the time "
    "from the middle rank's begin to its begin, added over the collectives in which it came last.",
    "imbalance: the largest of the ranks' totals against their mean. Outlier: at least "
    f"{OUTLIER_TIMES} times further from the usual rank (the lower median) than any other rank, and by "
    f"{OUTLIER_PCT:g} %, among at least {OUTLIER_RANKS} ranks. It may be a quarter of the ranks.",
    "Clocks: ranks known to be of one host by their sessions' starts, others by the median difference of the ends of "
    f"matching AllReduce, AllGather and ReduceScatter kernels, refused above {format_ns(MOST_RESIDUAL_NS)} of median "
    "residual.",
)


def ranks_report(
    job: RanksAnalysis, figures: Sequence[Figure] = (), *, timeline: Mapping[str, Any] | None = None
) -> Report:
    """Return the report of many traces.

    figures: the figures that were drawn, in order.
    timeline: the result of ranks_timeline_data; None for a report without an interactive timeline.
    """
    chart = [] if timeline is None else [Section("Timeline", (Chart(timeline, ALT, HINT),), in_terminal=False)]
    tables = (
        *filter(None, [communication_table(job)]), range_table(job), kernel_table(job),
        *filter(None, [energy_table(job)]), api_table(job), memop_table(job), clock_table(job),
    )  # fmt: skip
    read = f"{len(job.read)} of {len(job.rows)} traces were read."
    sections = [
        *_findings(job),
        Section("", (Lines(headline(job), is_verdict=True), straggler_table(job), rank_table(job))),
        *(Section("One step", (figure,), in_terminal=False) for figure in figures if figure.file == _STEP),
        *chart,
        *figure_sections([figure for figure in figures if figure.file != _STEP]),
        Section("", tables),
        Section("Notes", (Notes(job.notes),)),
        Section("", (Paragraph(read),), in_terminal=False),
        Section("Method", (Lines(_METHOD),), in_terminal=False),
        Section("", (facts_table("Environment", _environment(job)),), in_terminal=False),
    ]
    return Report(f"{len(job.read)} ranks", tuple(sections))


def _findings(job: RanksAnalysis) -> list[Section]:
    """Return what to change in the job, or why that is unknown."""
    if job.step_ns is None and not job.no_findings:
        return []
    step = f"{format_ns(job.step_ns)} of a step"
    if job.no_findings:
        text = f"Findings of the job are unknown, because {job.no_findings}."
    elif not job.findings:
        text = f"Nothing was found above {100 * LEAST_SHARE:g} % of the {step} of the job."
    else:
        text = f"What the job would save of the {step}, each change alone; savings overlap."
    items = tuple(replace(finding_item(item), where=_place(item)) for item in job.findings)
    ranking = [Ranking(items, "saved per step", Unit.NS, "findings.csv")] if items else []
    return [Section("Findings", (Lines((text,), is_verdict=True), *ranking))]


def _place(finding: JobFinding) -> str:
    """Return which ranks have a finding, and where."""
    of_ranks = f"rank{'s' * (',' in finding.ranks)} {finding.ranks}"
    return " at ".join(filter(None, (of_ranks, finding.place, finding.location)))


def communication_table(job: RanksAnalysis) -> Table | None:
    """Return what communication takes on each rank, by range and kind; None without any."""
    if job.communication is None or not len(job.communication):
        return None
    columns = {
        "rank": Column("rank"),
        "range": Column("range", Unit.NAME),
        "kind": Column("kind"),
        "calls": Column("calls", Unit.NUMBER, drop=3),
        "message_bytes": Column("messages", Unit.BYTES, drop=2),
        "bus_bytes_per_s": Column("bus bandwidth", Unit.BYTES_PER_S, drop=1),
        "share_of_link_pct": Column("of the link", Unit.PERCENT, drop=4),
        "hidden_ns": Column("hidden", Unit.NS),
        "exposed_ns": Column("exposed", Unit.NS),
    }
    rows = []
    for cells in rows_of(job.communication.head(MOST_ROWS), list(columns)):
        rows.append((Cell(str(cells[0])), *cells[1:]))
    return _table("Communication of a step", list(columns.values()), rows, len(job.communication), "communication.csv")


def _environment(job: RanksAnalysis) -> list[tuple[str, str]]:
    read = job.read
    facts = [
        ("nsysprof", VERSION),
        ("GPUs", ", ".join(sorted({gpu for row in read for gpu in row.gpus}))),
        ("nsys", ", ".join(sorted({row.nsys_version or "unknown" for row in read}))),
        ("ranks from", ", ".join(sorted({row.rank_from for row in job.rows}))),
    ]
    return facts + [(str(key), str(fact)) for key, fact in job.engine.items()]


_TERMINAL_ROWS, _DOCUMENT_ROWS = 16, 400


def headline(job: RanksAnalysis) -> tuple[str, ...]:
    """Return the summary: which rank is late and where, how balanced the work is, and what communication costs."""
    read = job.read
    hosts = {row.host for row in read if row.host}
    lines = [
        f"{len(read)} of {len(job.rows)} traces read"
        + (f", of {len(hosts)} host{'s' * (len(hosts) > 1)}." if hosts else ".")
    ]
    lines += straggler_lines(job)
    if job.imbalance_pct is not None:
        longest = max(read, key=lambda row: row.compute_ns or 0).rank
        above = format_percent(job.imbalance_pct)
        lines.append(f"Load imbalance: rank {longest} computes longest, {above} above the mean.")
    comm, exposed = (_sum(read, name) for name in ("comm_ns", "exposed_comm_ns"))
    if comm:
        lines.append(
            f"NCCL: {format_ns(comm)} over all ranks, {format_ns(exposed)} "
            f"({format_percent(100 * (exposed or 0) / comm)}) of it not hidden behind computation."
        )
    lines += _bubble_lines(job)
    lines += [f"Rank {rank} is an outlier: {text}." for rank, text in list(job.outliers.items())[:5]]
    return tuple(lines)


def _bubble_lines(job: RanksAnalysis) -> list[str]:
    """Return a line on the ranks that wait for their neighbours, the longest first."""
    if job.step_ns is None or max(job.bubbles.values(), default=0) < LEAST_SHARE * job.step_ns:
        return []
    worst = sorted(job.bubbles.items(), key=lambda item: -item[1])[:_MOST_BUBBLES]
    waits = ", ".join(
        f"rank {rank} {format_ns(waited)} ({format_percent(100 * waited / job.step_ns)})" for rank, waited in worst
    )
    return [
        f"Pipeline bubbles: in a step of {format_ns(job.step_ns)}, ranks wait in sends and receives for their "
        f"neighbours with nothing to compute: {waits}."
    ]


_NO_STRAGGLER = {
    "collectives": "No straggler: no single rank costs the job "
    f"{STRAGGLER_COST_PCT:g} % of its time, in part after part, beyond what chance explains.",
    "not replayed": "Whether a rank holds up the others is unknown: the collectives are too few, their launches were "
    "not recorded, or a replay of them does not take the recorded time.",
    "own work": "No straggler: no rank computes far longer than the others (they share no collective on one clock).",
    "": "Whether a rank holds up the others is unknown: the traces share no collective on one clock, and their work "
    "cannot be compared.",
}


def straggler_lines(job: RanksAnalysis, limit: int = 5) -> list[str]:
    """Return a line for each straggler, with the range in which it is late most."""
    lines = []
    of_few = f"; of fewer than {OUTLIER_RANKS} ranks, nothing tells whether by chance" * (len(job.rows) < OUTLIER_RANKS)
    for _, line in job.stragglers.drop_duplicates("rank").head(limit).iterrows():
        late, percent = format_ns(line["late_ns"]), format_percent(line["late_pct"])
        text = f"Rank {line['rank']} computes {late} ({percent}) longer than is usual{of_few}"
        if line["evidence"] == "collectives":
            text = (
                f"Rank {line['rank']} is a straggler: {_cost(line)} It is last in {line['last_in']} of "
                f"{line['collectives']} collectives"
            )
        where = known(line["excess_ns"])
        if where is not None:
            percent = known(line["excess_pct"])
            more = "" if percent is None else f", {percent:+.0f} %"
            text += f"; it falls behind in {line['range']!s} ({line['where']} +{format_ns(where)}{more})"
        lines.append(text + ".")
    return lines or [_NO_STRAGGLER[job.straggler_evidence]]


def _cost(line: pd.Series[Any]) -> str:
    """Return what a straggler costs, or why this is unknown."""
    if known(line["cost_ns"]) is None:
        return (
            "without its delay the job would take less, but how much less is unknown: no steps were found in the "
            "stretches of this long job that are looked at. Record fewer steps."
        )
    cost, low, high = (format_ns(known(line[f"cost{end}_ns"])) for end in ("", "_low", "_high"))
    share = format_percent(known(line["cost_pct"]))
    return f"with this rank like the others, the job would take {cost} less ({share}, 95 % interval {low} to {high})."


def _sum(rows: list[RankRow], name: str) -> int | None:
    numbers = [getattr(row, name) for row in rows if getattr(row, name) is not None]
    return sum(numbers) if numbers else None


def rank_table(job: RanksAnalysis) -> Table:
    """Return one row for each rank; stragglers and outliers are marked."""
    slow = set(job.stragglers["rank"].tolist())
    words = [
        ["straggler"] * (row.rank in slow) + ["outlier"] * (row.rank in job.outliers) for row in job.rows[:MOST_ROWS]
    ]
    columns = (
        (Column("rank", Unit.PROSE), lambda row: str(row.rank) if row.is_read else f"{row.rank}: {row.reason}"),
        (Column("trace", Unit.NAME, drop=7), "source"),
        (Column("kernels", Unit.COUNT, drop=5), "kernel_count"),
        (Column("compute", Unit.NS), "compute_ns"),
        (Column("NCCL", Unit.NS), "comm_ns"),
        (Column("overlap", Unit.NS, drop=4), "overlap_ns"),
        (Column("exposed", Unit.NS), "exposed_comm_ns"),
        (Column("idle", Unit.NS, drop=1), "idle_ns"),
        (Column("copied", Unit.BYTES, drop=6), "memcpy_bytes"),
        (Column("peak VRAM", Unit.BYTES, drop=2), "peak_vram_bytes"),
        (
            Column("unlike others", Unit.PROSE, drop=3),
            lambda row: job.outliers.get(row.rank if row.rank is not None else -1, ""),
        ),
    )
    marks = {number: ", ".join(word) for number, word in enumerate(words) if word}
    return table_of(
        "Ranks", job.rows[:MOST_ROWS], columns, marks=marks, marks_are_bad=True, **_shown(len(job.rows), "per_rank.csv")
    )


def straggler_table(job: RanksAnalysis) -> Table:
    """Return the ranges in which late ranks lose time."""
    columns = {
        "rank": Column("rank"),
        "range": Column("range", Unit.NAME),
        "where": Column("where", drop=1),
        "own_ns": Column("its time", Unit.NS, drop=3),
        "typical_ns": Column("usual", Unit.NS, drop=4),
        "excess_ns": Column("more", Unit.NS),
        "excess_pct": Column("more, %", Unit.CHANGE_PERCENT, drop=2),
        "late_ns": Column("others waited", Unit.NS, drop=5),
        "cost_ns": Column("cost", Unit.NS),
    }
    rows = []
    for line in job.stragglers.head(50).to_dict("records"):
        cells = {name: Cell(known(line[name])) for name in columns}
        cells["rank"] = Cell(str(line["rank"]))
        cells["excess_pct"] = Cell(known(line["excess_pct"]), is_signed=True)
        rows.append(tuple(cells.values()))
    return _table("Stragglers", tuple(columns.values()), rows, len(job.stragglers), "stragglers.csv")


_SPREAD = {
    "instances": Column("n", Unit.COUNT, drop=5),
    "total_ns": Column("total", Unit.NS),
    "min_ns": Column("min", Unit.NS, drop=6),
    "q25_ns": Column("q25", Unit.NS, drop=8),
    "med_ns": Column("median", Unit.NS, drop=1),
    "q75_ns": Column("q75", Unit.NS, drop=7),
    "p99_ns": Column("p99", Unit.NS, drop=4),
    "max_ns": Column("max", Unit.NS, drop=3),
    "imbalance_pct": Column("imbalance", Unit.PERCENT),
    "slowest_rank": Column("longest on rank", Unit.COUNT, drop=2),
}


def range_table(job: RanksAnalysis) -> Table:
    """Return ranges, summarized over ranks, the longest first; counted names are one (`step#`)."""
    named = job.range_families
    named = named.assign(range=[qualified_name(*key) for key in zip(named["range"], named["domain"], strict=True)])
    return _spread("Ranges over ranks", named, "range", "range", "ranges_over_ranks.csv")


def kernel_table(job: RanksAnalysis) -> Table:
    """Return kernels, summarized over ranks."""
    title, source = "Kernels over ranks", "kernels_over_ranks.csv"
    table = _spread(title, job.kernels, "name", "kernel", source, terminal_rows=8)
    labels = job.kernel_labels[: len(table.rows)]
    if len(labels) < len(table.rows):
        return table
    rows = [(Cell(label, full=str(row[0].value)), *row[1:]) for label, row in zip(labels, table.rows, strict=True)]
    return replace(table, rows=tuple(rows))


def energy_table(job: RanksAnalysis) -> Table | None:
    """Return the energy of the job's boards by range; None where it was not sampled."""
    if job.energy is None or not len(job.energy):
        return None
    columns = (
        (Column("range", Unit.NAME), lambda row: qualified_name(known(row["range"]), known(row["domain"]))),
        (Column("boards", Unit.COUNT, drop=3), "boards"),
        (Column("n", Unit.COUNT, drop=4), "instances"),
        (Column("energy", Unit.JOULES), energy_cell),
        (Column("mean power, least", Unit.WATTS, drop=1), "board_least_w"),
        (Column("most", Unit.WATTS), "board_most_w"),
        (Column("most on rank", Unit.COUNT, drop=2), "most_rank"),
    )
    title, rows = "Energy of the boards while work ran", job.energy.head(MOST_ROWS).to_dict("records")
    return table_of(title, rows, columns, **_shown(len(job.energy), "energy_over_ranks.csv", terminal_rows=8))


def api_table(job: RanksAnalysis) -> Table:
    """Return API calls, summarized over ranks."""
    return _spread("API calls over ranks", job.api, "name", "call", "api_over_ranks.csv", terminal_rows=0)


def memop_table(job: RanksAnalysis) -> Table:
    """Return copies and fills, summarized over ranks."""
    title, source = "Copies and fills over ranks", "memops_over_ranks.csv"
    return _spread(title, job.memops, "name", "operation", source, terminal_rows=0)


def _spread(title: str, frame: pd.DataFrame, name: str, header: str, source: str, **fields: Any) -> Table:
    columns = (Column(header, Unit.NAME), *_SPREAD.values())
    return _table(title, columns, rows_of(frame.head(MOST_ROWS), [name, *_SPREAD]), len(frame), source, **fields)


def clock_table(job: RanksAnalysis) -> Table:
    """Return how each rank's clock was determined, with the remaining error."""
    columns = (
        (Column("rank"), lambda fit: str(fit.rank)),
        (Column("clock", Unit.PROSE), lambda fit: fit.how if fit.offset_ns is not None else f"refused: {fit.reason}"),
        (Column("offset", Unit.EXACT_NS), lambda fit: Cell(fit.offset_ns, is_signed=True)),
        (Column("anchors", Unit.COUNT, drop=1), "anchors"),
        (Column("residual, median", Unit.NS), "residual_ns"),
        (Column("residual, worst", Unit.NS, drop=2), "worst_ns"),
    )
    return table_of("Clocks", job.clocks[:MOST_ROWS], columns, **_shown(len(job.clocks), "ranks.json"))


def _table(title: str, columns: Any, rows: Any, total: int, source: str, **fields: Any) -> Table:
    return make_table(title, columns, rows, **_shown(total, source, **fields))


def _shown(total: int, source: str, **fields: Any) -> dict[str, Any]:
    """Return the fields of a table of this page."""
    shown = {"terminal_rows": _TERMINAL_ROWS, "document_rows": _DOCUMENT_ROWS, **fields}
    return {"total_rows": total, "source": source, **shown}
