"""Define `nsysprof help`: print a page of the documentation, or list them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsysprof.app.inputs.options import Option
from nsysprof.cli import options
from nsysprof.cli.terminal import print_json, say, terminal_width
from nsysprof.files.plain_file import json_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nsysprof.app.help import HelpPage, HelpTopic

EXAMPLES = ("nsysprof help", "nsysprof help causes", "nsysprof help files")


def help(
    topic: Annotated[
        str | None, Option("A page, such as causes. Without one, all are listed.", metavar="[TOPIC]", is_argument=True)
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Print a page of the documentation, which comes with nsysprof: no network needed. Without a topic, list them."""
    from nsysprof.app import help as use_case

    page = None if topic is None else use_case.read_page(topic)
    topics = use_case.list_topics()
    if as_json:
        print_json(_to_json(page, topics))
    elif page is not None:
        _print_page(page)
    else:
        width = max(len(known.name) for known in topics)
        typer.echo("\n".join(f"{known.name:{width}}  {known.title}" for known in topics))
        say("\nnsysprof help TOPIC prints a page, and nsysprof COMMAND --help the options of a command.")


def _to_json(page: HelpPage | None, topics: list[HelpTopic]) -> dict[str, Any]:
    text, name = (None, None) if page is None else (page.text, page.topic.name)
    return {"topic": name, "text": text, "topics": json_value(topics)}


def _print_page(page: HelpPage) -> None:
    """Print Markdown as a terminal shows it best; as it is where the output goes elsewhere."""
    if not sys.stdout.isatty():
        typer.echo(page.text, nl=False)
        return
    from rich.console import Console
    from rich.markdown import CodeBlock, Markdown
    from rich.text import Text

    class WholeLines(CodeBlock):
        """A block of code whose lines are not broken, so that a command can be copied."""

        def __rich_console__(self, *_: object) -> Iterator[Text]:
            yield Text(str(self.text).rstrip(), "markdown.code", no_wrap=True, overflow="ignore")

    class Page(Markdown):
        elements = {**Markdown.elements, "fence": WholeLines, "code_block": WholeLines}  # noqa: RUF012  as rich has it

    Console(width=terminal_width()).print(Page(page.text, hyperlinks=False), crop=False)
