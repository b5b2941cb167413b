"""Render a report for a terminal: a short version whose tables are never wider than the screen."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from nsysprof.notes import Note, Severity
from nsysprof.report.document import (
    Code,
    Column,
    Gate,
    Lines,
    Notes,
    Paragraph,
    Part,
    Ranking,
    Report,
    Table,
    Unit,
    clean,
)
from nsysprof.report.formats.cell_text import amount_text, cell_text, shorten_names
from nsysprof.results.checks import GateResult, Outcome, said_once

_LINE, _NOTE = 700, 500
_MOST_FINDINGS = 20
_LEAST_TEXT = 24
_NUMBER_AND_UNIT = re.compile(r"(?<=[\d\]]) (?=(?:%|[num]?s|[KMG]?i?B|[kMGTP]?(?:B|FLOP)/s)(?:\W|$))")


def render_console(report: Report, width: int) -> str:
    """Return what the terminal shows of a report. Conclusions, such as a gate's result, come last."""
    sections = [section for section in report.sections if section.in_terminal]
    sections.sort(key=lambda section: section.is_conclusion)
    blocks: list[str] = []
    after_table = False
    for section in sections:
        shown = [(part, text) for part in section.parts if (text := render_part(part, width))]
        if shown and section.title:
            blocks += ["", clean(section.title)]
            after_table = False
        for part, text in shown:
            blocks += ["", text] if after_table and not isinstance(part, Table) else [text]
            after_table = isinstance(part, Table)
    return "\n".join(blocks).strip("\n")


def render_part(part: Part, width: int) -> str:
    """Return one part as text; "" for parts that a terminal cannot show."""
    if isinstance(part, Table):
        return render_table(part, width) if part.terminal_rows and (part.rows or part.is_kept_empty) else ""
    match part:
        case Lines():
            lines = _list_lines(part)
        case Paragraph():
            lines = [clean(part.text, _LINE)]
        case Code():
            lines = [f"  {clean(line, _LINE)}" for line in part.text.split("\n")]
        case Notes():
            lines = [note_line(note) for note in part.notes if note.severity is not Severity.INFO]
        case Ranking():
            lines = _ranking_lines(part, width)
        case Gate():
            lines = [line for result in part.results for line in _gate_lines(result)]
        case _:
            lines = []
    return "\n".join(lines)


def _list_lines(part: Lines) -> list[str]:
    shown = [clean(line, _LINE) for line in part.texts[: part.terminal_lines]]
    more = len(part.texts) - len(shown)
    return [*shown, *([f"and {more} more"] if more else [])]


def note_line(note: Note) -> str:
    """Return one line with the severity of a note, its text and its next step."""
    step = f" -> {clean(note.next_step, _NOTE)}" if note.next_step else ""
    return f"{note.severity.value}: {clean(note.text, _NOTE)}{step}"


def _ranking_lines(part: Ranking, width: int) -> list[str]:
    """Return a numbered list: what, where and how much on the first line, then the text and the next step.

    A long list has only the gist of each text, so that a screen holds it.
    """
    lines, is_long = [], part.whole_count < len(part.items)
    for number, item in enumerate(part.items[: part.terminal_items], 1):
        amount = amount_text(item, part)
        where = f" in {clean(item.where, 60)}" if item.where else ""
        head = f"{number}. {clean(item.code, 40)}{where}: {amount}"
        if number > part.whole_count:
            lines += wrap_text(f"{head}. {clean(item.gist, _LINE)}", width, "", "   ")
            continue
        lines += wrap_text(f"{head} {part.amount_title}", width, "", "   ")
        for text in (item.gist if is_long else item.text, f"-> {item.next_step}" if item.next_step else ""):
            lines += wrap_text(clean(text, _LINE), width, "   ")
    more = len(part.items) - part.terminal_items
    if more > 0:
        lines.append(f"and {more} more")
    if is_long:
        lines.append(f"The evidence, and what to do about {part.whole_count + 1} to {len(part.items)}: {part.source}")
    return lines


def _gate_lines(result: GateResult) -> list[str]:
    count = f"{result.checked} checked" if result.checked else "nothing to check"
    lines = [f"{result.rule}: {result.outcome.value} ({count})"]
    worst_first = sorted(result.findings, key=lambda finding: finding.outcome != Outcome.REGRESSION)
    for finding in said_once(worst_first[:_MOST_FINDINGS]):
        step = f" -> {finding.next_step}" if finding.next_step else ""
        said = ": ".join(filter(None, (finding.outcome.value, finding.where, finding.text)))
        lines.append(clean(f"  {said}{step}", _NOTE))
    more = len(worst_first) - _MOST_FINDINGS
    return [*lines, *([f"  and {more} more"] if more > 0 else [])]


