"""Print on the terminal what several commands print."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from nsysprof.files.json_file import encode_json

if TYPE_CHECKING:
    from nsysprof.notes import Note


def print_notes(notes: Iterable[Note], *, err: bool = False) -> None:
    """Print each note with its next step, a line each."""
    for note in notes:
        typer.echo(f"{note.severity.value}: {note.text}" + (f" -> {note.next_step}" if note.next_step else ""), err=err)


def print_json(data: object) -> None:
    """Print a result for `--json`: every number with all of its digits, and null where one is unknown."""
    typer.echo(encode_json(data).decode(), nl=False)


def terminal_width() -> int:
    """Return how many characters a line of the terminal holds."""
    return shutil.get_terminal_size((120, 40)).columns
