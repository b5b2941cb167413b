"""Render HTML: report.html, one file that needs no network, a fragment for notebooks, and the pages of `view`.

A report can be read without scripts. Each page of `view` (the list, progress, errors, files, and pages that open
Perfetto's UI) has one script and one style of ours, and is sent with page_policy or report_policy as a header.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysprof.report.document import Cell, Chart, Lines, Notes, Part, Report, Section, Table, Unit, clean, list_parts
from nsysprof.report.formats.bars import describe_bars, describe_segments, show_bars, show_segments, usual_line
from nsysprof.report.formats.cell_text import amount_text, cell_text, shorten_names, sort_key
from nsysprof.results.checks import said_once
from nsysprof.units import format_bytes, format_ns

if TYPE_CHECKING:
    from jinja2 import Environment, FileSystemBytecodeCache

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
    engine = _make_engine(_CELL, kept_templates())
    engine.filters["clean_long"] = lambda text: clean(str(text), _FULL)
    engine.filters["said_once"] = said_once
    engine.filters["base64"] = lambda data: base64.b64encode(data).decode()
    engine.filters["script_json"] = json_for_script
    engine.filters["anchor"] = anchor_of
    engine.filters["cells"] = _cells
    engine.filters["amount"] = amount_text
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


def _make_engine(longest: int, kept: FileSystemBytecodeCache | None = None) -> Environment:
    """Return the template engine of a page, which escapes everything, with its filter `clean`.

    longest: how many characters of a text `clean` keeps.
    kept: where compiled templates are kept.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    engine = Environment(
        loader=PackageLoader("nsysprof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        bytecode_cache=kept,
    )
    engine.filters["clean"] = lambda text: clean(str(text), longest)
    return engine


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


# The code lies where Python keeps the compiled code of this package, and whoever may write there may change both.
_COMPILED = Path(__file__).resolve().parent / "__pycache__"


def kept_templates(folder: Path = _COMPILED) -> FileSystemBytecodeCache | None:
    """Return where compiled templates are kept; None where Python keeps no compiled code either.

    A template that has changed, or code of another Python or another engine, is compiled again.
    """
    import jinja2

    class Kept(jinja2.FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
            try:
                super().dump_bytecode(bucket)
            except OSError:  # a read-only installation or a full disk: it is compiled each time
                return

        def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
            try:
                super().load_bytecode(bucket)
            except Exception:  # noqa: BLE001 - damaged code can raise anything
                bucket.reset()

    if sys.dont_write_bytecode or not folder.is_dir():
        return None
    return Kept(str(folder), f"%s.jinja-{jinja2.__version__}.{sys.implementation.cache_tag}.code")


_FOLDER = resources.files("nsysprof.report")


def read_asset(name: str) -> str:
    """Return the text of a file of this package, such as `vendor/echarts.js`."""
    return _FOLDER.joinpath(name).read_text(encoding="utf-8")


def content_security_policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return the policy of a page that has exactly these inline scripts and styles."""
    allowed = {"script-src": scripts, "style-src": styles}
    rules = [f"{what} {' '.join(map(_source, texts)) or _NONE}" for what, texts in allowed.items()]
    return "; ".join([f"default-src {_NONE}", "img-src data:", *rules, f"base-uri {_NONE}", f"form-action {_NONE}"])


_NONE = "'none'"


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def json_for_script(data: Any) -> str:
    """Return JSON that cannot end its script element, whatever texts it contains."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


_LONGEST_IN_NOTEBOOK = 1000


def render_fragment(report: Report) -> str:
    """Return verdicts, bars, rankings and tables, without own scripts and styles. Everything is escaped."""
    engine = _make_engine(_LONGEST_IN_NOTEBOOK)
    engine.filters["segments"] = show_segments
    engine.filters["describe_segments"] = describe_segments
    engine.filters["amount"] = amount_text
    engine.filters["cells"] = lambda table: [
        [cell_text(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows
    ]
    engine.tests["part"] = lambda part, kind: type(part).__name__ == kind
    return engine.get_template("notebook.html.j2").render(report=report)


_LONGEST_NAME, _LONGEST_TEXT = 200, 2000


@dataclass(frozen=True)
class ViewFinding:
    """A finding of one input.

    saving_ns: what it costs (ns) for each `per`, which is a step or the trace.
    """

    code: str
    where: str
    saving_ns: int
    per: str
    text: str


@dataclass(frozen=True)
class ViewRow:
    """One input of the page.

    state: new, at work, ready or failed.
    step: what is being done now.
    busy_pct: the share of the time from first to last work in which the GPU was busy (percent); None where unknown.
    error, next_step: why it failed, and what to do.
    """

    number: int
    name: str
    kind: str
    bytes: int | None
    state: str
    step: str = ""
    busy_pct: float | None = None
    kernels: int | None = None
    findings: tuple[ViewFinding, ...] = ()
    error: str = ""
    next_step: str = ""
    is_comparable: bool = False
    has_trace: bool = False


@dataclass(frozen=True)
class ListedFile:
    """A file of an analysis.

    address: relative to the page that lists it.
    """

    name: str
    address: str
    bytes: int


def render_list(rows: Sequence[ViewRow]) -> str:
    """Return the first page: the inputs with their states and findings, and a form to choose two to compare."""
    poll = "state" if any(row.state == "at work" for row in rows) else ""
    return _render("list", title="nsysprof view", rows=rows, poll=poll)


def render_wait(title: str, key: str, step: str) -> str:
    """Return a page that shows what is being done, and reloads when that is over.

    key: the key of the job.
    """
    return _render("wait", title=title, poll=f"state?job={key}", step=step)


def render_error(title: str, text: str, next_step: str, *, link: str = "", link_text: str = "") -> str:
    """Return a page that says what went wrong, and what to do.

    link, link_text: where else to go.
    """
    return _render("error", title=title, text=text, next_step=next_step, link=link, link_text=link_text)


def render_files(title: str, files: Sequence[ListedFile]) -> str:
    """Return the list of the files of one analysis."""
    return _render("files", title=title, files=files)


def render_ui(title: str, trace: str) -> str:
    """Return a page that forwards to Perfetto's UI.

    trace: its address, relative to the page.
    """
    return _render("ui", title=title, trace=trace)


def render_ui_from_network(title: str, trace: str) -> str:
    """Return a page with a button that opens a trace in ui.perfetto.dev.

    trace: its address, relative to the page.
    """
    return _render("network", title=title, trace=trace)


def add_links(page: str, number: int, *, has_trace: bool) -> str:
    """Return a report that begins with links to the other pages of the view."""
    links = [("./", "All traces"), (f"files-{number}/", "Files")]
    links += [(f"perfetto-{number}", "Open in Perfetto")] if has_trace else []
    items = "".join(f'<a href="{escape(to)}">{escape(text)}</a>' for to, text in links)
    return page.replace("<body>", f'<body>\n<nav aria-label="View">{items}</nav>', 1)


def page_policy() -> str:
    """Return the policy of the view's own pages: our script and style, and requests only to this server."""
    allowed = content_security_policy([_script()], [_style()])
    allowed = allowed.replace("form-action 'none'", "form-action 'self'")
    return f"{allowed}; connect-src 'self'; frame-ancestors 'none'"


@cache
def report_policy() -> str:
    """Return the policy of reports, which may come from strangers: only scripts of this nsysprof, and no requests."""
    allowed = content_security_policy(page_scripts(), [])
    return allowed.replace("style-src 'none'", "style-src 'unsafe-inline'") + "; frame-ancestors 'none'"


def _render(kind: str, **values: Any) -> str:
    engine = _make_engine(_LONGEST_NAME)
    engine.filters["clean_long"] = lambda text: clean(str(text), _LONGEST_TEXT)
    engine.filters["size"] = format_bytes
    engine.filters["time"] = format_ns
    template = engine.get_template("view.html.j2")
    return template.render(kind=kind, style=_style(), script=_script(), **values)


@cache
def _style() -> str:
    return read_asset("templates/report.css")


@cache
def _script() -> str:
    return read_asset("templates/view.js")
