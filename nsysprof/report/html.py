"""report.html: the same report as one file that needs no network and no script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from nsysprof.analysis.results import Analysis, CaptureRecord
from nsysprof.report.escape import clean
from nsysprof.report.method import coverage_line, environment_rows, method_lines
from nsysprof.report.tables import api_table, case_table, kernel_table, memop_table, range_table, reasons
from nsysprof.report.verdict import comparison_table, verdict_lines
from nsysprof.report.words import words_for


def render_html(analysis: Analysis, record: CaptureRecord | None, figures: Sequence[Path]) -> str:
    """The page, with the PNG figures inside. Everything from the trace is escaped by the template engine."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    engine = Environment(
        loader=PackageLoader("nsysprof.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    engine.filters["clean"] = lambda text: clean(str(text), 300)
    words = words_for(analysis.trace)
    first = [case_table(record, words), comparison_table(record, words)] if record else []
    rest = [range_table(analysis, 200), kernel_table(analysis, 50), memop_table(analysis), api_table(analysis, 50)]
    return engine.get_template("report.html.j2").render(
        title=clean(record.title if record else analysis.trace.path_name, 120),
        verdict=verdict_lines(record) if record else [],
        reasons=reasons(record) if record else [],
        first=first,
        rest=[table for table in rest if table.rows],
        figures=[{"alt": p.stem, "data": base64.b64encode(p.read_bytes()).decode()} for p in figures],
        notes=[*(record.notes if record else ()), *analysis.notes],
        coverage=coverage_line(analysis),
        method=method_lines(analysis, record),
        environment=environment_rows(analysis, record),
    )
