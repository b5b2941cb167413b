"""Render a report as Markdown, which a person can attach to an issue."""

from __future__ import annotations

from collections.abc import Sequence

from nsysprof.notes import Note
from nsysprof.report.document import (
    Code,
    Figure,
    Gate,
    Lines,
    Notes,
    Paragraph,
    Part,
    Ranking,
    Report,
    Section,
    StackedBar,
    Table,
    Unit,
    clean,
    escape_markdown,
)
from nsysprof.report.formats.bars import bar_lines
from nsysprof.report.formats.cell_text import amount_text, cell_text, shorten_names
from nsysprof.results.checks import Outcome, said_once

_NAME_WIDTH, _CELL_WIDTH = 90, 300
_LINE, _NOTE = 1000, 600
_FOLD_ABOVE = 12
# A list up to this length stays unfolded, which is enough for the verdicts of a usual grid.
_FOLD_MARKED_ABOVE = 40
# A comment on GitHub holds 65,536 characters, and the user's own words need room too.
_MOST_CHARACTERS = 60_000
_MOST_ROWS = (400, 200, 100, 50, 25, 12, 6, 3)
_OUTCOMES = {Outcome.PASS: "pass", Outcome.REGRESSION: "REGRESSION", Outcome.INCONCLUSIVE: "inconclusive"}


def render_markdown(report: Report, *, level: int = 1) -> str:
    """Return the report, with tables and lists cut so that it fits into a comment on GitHub.

    level: the level of the title's heading; more than 1 for a report in the middle of another text.
    """
    for most in _MOST_ROWS:
        text = _render(report, level, most)
        if len(text) < _MOST_CHARACTERS:
            return text
    return text


def _render(report: Report, level: int, most: int) -> str:
    lines = [f"{'#' * level} {_escape(report.title, _NAME_WIDTH)}", ""]
    for section in report.sections:
        lines += _section(section, level + 1, most)
    return "\n".join(lines).rstrip("\n") + "\n"


def _section(section: Section, level: int, most: int) -> list[str]:
    below = level + 1 if section.title and not section.is_folded else level
    lines = [line for part in section.parts for line in _part(part, below, most)]
    if not lines or not section.title:
        return lines
    title = _escape(section.title, _CELL_WIDTH)
    if section.is_folded:
        return [f"<details><summary>{title}</summary>", "", *lines, "</details>", ""]
    return [f"{'#' * level} {title}", "", *lines]


def _part(part: Part, level: int, most: int) -> list[str]:
    """Return the lines of a part, followed by an empty line; none for parts that Markdown cannot show."""
    if isinstance(part, Table):
        return render_table(part, level, most) if part.document_rows and (part.rows or part.is_kept_empty) else []
    match part:
        case Lines():
            lines = _list([_escape(line, _LINE) for line in part.texts], min(most, part.document_lines))
        case Paragraph():
            lines = [f"> **{_escape(part.text, _LINE)}**" if part.is_warning else _escape(part.text, _LINE)]
        case Code():
            lines = [f"```{part.language}", part.text.replace("```", ""), "```"]
        case Figure():
            lines = [f"![{_escape(part.alt, _CELL_WIDTH)}]({part.file})"]
        case Notes():
            lines = _list([_note(note) for note in part.notes], most)
        case Ranking():
            lines = _ranking_lines(part, most)
        case StackedBar():
            lines = [escape_markdown(text) for text in bar_lines(part)]
        case Gate():
            lines = _gate_lines(part, most)
        case _:
            lines = []
    return [*lines, ""] if lines else []


def _escape(text: str, limit: int) -> str:
    return escape_markdown(clean(text, limit))


def _list(lines: Sequence[str], most: int) -> list[str]:
    more = [f"- and {len(lines) - most} more"] if len(lines) > most else []
    return [*(f"- {line}" for line in lines[:most]), *more]


def _note(note: Note) -> str:
    step = f" → {_escape(note.next_step, _NOTE)}" if note.next_step else ""
    return f"**{note.severity.value}** `{note.code}`: {_escape(note.text, _NOTE)}{step}"


def _ranking_lines(part: Ranking, most: int) -> list[str]:
    lines = []
    for number, item in enumerate(part.items[:most], 1):
        amount = amount_text(item, part)
        where = f" in {_escape(item.where, _NAME_WIDTH)}" if item.where else ""
        step = f" → {_escape(item.next_step, _NOTE)}" if item.next_step else ""
        head = f"**{_escape(item.code, _NAME_WIDTH)}**{where}: {amount} {part.amount_title}"
        lines.append(f"{number}. {head}. {_escape(item.text, _NOTE)}{step}")
    more = len(part.items) - most
    return [*lines, *(["", f"{more} more are in `{part.source}`."] if more > 0 else [])]


def _gate_lines(part: Gate, most: int) -> list[str]:
    if not part.results:
        return []
    lines = ["| gate | | |", "|---|---|---|"]
    lines += [
        f"| `{result.rule}` | {_OUTCOMES[result.outcome]} | {result.checked} checked |" for result in part.results
    ]
    findings = [finding for result in part.results for finding in result.findings]
    findings.sort(key=lambda finding: finding.outcome != Outcome.REGRESSION)
    texts = []
    for finding in said_once(findings):
        step = f" → {finding.next_step}" if finding.next_step else ""
        said = ": ".join(filter(None, (finding.outcome.value, finding.where, finding.text)))
        texts.append(_escape(f"{said}{step}", _NOTE))
    return [*lines, "", *_list(texts, min(most, _FOLD_MARKED_ABOVE))]


def render_table(table: Table, level: int = 2, most: int = 400) -> list[str]:
    """Return a table as lines, folded away when it is long."""
    cut = table.first_rows(min(most, table.document_rows))
    lines = [
        "| " + " | ".join(escape_markdown(column.title) for column in table.columns) + " |",
        "|" + "|".join(":---" if column.unit.is_text else "---:" for column in table.columns) + "|",
    ]
    for number, row in enumerate(_texts(cut)):
        cells = [escape_markdown(text) for text in row]
        if table.depths:
            cells[0] = "&nbsp;" * 4 * cut.depths[number] + cells[0]
        if number in table.marks:
            cells[0] = f"**{cells[0]}** {table.mark_sign} {escape_markdown(table.marks[number])}"
        lines.append("| " + " | ".join(cells) + " |")
    if cut.row_count > len(cut.rows):
        source = f"; all are in `{table.source}`" if table.source else ""
        lines += ["", f"{len(cut.rows)} of {cut.row_count} rows{source}."]
    if len(cut.rows) > (_FOLD_MARKED_ABOVE if table.source == "results.csv" else _FOLD_ABOVE):
        summary = f"{escape_markdown(table.title)} ({cut.row_count})"
        return [f"<details><summary>{summary}</summary>", "", *lines, "", "</details>", ""]
    return [*([f"{'#' * level} {escape_markdown(table.title)}", ""] if table.title else []), *lines, ""]


def _texts(table: Table) -> list[tuple[str, ...]]:
    columns = []
    for number, column in enumerate(table.columns):
        texts = [clean(cell_text(row[number], column)) for row in table.rows]
        if column.unit is Unit.NAME:
            texts = shorten_names(texts, _NAME_WIDTH)
        columns.append([clean(text, _CELL_WIDTH) for text in texts])
    return list(zip(*columns, strict=True))
