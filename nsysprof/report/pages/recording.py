"""Compose what a recording says: of each process, of a program without a GPU, and what it cost the program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

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
    count_of,
    make_table,
    table_of,
)
from nsysprof.report.pages.trace_tables import rows_of
from nsysprof.results.analysis import MOST_COST, Analysis, RangeCost
from nsysprof.results.recorded_part import LatencyWindows, RecordResult
from nsysprof.units import format_bytes, format_ns

# The most kinds, ranges and calls that a sentence names, and the least share to name one (percent).
_MOST, _LEAST_PCT = 4, 3.0


def recording_report(result: RecordResult) -> Report:
    """Return what was recorded, the latency before, during and after, the program's processes, and notes."""
    steps = "" if result.steps is None else f", {result.steps} steps"
    summary = (
        f"recorded {format_ns(result.duration_ns)}{steps}; nsys took {format_ns(result.start_ns)} to start and "
        f"{format_ns(result.stop_ns)} to stop; the program {'runs on' if result.survived else 'has ended'}"
    )
    first = (summary, *_pace_lines(result.latency))
    parts = (Lines(first, is_verdict=True), *_latency_parts(result.latency), *_process_parts(result))
    sections = [Section("", parts)]
    if result.notes:
        sections.append(Section("Notes", (Notes(result.notes),)))
    return Report(f"Recording {result.folder.name}", tuple(sections))


def _pace_lines(latency: LatencyWindows) -> list[str]:
    """Return that the steps before and after the recording differ, where they certainly do by over 10 %."""
    during, after = latency.during_ratio, latency.after_ratio
    if during is None or after is None or not after[0] or after[1] is None or after[2] is None:
        return []
    is_apart = after[1] > 1 + MOST_COST or after[2] < 1 - MOST_COST
    least, most = sorted((during[0], during[0] / after[0]))
    return (
        [
            f"steps after the recording take {after[0]:.2f} times as long as those before it, so what recording costs "
            f"is unsure: the recorded ones take {least:.2f} to {most:.2f} times as long as those on either side"
        ]
        if is_apart
        else []
    )


def _latency_parts(latency: LatencyWindows) -> list[Part]:
    parts: list[Part] = []
    windows = (
        ("before", latency.before, None),
        ("during", latency.during, latency.during_ratio),
        ("after", latency.after, latency.after_ratio),
    )
    columns = (
        (Column("recording"), lambda row: row[0]),
        (Column("steps", Unit.COUNT), lambda row: row[1].steps),
        (Column("in", Unit.NS, drop=2), lambda row: row[1].wall_ns),
        (
            Column("median of a step", Unit.NS),
            lambda row: Cell(row[1].median_ns, low=row[1].median_low_ns, high=row[1].median_high_ns),
        ),
        (Column("90 % within", Unit.NS, drop=1), lambda row: row[1].p90_ns),
        (
            Column("/ before", Unit.QUOTIENT),
            lambda row: Cell() if row[2] is None else Cell(row[2][0], low=row[2][1], high=row[2][2]),
        ),
    )
    known = [row for row in windows if row[1] is not None]
    if latency.told_by and known:
        parts.append(table_of(f"Latency around the recording, from {latency.told_by}", known, columns))
    if latency.unknown:
        parts.append(Paragraph(f"whether the latency changed is unknown: {latency.unknown}"))
    return parts


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
    columns = (
        (Column("range", Unit.NAME), "range"),
        (Column("as recorded", Unit.NS), "wall_med_ns"),
        (Column("not recorded", Unit.NS), "plain_wall_med_ns"),
        (
            Column("times as long", Unit.QUOTIENT),
            lambda cost: Cell(cost.slowdown, low=cost.slowdown_low, high=cost.slowdown_high),
        ),
        (Column("instances", Unit.COUNT, drop=1), "instances"),
    )
    slowed = f"more than {100 * MOST_COST:g} %"
    return table_of(
        "What recording costs",
        costs[:_MOST_ROWS],
        columns,
        source="recording_cost.csv",
        total_rows=len(costs),
        terminal_rows=_TERMINAL_ROWS,
        marks={number: slowed for number, cost in enumerate(costs[:_MOST_ROWS]) if cost.is_distorted},
        marks_are_bad=True,
    )


