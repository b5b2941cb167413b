"""Define `nsysprof view`: show one or many traces in the user's browser, from a server on loopback only."""

from __future__ import annotations

import threading
import webbrowser
from typing import TYPE_CHECKING, Annotated

import typer

from nsysprof.app.inputs.options import Option
from nsysprof.app.inputs.reading_requests import ViewRequest
from nsysprof.cli import options
from nsysprof.cli.terminal import print_json, say, say_missing_figures, show_progress

if TYPE_CHECKING:
    from nsysprof.app.view import View

EXAMPLES = (
    "nsysprof view report.nsys-rep",
    "nsysprof view before.sqlite after.sqlite",
    "nsysprof view all.db    # how the results of bench --db changed",
    "nsysprof view traces analysis --no-open --port 8000    # then ssh -L 8000:127.0.0.1:8000 HOST",
)


def view(
    request: ViewRequest,
    no_open: Annotated[bool, Option("Only print the address, and do not open a browser.", ("--no-open",))] = False,
    as_json: options.Json = False,
) -> None:
    """Show traces in your browser: reports, comparisons of any two, and Perfetto's UI. Ctrl-C ends it.

    With --json, the address is printed as JSON and no browser is opened.
    """
    from nsysprof.app.view import open_view

    say_missing_figures(request.figures and not as_json)
    with open_view(request, show_progress(quiet=as_json)) as opened:
        _print(opened, as_json)
        if not no_open and not as_json:
            # A browser may run in this terminal, and return only when it is closed.
            threading.Thread(target=_open, args=(opened.url,), daemon=True).start()
        try:
            opened.serve()
        except KeyboardInterrupt:
            if not as_json:
                typer.echo("\nEnded. All files of this view were removed.", err=True)


def _print(opened: View, as_json: bool) -> None:
    broken = [each for each in opened.inputs if each.error is not None]
    if as_json:
        inputs = [
            {"name": each.name, "kind": each.kind, "error": None if each.error is None else each.error.text}
            for each in opened.inputs
        ]
        server = opened.server
        print_json({"url": opened.url, "token": server.token, "port": server.server_port, "inputs": inputs})
        return
    for each in broken:
        say(f"{each.name}: {each.error}", err=True)
    count = len(opened.inputs) - len(broken)
    typer.echo(f"{count} to view at\n{opened.url}\nCtrl-C ends it. Anyone with this address can read the traces.")


def _open(url: str) -> None:
    if not webbrowser.open(url):
        typer.echo("No browser was found. Open the address in a browser.", err=True)
