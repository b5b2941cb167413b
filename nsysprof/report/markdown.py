"""report.md: what a person attaches to an issue."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.analysis.results import Analysis, CaptureRecord
from nsysprof.report.escape import clean, escape_markdown
from nsysprof.report.method import coverage_line, environment_rows, method_lines
from nsysprof.report.tables import Table, api_table, case_table, kernel_table, memop_table, range_table, reasons
from nsysprof.report.verdict import comparison_table, mark_best, verdict_lines
from nsysprof.report.words import words_for

_NAME_WIDTH = 90
_FOLD_ABOVE = 12


def render_markdown(analysis: Analysis, record: CaptureRecord | None, figures: Sequence[str]) -> str:
    """The report; `figures` are file names beside it. Tables are cut, so that GitHub's 65,536 characters suffice."""
    words = words_for(analysis.trace)
    title = record.title if record else analysis.trace.path_name
    parts = [f"# {escape_markdown(title)}", ""]
    if record is not None:
        parts += [f"- {escape_markdown(line)}" for line in verdict_lines(record)] + [""]
        parts += render_table(mark_best(case_table(record, words), record))
        parts += [f"- {escape_markdown(clean(line, 400))}" for line in reasons(record)] + [""]
        parts += render_table(comparison_table(record, words))
    parts += [f"![{name.rpartition('.')[0]}]({name})\n" for name in figures]
    parts += render_table(range_table(analysis))
    parts += render_table(kernel_table(analysis))
    for table in (memop_table(analysis), api_table(analysis)):
        parts += render_table(table) if table.rows else []
    parts += ["## Notes", ""]
    for note in (*(record.notes if record else ()), *analysis.notes):
        following = f" → {escape_markdown(note.next_step)}" if note.next_step else ""
        parts.append(f"- **{note.severity.value}** `{note.code}`: {escape_markdown(note.text)}{following}")
    parts += ["", f"Coverage: {coverage_line(analysis)}", "", "## Method", ""]
    parts += [f"- {line}" for line in method_lines(analysis, record)]
    parts += ["", "## Environment", "", "| | |", "|---|---|"]
    parts += [f"| {key} | {escape_markdown(text)} |" for key, text in environment_rows(analysis, record)]
    return "\n".join(parts) + "\n"


def render_table(table: Table) -> list[str]:
    """A table as Markdown lines, folded when long."""
    lines = [
        "| " + " | ".join(escape_markdown(header) for header in table.headers) + " |",
        "|" + "|".join(":---" if index in table.text else "---:" for index in range(len(table.headers))) + "|",
    ]
    for number, row in enumerate(table.rows):
        cells = [escape_markdown(clean(cell, _NAME_WIDTH)) for cell in row]
        if number in table.marks:
            cells[0] = f"**{cells[0]}** ★ {table.marks[number]}"
        lines.append("| " + " | ".join(cells) + " |")
    if table.total_rows > len(table.rows):
        lines += ["", f"{len(table.rows)} of {table.total_rows} rows; all are in `{table.csv_name}`."]
    if len(table.rows) > _FOLD_ABOVE and table.csv_name != "results.csv":
        summary = f"{escape_markdown(table.title)} ({table.total_rows or len(table.rows)})"
        return ["<details><summary>" + summary + "</summary>", "", *lines, "", "</details>", ""]
    return [f"## {escape_markdown(table.title)}", "", *lines, ""]
