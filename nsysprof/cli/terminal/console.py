"""Print reports, JSON and wrapped sentences on the terminal, and map the results of gates to exit codes."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from nsysprof.cli.terminal.standard_streams import mark_saved
from nsysprof.files.json_file import encode_json

if TYPE_CHECKING:
    from nsysprof.report.document import Report

# The exit codes of a gate's results. No error of nsysprof has exit code 1 or 3; see nsysprof/errors.py.
GATE_EXIT_CODES = {"pass": 0, "regression": 1, "inconclusive": 3}
# The version of what --json prints. It grows where a field goes or changes its meaning. 1: the first.
_JSON_VERSION = 1
# The width of a line (characters) where there is no terminal.
_WIDTH_WITHOUT_TERMINAL = 120


def print_json(data: Mapping[str, object]) -> None:
    """Print a result for `--json`: every number with all of its digits, and null where one is unknown.

    The version of its format comes first. A result that has a version of its own keeps that.
    """
    mark_saved(saved=False)  # no file has this text
    typer.echo(encode_json({"format_version": _JSON_VERSION, **data}).decode(), nl=False)


def print_report(report: Report) -> None:
    """Print a report. A terminal, also one behind a pipe (`| less`), would break a long sentence within a word.

    Where there is no terminal, such as in a log, a sentence is one line.
    """
    from nsysprof.report.formats.console import render_console

    width = terminal_width()
    text = render_console(report, width)
    typer.echo(wrap_sentences(text, width) if sys.stdout.isatty() or _terminal_columns() else text)


def say_missing_figures(wanted: bool) -> None:
    """Say on stderr that no figures were drawn, where they were wanted and matplotlib is missing."""
    from nsysprof.report.figures.drawing import can_draw

    if wanted and not can_draw():
        typer.echo("No PNG figures: they need matplotlib. -> pip install 'nsysprof[figures]'", err=True)


def wrap_sentences(text: str, width: int) -> str:
    """Return a text whose lines are broken between words to fit `width`, and continue indented like their beginning."""
    lines: list[str] = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" ")))
        whole = len(line) <= width
        lines += [line] if whole else textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines)


def terminal_width() -> int:
    """Return the width of a line of the terminal (characters), also where standard output is a pipe."""
    return shutil.get_terminal_size((_terminal_columns() or _WIDTH_WITHOUT_TERMINAL, 40)).columns


def _terminal_columns() -> int:
    """Return the width of the terminal of output or errors (characters); 0 where neither is a terminal."""
    for stream in (sys.stdout, sys.stderr):
        try:
            return os.get_terminal_size(stream.fileno()).columns
        except (AttributeError, OSError, ValueError):  # no terminal, closed, or replaced by one without a number
            continue
    return 0
