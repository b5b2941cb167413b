"""Compose what a recording says: what was recorded of each process, and what recording cost the program."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.report.document import (
    Cell,
    Column,
    Lines,
    Notes,
    Paragraph,
    Part,
    Report,
    Section,
    Table,
    Unit,
    make_table,
)
from nsysprof.results.analysis import MOST_COST, RangeCost
from nsysprof.results.recorded_part import LatencyWindow, LatencyWindows, Ratio, RecordResult
from nsysprof.units import format_ns


def recording_report(result: RecordResult) -> Report:
    """Return what was recorded, the latency before, during and after, the program's processes, and notes."""
    steps = "" if result.steps is None else f", {result.steps} steps"
    summary = (
        f"recorded {format_ns(result.duration_ns)}{steps}; nsys took {format_ns(result.start_ns)} to start and "
        f"{format_ns(result.stop_ns)} to stop; the program {'runs on' if result.survived else 'has ended'}"
    )
    parts = (Lines((summary,), is_verdict=True), *_latency_parts(result.latency), *_process_parts(result))
    sections = [Section("", parts)]
    if result.notes:
        sections.append(Section("Notes", (Notes(result.notes),)))
    return Report(f"Recording {result.folder.name}", tuple(sections))


def _latency_parts(latency: LatencyWindows) -> list[Part]:
    parts: list[Part] = []
    windows = (
        ("before", latency.before, None),
        ("during", latency.during, latency.during_ratio),
        ("after", latency.after, latency.after_ratio),
    )
    rows = [_window_row(name, window, ratio) for name, window, ratio in windows if window is not None]
    if latency.told_by and rows:
        columns = (
            Column("recording"),
            Column("steps", Unit.COUNT),
            Column("in", Unit.NS, drop=2),
            Column("median of a step", Unit.NS),
            Column("90 % within", Unit.NS, drop=1),
            Column("/ before", Unit.QUOTIENT),
        )
        parts.append(make_table(f"Latency around the recording, from {latency.told_by}", columns, rows))
    if latency.unknown:
        parts.append(Paragraph(f"whether the latency changed is unknown: {latency.unknown}"))
    return parts


def _window_row(name: str, window: LatencyWindow, ratio: Ratio | None) -> tuple[Cell, ...]:
    value, low, high = ratio or (None, None, None)
    return (
        Cell(name),
        Cell(window.steps),
        Cell(window.wall_ns),
        Cell(window.median_ns, low=window.median_low_ns, high=window.median_high_ns),
        Cell(window.p90_ns),
        Cell(value, low=low, high=high),
    )


def _process_parts(result: RecordResult) -> list[Part]:
    titles = {
        "kernels": "kernels", "graphs": "graph replays", "ranges": "ranges", "calls": "calls", "copies": "copies",
        "fills": "fills",
    }  # fmt: skip
    recorded = [kind for kind in titles if any(getattr(row, kind) for row in result.processes)]
    columns = (
        Column("process"),
        Column("program", Unit.NAME),
        *(Column(titles[kind], Unit.COUNT, drop=place) for place, kind in enumerate(recorded)),
        Column("trace or reason", Unit.PROSE),
    )
    rows = [
        (
            str(row.pid),
            row.name,
            *(getattr(row, kind) for kind in recorded),
            row.unseen or (None if row.trace is None else str(row.trace)),
        )
        for row in result.processes
    ]
    return [make_table("Processes", columns, rows)] if rows else []


_MOST_ROWS, _TERMINAL_ROWS = 50, 8


def recording_cost_table(costs: Sequence[RangeCost]) -> Table:
    """Return the ranges with the most time, each when recorded and when not (or with only NVTX recorded)."""
    rows = [
        (
            cost.range,
            cost.wall_med_ns,
            cost.plain_wall_med_ns,
            Cell(cost.slowdown, low=cost.slowdown_low, high=cost.slowdown_high),
            cost.instances,
        )
        for cost in costs[:_MOST_ROWS]
    ]
    columns = (
        Column("range", Unit.NAME),
        Column("as recorded", Unit.NS),
        Column("not recorded", Unit.NS),
        Column("times as long", Unit.QUOTIENT),
        Column("instances", Unit.COUNT, drop=1),
    )
    slowed = f"more than {100 * MOST_COST:g} %"
    return make_table(
        "What recording costs",
        columns,
        rows,
        source="recording_cost.csv",
        total_rows=len(costs),
        terminal_rows=_TERMINAL_ROWS,
        marks={number: slowed for number, cost in enumerate(costs[:_MOST_ROWS]) if cost.is_distorted},
        marks_are_bad=True,
    )
