"""Render a report as JSON: the same tables as in other formats, with values instead of texts."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nsysprof.files.json_file import json_value
from nsysprof.report.document import (
    Bars,
    Chart,
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
)
from nsysprof.report.formats.cell_text import cell_json


def report_json(report: Report) -> dict[str, Any]:
    """Return the report with every value in its base unit (ns, bytes). Unknown is null, with its reason if known."""
    return {"title": report.title, "sections": [_section_json(section) for section in report.sections]}


def _section_json(section: Section) -> dict[str, Any]:
    parts = [part_json(part) for part in section.parts if not isinstance(part, Chart)]
    return {"title": section.title, "parts": parts}


def part_json(part: Part) -> dict[str, Any]:
    """Return one part; "kind" says which kind it is."""
    match part:
        case Table():
            data = _table_json(part)
        case Lines():
            data = {"lines": list(part.texts), "is_verdict": part.is_verdict}
        case Figure():
            data = {"file": part.file, "alt": part.alt}
        case Notes():
            data = {"notes": json_value(part.notes)}
        case Ranking():
            data = _ranking_json(part)
        case Gate():
            data = {"results": [asdict(result) for result in part.results]}
        case StackedBar():
            parts = [{"label": each.label, "value": each.value} for each in part.segments]
            data = {"title": part.title, "unit": part.unit, "segments": parts}
        case Bars():
            marks = {str(at): word for at, word in part.marks.items()}
            data = {"title": part.title, "unit": part.unit, "usual": part.usual, "marks": marks}
            data |= {"labels": list(part.labels), "values": list(part.values)}
        case Paragraph() | Code():
            data = {"text": part.text}
        case Chart():
            data = {}
    return {"kind": type(part).__name__.lower(), **data}


def _table_json(table: Table) -> dict[str, Any]:
    titles = [column.title for column in table.columns]
    data: dict[str, Any] = {
        "title": table.title,
        "columns": [{"title": column.title, "unit": column.unit} for column in table.columns],
        "rows": [dict(zip(titles, map(cell_json, row), strict=True)) for row in table.rows],
        "row_count": table.row_count,
        "source": table.source,
    }
    if table.marks:
        data["marks"] = {str(number): word for number, word in table.marks.items()}
    if table.depths:
        data["depths"] = list(table.depths)
    return data


def _ranking_json(part: Ranking) -> dict[str, Any]:
    items = [
        {
            "code": item.code,
            "where": item.where,
            "amount": cell_json(item.amount),
            "text": item.text,
            "next_step": item.next_step,
        }
        for item in part.items
    ]
    return {"amount": part.amount_title, "unit": part.amount_unit, "items": items}
