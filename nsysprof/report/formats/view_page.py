"""Render the pages of `view`: the list, progress, errors, files, and pages that open Perfetto's UI.

Every page is HTML with one script and one style of ours, and is sent with page_policy or report_policy as a header.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

from nsysprof.report.formats.escape import clean
from nsysprof.report.formats.html import content_security_policy, page_scripts, read_asset
from nsysprof.units import format_bytes, format_ns

_NAME, _TEXT = 200, 2000


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
    from jinja2 import Environment, PackageLoader, StrictUndefined

    engine = Environment(
        loader=PackageLoader("nsysprof.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    engine.filters["clean"] = lambda text: clean(str(text), _NAME)
    engine.filters["clean_long"] = lambda text: clean(str(text), _TEXT)
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
