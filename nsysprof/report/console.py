"""The short version of a report, for a terminal."""

from __future__ import annotations

import io

import pandas as pd

from nsysprof.analysis.results import Analysis, CaptureRecord
from nsysprof.notes import Severity
from nsysprof.report.bench_tables import failure_table, latency_table
from nsysprof.report.bench_tables import verdict_lines as verdict_lines_of_bench
from nsysprof.report.escape import clean
from nsysprof.report.method import coverage_line
from nsysprof.report.tables import (
    Table,
    case_table,
    counter_table,
    kernel_table,
    limit_lines,
    range_table,
    reasons,
)
from nsysprof.report.tier import tier_of, with_tier
from nsysprof.report.verdict import verdict_lines
from nsysprof.report.words import Words, words_for

_NAME_WIDTH = 44
_MOST_LIMITS = 12
_LEAST_WIDTH = 120  # what the case table needs; a narrower terminal wraps lines, which beats cutting numbers off


def render_console(analysis: Analysis, record: CaptureRecord | None, width: int) -> str:
    """Cases or ranges, the top kernels, what to know about them, and how much is attributed."""
    words, tier = words_for(analysis.trace), tier_of(record)
    parts = []
    if record is not None and record.has_cases:
        parts.append(render_table(with_tier(case_table(record, words), tier), width))
        parts += [clean(line, 300) for line in reasons(record)] + verdict_lines(record)
        traffic = counter_table(record)
        if traffic is not None:
            parts.append(render_table(with_tier(traffic, tier), width))
        limits = limit_lines(record)
        parts += [clean(line, 700) for line in limits[:_MOST_LIMITS]]
        parts += ["What limits the other cases is in report.md."] if len(limits) > _MOST_LIMITS else []
    parts.append(render_table(with_tier(range_table(analysis), tier), width))
    parts.append(render_table(with_tier(kernel_table(analysis, 10), tier), width))
    parts += [
        f"{note.severity.value}: {clean(note.text)}" + (f" -> {note.next_step}" if note.next_step else "")
        for note in dict.fromkeys((*analysis.notes, *(record.notes if record else ())))
        if note.severity is not Severity.INFO
    ]
    parts.append(coverage_line(analysis))
    return "\n".join(parts)


def render_results(results: pd.DataFrame, words: Words, width: int) -> str:
    """The case table alone, as `capture` prints it at its end."""
    record = CaptureRecord("", results, {}, "")
    table = render_table(case_table(record, words), width)
    return "\n".join([table, *(clean(line, 300) for line in reasons(record))])


def render_bench(table: pd.DataFrame, width: int) -> str:
    """The verdicts, latencies and failures of a bench."""
    failures = [": ".join(row) for row in failure_table(table).rows]
    lines = [clean(line, 400) for line in (*failures, *verdict_lines_of_bench(table))]
    return "\n".join([render_table(latency_table(table, short=True), width), *lines])


def render_table(table: Table, width: int, name_width: int = _NAME_WIDTH) -> str:
    """A table as plain text; trace text is printed as it is, never as rich's markup."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    grid = RichTable(title=table.title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False, padding=(0, 1, 0, 0))
    cells = [[clean(cell, name_width) for cell in row] for row in table.rows]
    for index, header in enumerate(table.headers):
        is_text = index in table.text
        # A number is never cut; where the terminal is narrow, headers wrap and names are shortened.
        needed = 0 if is_text else max((len(row[index]) for row in cells), default=0)
        grid.add_column(
            Text(header),
            justify="left" if is_text else "right",
            overflow="ellipsis" if is_text else "fold",
            no_wrap=is_text,
            min_width=needed or None,
        )
    for row in cells:
        grid.add_row(*(Text(cell) for cell in row))
    if table.total_rows > len(table.rows):
        grid.caption = f"{len(table.rows)} of {table.total_rows} rows; all are in {table.csv_name}"
    stream = io.StringIO()
    Console(file=stream, width=max(width, _LEAST_WIDTH), no_color=True, highlight=False, markup=False).print(grid)
    return stream.getvalue().rstrip()
