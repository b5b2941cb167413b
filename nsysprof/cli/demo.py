"""Define `nsysprof demo`: analyze a real training whose trace comes with nsysprof."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsysprof.app.inputs.options import Option
from nsysprof.app.inputs.reading_requests import DemoRequest
from nsysprof.cli import options
from nsysprof.cli.terminal import mark_saved, print_json, print_report, say_missing_figures, show_progress

if TYPE_CHECKING:
    from nsysprof.app.analyze import TraceResult

EXAMPLES = ("nsysprof demo", "nsysprof demo --open")


def demo(
    request: DemoRequest,
    open_page: Annotated[bool, Option("Open the page in your browser.", ("--open",))] = False,
    as_json: options.Json = False,
) -> None:
    """Analyze a real training on an H200, whose trace comes with nsysprof: no GPU and no torch needed."""
    from nsysprof.app import demo as use_case

    result = use_case.demo(request, show_progress(quiet=as_json))
    mark_saved()
    page = (result.folder / "report.html").resolve()
    if as_json:
        print_json({**result.to_json(), "folder": str(result.folder)})
    else:
        _print(result, use_case.ABOUT, page)
        say_missing_figures(request.figures)
    if open_page and not webbrowser.open(page.as_uri()):
        typer.echo(f"No browser was found. Open {page} in a browser.", err=True)


def _print(result: TraceResult, about: str, page: Path) -> None:
    from nsysprof.report.pages.analysis import demo_report

    print_report(demo_report(result.analysis, about))
    typer.echo(f"\nThe page: {page}")
    typer.echo("Your own program: nsysprof capture -- python train.py")
    typer.echo("A report that you have: nsysprof analyze report.nsys-rep")
