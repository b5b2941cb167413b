"""Six reports as every format shows them, and all as a terminal does, so that a change of them is seen in review.

`pytest tests/report/test_document.py --snapshot-update` writes the files anew.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion

from nsysprof import __version__
from nsysprof.report.document import Report, Table, list_parts
from nsysprof.report.formats.console import render_console
from nsysprof.report.formats.data_formats import render_junit, render_sarif, report_json
from nsysprof.report.formats.html import render_fragment, render_html
from nsysprof.report.formats.markdown import render_markdown
from tests.report import fixed_results

TRACES = ("sdpa", "mp", "ddp_rank0")
REPORTS = (
    *TRACES,
    "first",
    "one_range",
    "one_step",
    "demo",
    "capture",
    "end_of_capture",
    "compare",
    "bench",
    "tune",
    "tune_terminal",
    "ranks",
    "explain",
    "bundle",
    "whatif",
    "doctor",
    "memory",
    "memory_comparison",
    "program",
    "optimize",
    "history",
    "recording",
)
WHOLE = ("ddp_rank0", "capture", "compare", "bench", "ranks", "bundle")
PACKAGE = Path(__file__).parents[2] / "nsysprof"
WIDTHS = (80, 100, 120, 160)


class _Text(HTMLParser):
    """Keeps what a reader of the page sees."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.hidden = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False

    def handle_data(self, data: str) -> None:
        text = " ".join(data.split())
        if text and not self.hidden:
            self.lines.append(text)


def page_text(page: str) -> str:
    parser = _Text()
    parser.feed(page)
    return "\n".join(parser.lines)


FORMATS: dict[str, Callable[[Report], str]] = {
    "console80": lambda report: render_console(report, 80),
    "console120": lambda report: render_console(report, 120),
    "markdown": render_markdown,
    "html": lambda report: page_text(render_html(report)),
    "json": lambda report: json.dumps(report_json(report), indent=1, ensure_ascii=False),
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory, trace_path: Callable[[str], Path]) -> Callable[[str], Report]:
    """`reports("bench")`: each report, made once."""
    made: dict[str, Report] = {}

    def make(name: str) -> Report:
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            if name in (*TRACES, "capture"):
                made[name] = fixed_results.analyze_report(folder, trace_path, name)
            elif name in ("first", "one_range", "one_step", "demo"):
                made[name] = getattr(fixed_results, name)(trace_path)
            elif name in ("end_of_capture", "bundle", "memory", "memory_comparison"):
                made[name] = getattr(fixed_results, name)(folder)
            else:
                made[name] = getattr(fixed_results, {"compare": "comparison"}.get(name, name))()
        return made[name]

    return make


def test_no_report_is_left_out() -> None:
    composed = {path.stem.removesuffix("_report") for path in (PACKAGE / "report" / "reports").glob("*_report.py")}
    assert composed - {"analysis"} <= set(REPORTS), "give the report a small result in fixed_results, and a line here"
    source = inspect.getsource(fixed_results)
    for path in (PACKAGE / "report" / "reports").glob("*.py"):
        for name in re.findall(r"^def ([a-z]\w*)\((?:[^()]|\([^()]*\))*\) -> Report:", path.read_text("utf-8"), re.M):
            assert re.search(rf"\b{name}\(", source), f"{path.name}: {name} is not in fixed_results"


def without_version(text: str) -> str:
    return re.sub(rf"\b{re.escape(__version__)}\b", "VERSION", text)


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in REPORTS for kind in FORMATS if name in WHOLE or kind == "console120"],
)
def test_it_looks_as_it_did(
    reports: Callable[[str], Report], name: str, kind: str, snapshot: SnapshotAssertion
) -> None:
    assert without_version(FORMATS[kind](reports(name))) == snapshot


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", REPORTS)
def test_every_format_says_the_verdict(reports: Callable[[str], Report], name: str, kind: str) -> None:
    shown = squeezed(FORMATS[kind](reports(name)))
    parts = parts_of(reports(name))
    verdicts = [line for part in parts if part.get("is_verdict") for line in part["lines"]]
    assert [line for line in verdicts if squeezed(line) not in shown] == []


@pytest.mark.parametrize("kind", ["markdown", "html"])
@pytest.mark.parametrize("name", REPORTS)
def test_a_page_has_every_table(reports: Callable[[str], Report], name: str, kind: str) -> None:
    shown = squeezed(FORMATS[kind](reports(name)))
    titles = [part["title"] for part in parts_of(reports(name)) if part.get("rows")]
    assert [title for title in titles if squeezed(title) not in shown] == []


@pytest.mark.parametrize("name", REPORTS)
def test_a_column_of_numbers_holds_numbers_and_one_of_texts_holds_texts(
    reports: Callable[[str], Report], name: str
) -> None:
    wrong = [
        (table.title, column.title, cell.value)
        for table in list_parts(reports(name))
        if isinstance(table, Table)
        for row in table.rows
        for column, cell in zip(table.columns, row, strict=True)
        if cell.value is not None and (cell.unit or column.unit).is_text is not isinstance(cell.value, str | bool)
    ]
    assert wrong == []


def parts_of(report: Report) -> list[dict[str, Any]]:
    return [part for section in report_json(report)["sections"] for part in section["parts"]]


def squeezed(text: str) -> str:
    """Return the letters and digits of a text: formats wrap, escape and mark it each in a way of their own."""
    return re.sub(r"\\u[0-9a-f]{4}|\W|_", "", text)


def test_the_fragment_of_a_notebook_looks_as_it_did(
    reports: Callable[[str], Report], snapshot: SnapshotAssertion
) -> None:
    assert render_fragment(reports("first")) == snapshot


def test_junit_looks_as_it_did(reports: Callable[[str], Report], snapshot: SnapshotAssertion) -> None:
    assert render_junit(reports("compare")) == snapshot


def test_sarif_looks_as_it_did(snapshot: SnapshotAssertion) -> None:
    log = render_sarif(fixed_results.findings(), "trace.sqlite")
    assert without_version(json.dumps(log, indent=1, ensure_ascii=False)) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", REPORTS)
def test_no_line_of_a_table_is_wider_than_the_terminal(reports: Callable[[str], Report], name: str, width: int) -> None:
    in_table = [
        line for line in render_console(reports(name), width).splitlines() if "  " in line.strip() or "──" in line
    ]
    assert max(map(cell_len, in_table), default=0) <= width


@pytest.mark.parametrize("name", REPORTS)
def test_a_wider_terminal_shows_no_less(reports: Callable[[str], Report], name: str) -> None:
    dropped = [render_console(reports(name), width).count("no room for") for width in WIDTHS]
    assert dropped == sorted(dropped, reverse=True)