def render_table(table: Table, width: int) -> str:
    """Return a table as text. Trace text is printed literally, never as rich's markup."""
    cut = table.first_rows(table.terminal_rows)
    layout = lay_out(cut, width)
    body = _stacked(cut, layout, width) if layout.is_stacked else _grid(cut, layout)
    return "\n".join(["", *wrap_text(clean(table.title), width, ""), body, *_left_out(cut, layout, width)])


def _grid(table: Table, layout: Layout) -> str:
    """Return the rows below their header. rich breaks texts into lines; most tables have none to break."""
    columns = [table.columns[number] for number in layout.shown]
    if not _fits(columns, layout):
        return _broken_grid(columns, layout)
    headers = [
        textwrap.wrap(column.title, width, break_on_hyphens=False) or [""]
        for column, width in zip(columns, layout.widths, strict=True)
    ]
    height = max(map(len, headers), default=0)
    lines = list(zip(*([""] * (height - len(header)) + header for header in headers), strict=True))
    is_text = [column.unit.is_text for column in columns]
    shown = [_line(cells, layout.widths, is_text) for cells in (*lines, *layout.cells)]
    rule = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" * (sum(layout.widths) + GAP * (len(layout.widths) - 1))
    return "\n".join([*shown[:height], rule, *shown[height:]])


def _fits(columns: Sequence[Column], layout: Layout) -> bool:
    """Return whether each text fits into the width of its column, a title in several lines."""
    return all(
        max(map(len, column.title.split()), default=0) <= width
        and column.title.isascii()
        and all(row[place].isprintable() and cell_len(row[place]) <= width for row in layout.cells)
        for place, (column, width) in enumerate(zip(columns, layout.widths, strict=True))
    )


def _line(cells: Sequence[str], widths: Sequence[int], is_text: Sequence[bool]) -> str:
    shown = []
    for cell, width, on_left in zip(cells, widths, is_text, strict=True):
        room = " " * (width - cell_len(cell))
        shown.append(cell + room if on_left else room + cell)
    return (" " * GAP).join(shown).rstrip()


def _broken_grid(columns: Sequence[Column], layout: Layout) -> str:
    """Return the same where texts must be broken into lines."""
    grid = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, GAP - 1, 0, 0))
    for column, width in zip(columns, layout.widths, strict=True):
        is_text = column.unit.is_text
        grid.add_column(Text(column.title), justify="left" if is_text else "right", width=width, vertical="top")
    for row in layout.cells:
        grid.add_row(*(Text(cell) for cell in row))
    stream = io.StringIO()
    total = sum(layout.widths) + GAP * len(layout.widths)
    Console(file=stream, width=total, no_color=True, highlight=False, markup=False).print(grid)
    return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())


def _stacked(table: Table, layout: Layout, width: int) -> str:
    """Return one block per row: its first cell, then a line for each other cell."""
    titles = [column.title for column in table.columns]
    label = max(map(cell_len, titles[1:]), default=0) + GAP
    lines = []
    for row in layout.cells:
        lines += wrap_text(row[0], width, "")
        for title, text in zip(titles[1:], row[1:], strict=True):
            if width - label - 2 < _LEAST_TEXT:
                lines += wrap_text(f"{title}: {text}", width, "  ")
            else:
                first, *rest = wrap_text(text, width - label - 2, "") or [""]
                lines += [f"  {title:<{label}}{first}".rstrip(), *(" " * (label + 2) + line for line in rest)]
    return "\n".join(lines)


def _left_out(table: Table, layout: Layout, width: int) -> list[str]:
    """Return which columns and rows of the table are not shown, and where they are."""
    missing = [f"{len(table.rows)} of {table.row_count} rows"] if table.row_count > len(table.rows) else []
    for is_unknown, what in ((True, "not known here:"), (False, "no room for")):
        dropped = [
            column.title
            for number, column in enumerate(table.columns)
            if number not in layout.shown and table.is_unknown(number) is is_unknown
        ]
        missing += [f"{what} {', '.join(dropped)}"] if dropped else []
    if not missing:
        return []
    return wrap_text("; ".join(missing) + (f"; all are in {table.source}" if table.source else ""), width, "")


