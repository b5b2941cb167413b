"""Define `nsysprof bundle`: write what can be shared of a capture, bench or trace, and Markdown to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from nsysprof.app.inputs.reading_requests import BundleRequest
from nsysprof.cli import options
from nsysprof.cli.terminal import mark_saved, print_json, say, show_progress
from nsysprof.report.document import clean, count_of

if TYPE_CHECKING:
    from nsysprof.app.bundle import BundleContents, BundleResult

EXAMPLES = (
    "nsysprof bundle traces/20261121-093000 --show    # what would be shared; writes nothing",
    "nsysprof bundle report.nsys-rep --out trace.zip",
    'nsysprof bundle trace.sqlite --range "step*" --max-size 10',
)


def bundle(request: BundleRequest, as_json: options.Json = False) -> None:
    """Make an archive to share, rebuilt from a list of what may be in it.

    Environment, user, host, paths and program output are not on that list. Every byte is then searched for the private
    values of the original; what is found is refused. Look at --show before you share. Prints Markdown to paste where
    you attach it.
    """
    from nsysprof.app import bundle as use_case

    result = use_case.bundle(request, show_progress())
    if not request.show:
        mark_saved()
    if result.contents is not None:
        _show(result, result.contents, as_json)
    else:
        _print(result, as_json)


def _print(result: BundleResult, as_json: bool) -> None:
    if as_json:
        searched = {"secrets_searched": result.secrets_searched, "texts_searched": result.texts_searched}
        print_json({**result.to_json(), **searched, "markdown": result.markdown})
        return
    typer.echo(result.markdown, nl=False)
    for what, why in result.left_out:
        say(f"left out: {what} ({why})", err=True)
    counts = ", ".join(f"{count} {kind}{'s' * (count > 1)}" for kind, count in result.names_replaced.items())
    if counts:
        say(f"names replaced by tokens: {counts}; --keep-names keeps them, --show lists them", err=True)
    typer.echo(f"{result.path}: {result.bytes:,} bytes", err=True)
    private, texts = count_of(result.secrets_searched, "private value"), count_of(result.texts_searched, "text")
    typer.echo(f"searched for {private} and {texts} of the original", err=True)


def _show(result: BundleResult, contents: BundleContents, as_json: bool) -> None:
    if as_json:
        shown = {"sizes": result.sizes, "rows": contents.rows, "texts": contents.texts, "replaced": contents.replaced}
        print_json({**result.to_json(), **shown})
        return
    typer.echo(f"{result.bytes:,} bytes would be shared:")
    for name, size in result.sizes.items():
        typer.echo(f"  {name}  {size:,} bytes")
    replaced = [f"{token}  was  {name}" for token, name in contents.replaced.items()]
    for title, lines in (
        ("rows of the trace", [f"{table}  {count:,}" for table, count in contents.rows.items()]),
        *((f"{column}, {len(found)} texts", found) for column, found in contents.texts.items()),
        ("names replaced (shown only here)", replaced),
        ("left out", [f"{what}: {why}" for what, why in result.left_out]),
    ):
        if lines:
            typer.echo(f"{title}:")
        for line in lines:
            typer.echo(f"  {clean(line, 300)}")
