"""report.html: the same report as one file that needs no network, and for reading no script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysprof.analysis.results import Analysis, CaptureRecord
from nsysprof.report.escape import clean
from nsysprof.report.method import coverage_line, environment_rows, method_lines
from nsysprof.report.page import content_security_policy, json_for_script, read_asset
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
from nsysprof.units import UNKNOWN, sort_value

# A table of so many rows is worth a filter.
_FILTER_ABOVE = 8
_MOST_ROWS = 500


@dataclass(frozen=True)
class _Shown:
    """A table with its place on the page."""

    anchor: str
    table: Table
    has_filter: bool


def render_html(
    analysis: Analysis, record: CaptureRecord | None, figures: Sequence[Path], timeline: dict[str, Any] | None = None
) -> str:
    """The page, with the PNG figures inside. Everything from the trace is escaped by the template engine.

    timeline: what timeline_data made, or None for a page without.
    """
    words, tier = words_for(analysis.trace), tier_of(record)
    cases = record if record is not None and record.has_cases else None
    first = [mark_best(case_table(cases, words), cases), comparison_table(cases, words)] if cases else []
    traffic = counter_table(cases) if cases else None
    first += [] if traffic is None else [traffic]
    counted = kernel_counter_table(analysis, _MOST_ROWS)
    rest = [
        range_table(analysis, _MOST_ROWS), kernel_table(analysis, _MOST_ROWS), *([] if counted is None else [counted]),
        memop_table(analysis), api_table(analysis, _MOST_ROWS),
    ]  # fmt: skip
    scripts = [read_asset("vendor/sortable.js"), read_asset("templates/report.js")]
    if timeline is not None:
        scripts += [read_asset("vendor/echarts.js"), read_asset("templates/timeline.js")]
    return render_template(
        scripts,
        title=clean(record.title if record else analysis.trace.path_name, 120),
        verdict=verdict_lines(cases) if cases else [],
        reasons=reasons(cases) if cases else [],
        first=[shown(with_tier(table, tier)) for table in first],
        limits=limit_lines(cases) if cases else [],
        rest=[shown(with_tier(table, tier)) for table in rest if table.rows],
        figures=[{"alt": p.stem, "data": base64.b64encode(p.read_bytes()).decode()} for p in figures],
        timeline=None if timeline is None else json_for_script(timeline),
        notes=list(dict.fromkeys((*(record.notes if record else ()), *analysis.notes))),
        coverage=coverage_line(analysis),
        method=method_lines(analysis, record),
        environment=environment_rows(analysis, record),
    )


def render_template(scripts: Sequence[str], **content: Any) -> str:
    """The page of any report, with these scripts and no others; everything else of `content` is escaped."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    engine = Environment(
        loader=PackageLoader("nsysprof.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    engine.filters["clean"] = lambda text: clean(str(text), 300)
    engine.filters["clean_long"] = lambda text: clean(str(text), 4000)
    engine.filters["sort_key"] = _sort_key
    style = read_asset("templates/report.css")
    return engine.get_template("report.html.j2").render(
        policy=content_security_policy(scripts, [style]), style=style, scripts=scripts, **content
    )


def shown(table: Table) -> _Shown:
    """A table with its place on the page."""
    anchor = "".join(char if char.isalnum() else "-" for char in table.title.lower())
    return _Shown(anchor, table, len(table.rows) > _FILTER_ABOVE)


def _sort_key(text: str) -> str:
    """What a cell is sorted by: a number where it holds one, nothing where it is unknown, else its text."""
    number = sort_value(text)
    return clean(text, 300) if number is None and text != UNKNOWN else "" if number is None else f"{number:.6g}"
