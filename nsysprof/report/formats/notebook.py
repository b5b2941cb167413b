"""Render the beginning of a report as an HTML fragment that a notebook shows below a cell."""

from __future__ import annotations

from nsysprof.report.document import Column, Report
from nsysprof.report.formats.bars import describe_segments, show_segments
from nsysprof.report.formats.cell_text import cell_text
from nsysprof.report.formats.escape import clean

_TEXT = 1000


def render_fragment(report: Report) -> str:
    """Return verdicts, bars, rankings and tables, without own scripts and styles. Everything is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    engine = Environment(
        loader=PackageLoader("nsysprof.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    engine.filters["clean"] = lambda text: clean(str(text), _TEXT)
    engine.filters["segments"] = show_segments
    engine.filters["describe_segments"] = describe_segments
    engine.filters["amount"] = lambda item, part: cell_text(item.amount, Column(part.amount_title, part.amount_unit))
    engine.filters["cells"] = lambda table: [
        [cell_text(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows
    ]
    engine.tests["part"] = lambda part, kind: type(part).__name__ == kind
    return engine.get_template("notebook.html.j2").render(report=report)
