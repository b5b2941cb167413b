"""report.md: what a person attaches to an issue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nsysprof.analysis.results import Analysis, CaptureRecord
from nsysprof.report.escape import clean, escape_markdown
from nsysprof.report.method import coverage_line, environment_rows, method_lines
from nsysprof.report.tables import (
    Table,
    api_table,
    case_table,
    counter_table,
    kernel_counter_table,
    kernel_table,
    limit_lines,
    memop_table,
    range_table,
    reasons,
)
from nsysprof.report.tier import tier_of, with_tier
from nsysprof.report.verdict import comparison_table, mark_best, verdict_lines
from nsysprof.report.words import words_for

_NAME_WIDTH = 90
_FOLD_ABOVE = 12
# The verdict stays open for a usual grid.
_FOLD_CASES_ABOVE = 40
# A comment on GitHub holds 65,536; some words of one's own belong into it too.
_MOST_CHARACTERS = 60_000
_MOST_ROWS = (400, 200, 100, 50, 25, 12, 6)
# These say by being empty that there was none.
_ALWAYS = ("ranges.csv", "kernels.csv")


def render_markdown(analysis: Analysis, record: CaptureRecord | None, figures: Sequence[str]) -> str:
    """The report; `figures` are file names beside it. Tables and lists are cut until a comment on GitHub holds it."""
    for most in _MOST_ROWS:
        text = _render(analysis, record, figures, most)
        if len(text) < _MOST_CHARACTERS:
            return text
    return text


def _render(analysis: Analysis, record: CaptureRecord | None, figures: Sequence[str], most: int) -> str:
    words, tier = words_for(analysis.trace), tier_of(record)
    title = record.title if record else analysis.trace.path_name
    parts = [f"# {escape_markdown(clean(title, _NAME_WIDTH))}", ""]
    if record is not None and record.has_cases:
        parts += _list(verdict_lines(record), most)
        parts += render_table(with_tier(_cut(mark_best(case_table(record, words), record), most), tier))
        parts += _list([clean(line, 400) for line in reasons(record)], most)
        parts += render_table(with_tier(_cut(comparison_table(record, words), most), tier))
        traffic = counter_table(record)
        parts += [] if traffic is None else render_table(with_tier(_cut(traffic, most), tier))
        limits = limit_lines(record)
        parts += ["## What limits each case", "", *_list(limits, most)] if limits else []
    parts += [f"![{name.rpartition('.')[0]}]({name})\n" for name in figures]
    counted = kernel_counter_table(analysis)
    more = () if counted is None else (counted,)
    for table in (range_table(analysis), kernel_table(analysis), *more, memop_table(analysis), api_table(analysis)):
        parts += render_table(with_tier(_cut(table, most), tier)) if table.rows or table.csv_name in _ALWAYS else []
    parts += ["## Notes", ""]
    for note in dict.fromkeys((*(record.notes if record else ()), *analysis.notes)):
        following = f" → {escape_markdown(clean(note.next_step, 400))}" if note.next_step else ""
        parts.append(f"- **{note.severity.value}** `{note.code}`: {escape_markdown(clean(note.text, 600))}{following}")
    parts += ["", f"Coverage: {coverage_line(analysis)}", "", "## Method", ""]
    parts += [f"- {line}" for line in method_lines(analysis, record)]
    parts += ["", "## Environment", "", "| | |", "|---|---|"]
    parts += [f"| {key} | {escape_markdown(clean(text, 300))} |" for key, text in environment_rows(analysis, record)]
    return "\n".join(parts) + "\n"


def _cut(table: Table, most: int) -> Table:
    return replace(table, rows=table.rows[:most], total_rows=max(table.total_rows, len(table.rows)))


def _list(lines: Sequence[str], most: int) -> list[str]:
    shown = [f"- {escape_markdown(line)}" for line in lines[:most]]
    return [*shown, *([f"- … {len(lines) - most} more"] if len(lines) > most else []), ""]


def render_table(table: Table) -> list[str]:
    """A table as Markdown lines, folded when long."""
    lines = [
        "| " + " | ".join(escape_markdown(header) for header in table.headers) + " |",
        "|" + "|".join(":---" if index in table.text else "---:" for index in range(len(table.headers))) + "|",
    ]
    for number, row in enumerate(table.rows):
        cells = [escape_markdown(clean(cell, _NAME_WIDTH)) for cell in row]
        if number in table.marks:
            cells[0] = f"**{cells[0]}** {table.sign} {table.marks[number]}"
        lines.append("| " + " | ".join(cells) + " |")
    if table.total_rows > len(table.rows):
        lines += ["", f"{len(table.rows)} of {table.total_rows} rows; all are in `{table.csv_name}`."]
    if len(table.rows) > (_FOLD_CASES_ABOVE if table.csv_name == "results.csv" else _FOLD_ABOVE):
        summary = f"{escape_markdown(table.title)} ({table.total_rows or len(table.rows)})"
        return ["<details><summary>" + summary + "</summary>", "", *lines, "", "</details>", ""]
    return [f"## {escape_markdown(table.title)}", "", *lines, ""]
