"""Fit a table into the width of a terminal: shorten names, then drop columns, and finally stack rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from nsysprof.report.document import Column, Table, Unit
from nsysprof.report.formats.cell_text import cell_text, shorten_names
from nsysprof.report.formats.escape import clean

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
    shown = list(range(len(table.columns)))
    while _total(limits[number][0] for number in shown) > width:
        # A column that says nothing goes first, unless it has to stay.
        last = max(shown, key=lambda number: (_is_empty(table, number), table.columns[number].drop, number))
        if table.columns[last].drop == 0:
            return Layout(tuple(range(len(table.columns))), (), texts, is_stacked=True)
        shown.remove(last)
    widths = _share(shown, limits, width)
    columns = [
        _shorten([row[number] for row in texts], table.columns[number], room, _indents(table, number))
        for number, room in zip(shown, widths, strict=True)
    ]
    return Layout(tuple(shown), tuple(widths), tuple(zip(*columns, strict=True)))


def _is_empty(table: Table, column: int) -> bool:
    return table.columns[column].drop > 0 and all(row[column].value is None for row in table.rows)


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
    each = list(widths)
    return sum(each) + GAP * max(0, len(each) - 1)


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