def wrap_text(text: str, width: int, indent: str, next_indent: str | None = None) -> list[str]:
    """Return the lines of a text. No line parts a number from its unit.

    next_indent: of all lines but the first, where it is another one.
    """
    below = indent if next_indent is None else next_indent
    joined = _NUMBER_AND_UNIT.sub("\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(
        joined, max(width, 10), initial_indent=indent, subsequent_indent=below, break_on_hyphens=False
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


GAP = 2
# The least width of a name and of a text (characters), and the most they get where there is room.
_LEAST_NAME, _LEAST_PROSE = 20, 24
_MOST_NAME, _MOST_PROSE = 62, 100
_INDENT = 2


@dataclass(frozen=True)
class Layout:
    """How a table is shown in a terminal.

    shown: the numbers of the columns that are left.
    widths: the width of each of these (characters).
    cells: the texts of these columns, row by row.
    is_stacked: whether every row takes several lines, because rows are too wide whatever is dropped.
    """

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    cells: tuple[tuple[str, ...], ...]
    is_stacked: bool = False


def lay_out(table: Table, width: int) -> Layout:
    """Return the widest layout of the table that fits into `width` characters."""
    texts = table_texts(table)
    limits = [
        _limits(column, [row[number] for row in texts], max(_indents(table, number), default=0))
        for number, column in enumerate(table.columns)
    ]
    shown = [number for number in range(len(table.columns)) if not table.is_unknown(number)]
    while _total(limits[number][0] for number in shown) > width:
        last = max(shown, key=lambda number: (table.columns[number].drop, number))
        if table.columns[last].drop == 0:
            return Layout(tuple(range(len(table.columns))), (), texts, is_stacked=True)
        shown.remove(last)
    widths = _share(shown, limits, width)
    columns = [
        _shorten([row[number] for row in texts], table.columns[number], room, _indents(table, number))
        for number, room in zip(shown, widths, strict=True)
    ]
    return Layout(tuple(shown), tuple(widths), tuple(zip(*columns, strict=True)))


def table_texts(table: Table) -> tuple[tuple[str, ...], ...]:
    """Return the texts of all cells, the first of each row indented by its depth."""
    rows = []
    for number, row in enumerate(table.rows):
        cells = [clean(cell_text(cell, column)) for cell, column in zip(row, table.columns, strict=True)]
        if table.depths:
            cells[0] = " " * (_INDENT * table.depths[number]) + cells[0]
        rows.append(tuple(cells))
    return tuple(rows)


def _limits(column: Column, texts: Sequence[str], indent: int) -> tuple[int, int]:
    """Return the least and the best width of a column. A header may take several lines, but a number may not.

    indent: how far its texts are indented at most (characters), which no name loses.
    """
    header = max(map(cell_len, column.title.split()), default=0)
    best = max([header, *map(cell_len, texts)])
    if column.unit is Unit.NAME:
        best = min(best, max(header, _MOST_NAME))
        return max(header, min(best, _LEAST_NAME + indent)), best
    if column.unit is Unit.PROSE:
        best = min(best, max(header, _MOST_PROSE))
        return max(header, min(best, _LEAST_PROSE)), best
    return best, best


def _total(widths: Iterable[int]) -> int:
    column_widths = list(widths)
    return sum(column_widths) + GAP * max(0, len(column_widths) - 1)


def _share(shown: Sequence[int], limits: Sequence[tuple[int, int]], width: int) -> list[int]:
    """Return the widths: after every column has its least width, names and texts share the rest evenly."""
    widths = {number: limits[number][0] for number in shown}
    left = width - _total(widths.values())
    growing = [number for number in shown if limits[number][1] > widths[number]]
    while left > 0 and growing:
        step = max(1, left // len(growing))
        for number in list(growing):
            more = min(step, limits[number][1] - widths[number], left)
            widths[number] += more
            left -= more
            if widths[number] == limits[number][1]:
                growing.remove(number)
    return [widths[number] for number in shown]


def _indents(table: Table, column: int) -> tuple[int, ...]:
    return tuple(_INDENT * depth for depth in table.depths) if column == 0 else ()


def _shorten(texts: Sequence[str], column: Column, width: int, indents: Sequence[int]) -> list[str]:
    if column.unit is not Unit.NAME or all(cell_len(text) <= width for text in texts):
        return list(texts)
    deepest = max(indents, default=0)
    short = shorten_names([text.strip() for text in texts], max(8, width - deepest))
    return [" " * indent + text for indent, text in zip(indents or [0] * len(short), short, strict=True)]