def cpu_sections(analysis: Analysis) -> list[Section]:
    """Return the overview of a recording of the CPU alone; nothing for another one."""
    if not analysis.is_of_cpu or analysis.part is not None:
        return []
    has_work = bool(len(analysis.kernels))
    first = "Nothing here ran on a GPU" if has_work else "The trace has no GPU work and no CUDA call"
    lines = [f"{first}: what follows is about the CPU.", *_operator_lines(analysis), *_range_lines(analysis)]
    lines += [*_os_call_lines(analysis), *_memory_lines(analysis)]
    return [Section("Overview", (Lines(tuple(lines), is_verdict=True),))]


def os_call_table(analysis: Analysis) -> Table | None:
    """Return the functions of the OS runtime with the most time; None where they are unknown."""
    calls = analysis.os_calls
    if calls is None:
        return None
    columns = {
        "name": Column("call", Unit.NAME),
        "threads": Column("threads", Unit.COUNT, drop=1),
        "calls": Column("calls", Unit.COUNT),
        "total_ns": Column("total", Unit.NS),
        "med_ns": Column("median", Unit.NS),
        "max_ns": Column("max", Unit.NS),
    }
    return make_table(
        "Calls of the OS runtime (times of all threads added up)",
        columns.values(),
        rows_of(calls.head(100), list(columns)),
        total_rows=len(calls),
        source="os_calls.csv",
        terminal_rows=8,
        document_rows=20,
    )


def _operator_lines(analysis: Analysis) -> list[str]:
    """Return how long operators ran, and their kinds; nothing where none were recorded."""
    kernels, totals = analysis.kernels, analysis.totals
    if not len(kernels) or not totals.gpu_busy_ns or not totals.gpu_span_ns:
        return []
    share = _percent(totals.gpu_busy_ns, totals.gpu_span_ns)
    by_kind = kernels.groupby("category", sort=False)["total_ns"].sum().sort_values(ascending=False, kind="stable")
    kinds = ", ".join(
        f"{format_ns(int(total))} {kind}"
        for kind, total in by_kind.head(_MOST).items()
        if total >= _least(by_kind.sum())
    )
    return [
        f"Operators run for {format_ns(totals.gpu_busy_ns)}, {share} of the {format_ns(totals.gpu_span_ns)} from the "
        f"first to the last of them: {kinds}.",
        *_thread_lines(analysis),
    ]


def _thread_lines(analysis: Analysis) -> list[str]:
    """Return which part of the operators the busiest thread runs, of several. Here, a thread is a stream."""
    busy = analysis.streams["kernel_total_ns"]
    if len(busy) < 2:
        return []
    shares = ", ".join(_percent(own, busy.sum()) for own in busy.nlargest(_MOST))
    return [f"They run on {len(busy):,} threads; of the sum of their times, the busiest have {shares}."]


def _range_lines(analysis: Analysis) -> list[str]:
    """Return in which range most of the time is, and in which ranges inside it."""
    tree = analysis.range_tree[analysis.range_tree["wall_ns"] > 0]
    nested = tree[tree["style"] == "PushPop"]
    tree = (nested if len(nested) else tree).reset_index(drop=True)
    outer = np.flatnonzero(tree["depth"] == 0)
    if not len(outer):
        return []
    walls = tree["wall_ns"].to_numpy(np.int64)
    first = int(outer[walls[outer].argmax()])
    after = int(min(outer[outer > first], default=len(tree)))
    inside = tree.iloc[first + 1 : after]
    wall, count = int(walls[first]), int(tree["instances"].to_numpy()[first])
    text = f"The range with the most time is {tree['range'].iloc[first]}: {format_ns(wall)}, {count_of(count, 'time')}"
    if count > 1:
        text += f", {format_ns(wall // count)} on average"
    inside = inside[(inside["depth"] == 1) & (inside["wall_ns"] >= _least(wall))].nlargest(_MOST, "wall_ns")
    parts = ", ".join(
        f"{name} {_percent(own, wall)}" for name, own in zip(inside["range"], inside["wall_ns"], strict=True)
    )
    return [f"{text}." + (f" In it: {parts}." if parts else "")]


def _os_call_lines(analysis: Analysis) -> list[str]:
    calls = analysis.os_calls
    if calls is None:
        return []
    rows = calls.head(_MOST).to_dict("records")
    parts = ", ".join(f"{row['name']} {format_ns(row['total_ns'])} ({count_of(row['calls'], 'call')})" for row in rows)
    return [f"The calls of the OS runtime with the most time, of all threads together: {parts}."]


def _memory_lines(analysis: Analysis) -> list[str]:
    peaks = analysis.totals.peak_vram_bytes
    return [f"Peak memory: {format_bytes(max(peaks.values()))}."] if peaks else []


def _least(whole: float) -> float:
    return whole * _LEAST_PCT / 100


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f} %"
