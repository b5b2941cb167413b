"""Render report.html: one file that needs no network and can be read without scripts."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace

from nsysprof.report.document import (
    Cell,
    Chart,
    Column,
    Lines,
    Notes,
    Part,
    Report,
    Section,
    Table,
    Unit,
    list_parts,
)
from nsysprof.report.formats.bars import describe_bars, describe_segments, show_bars, show_segments, usual_line
from nsysprof.report.formats.cell_text import cell_text, shorten_names, sort_key
from nsysprof.report.formats.escape import clean
from nsysprof.report.formats.kept_templates import kept_templates
from nsysprof.report.formats.page import content_security_policy, json_for_script, read_asset

# A table with at least this many rows gets a filter.
_FILTER_ABOVE = 8
_SCRIPTS = ("vendor/sortable.js", "templates/report.js")
_OF_TIMELINE = ("vendor/echarts.js", "templates/timeline_rows.js", "templates/timeline.js")
# The page folds away the sentences of a list beyond this number, such as the verdicts of a hundred shapes.
_FIRST_LINES = 10
# A history has a section for each case.
_FIRST_LINKS = 18
_NAME, _CELL, _KEY, _FULL = 120, 300, 300, 4000


@dataclass(frozen=True)
class _CellShown:
    """A cell as the page shows it.

    full: the whole name where `text` is cut, else empty.
    """

    text: str
    key: str
    full: str = ""


def render_html(report: Report) -> str:
    """Return the page with the PNG figures inside. The template engine escapes everything except our own scripts."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    engine = Environment(
        loader=PackageLoader("nsysprof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        bytecode_cache=kept_templates(),
    )
    engine.filters["clean"] = lambda text: clean(str(text), _CELL)
    engine.filters["clean_long"] = lambda text: clean(str(text), _FULL)
    engine.filters["base64"] = lambda data: base64.b64encode(data).decode()
    engine.filters["script_json"] = json_for_script
    engine.filters["anchor"] = anchor_of
    engine.filters["cells"] = _cells
    engine.filters["amount"] = lambda item, part: cell_text(item.amount, Column(part.amount_title, part.amount_unit))
    engine.filters["segments"] = show_segments
    engine.filters["describe_segments"] = describe_segments
    engine.filters["bars"] = show_bars
    engine.filters["usual_line"] = usual_line
    engine.filters["describe_bars"] = describe_bars
    engine.tests["part"] = lambda part, kind: type(part).__name__ == kind
    names = list(_SCRIPTS)
    licences = ["LICENSE-sortable"]
    if any(isinstance(part, Chart) for part in list_parts(report)):
        names += _OF_TIMELINE
        licences += ["NOTICE-echarts", "LICENSE-echarts", "LICENSE-zrender", "LICENSE-tslib"]
    sections = [section for section in report.sections if any(map(_has_content, section.parts))]
    scripts, style = [read_asset(name) for name in names], read_asset("templates/report.css")
    return engine.get_template("report.html.j2").render(
        report=replace(report, sections=tuple(sections)),
        links=[link for section in sections for link in _links(section)],
        filter_above=_FILTER_ABOVE,
        first_lines=_FIRST_LINES,
        first_links=_FIRST_LINKS,
        policy=content_security_policy(scripts, [style]),
        style=style,
        scripts=scripts,
        licences=[read_asset(f"vendor/{name}") for name in licences],
    )


def page_scripts() -> list[str]:
    """Return every script that a page may have."""
    return [read_asset(name) for name in (*_SCRIPTS, *_OF_TIMELINE)]


def anchor_of(title: str) -> str:
    """Return the anchor by which a link of the page finds a title."""
    return "".join(char if char.isalnum() else "-" for char in clean(title, _CELL).lower())


def _has_content(part: Part) -> bool:
    """Return whether a part shows anything, so that no title stands above nothing."""
    match part:
        case Lines():
            return bool(part.texts)
        case Notes():
            return bool(part.notes)
        case Table():
            return bool(part.rows) or part.is_kept_empty
        case _:
            return True


def _links(section: Section) -> list[str]:
    """Return the titles of a section for the page's list of links: its own title, else those of its tables."""
    if section.title:
        return [section.title]
    return [
        part.title
        for part in section.parts
        if isinstance(part, Table) and part.title and (part.rows or part.is_kept_empty)
    ]


def _cells(table: Table) -> list[list[_CellShown]]:
    """Return the rows of a table. Long names are cut but stay different, and can be shown completely on demand."""
    columns = []
    for number, column in enumerate(table.columns):
        texts = [cell_text(row[number], column) for row in table.rows]
        limit = _NAME if column.unit is Unit.NAME else _CELL
        short = shorten_names(texts, _NAME) if column.unit is Unit.NAME else [clean(text, limit) for text in texts]
        columns.append(
            [
                _CellShown(shown, clean(sort_key(row[number]), _KEY), _full(shown, text, row[number]))
                for shown, text, row in zip(short, texts, table.rows, strict=True)
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def _full(shown: str, text: str, cell: Cell) -> str:
    """Return the whole name behind what the page shows; "" where nothing was cut."""
    whole = cell.full or text
    return whole if clean(whole) != shown else ""
