"""What the commands print on the terminal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from nsysprof.analysis.results import Analysis, CaptureRecord
    from nsysprof.capture.manifest import Manifest


def print_analysis(analysis: Analysis, record: CaptureRecord | None) -> None:
    """The short tables of one analysis."""
    from nsysprof.report.console import render_console

    typer.echo(render_console(analysis, record, width=_width()))


def print_results(folder: Path, manifest: Manifest, *, as_json: bool) -> None:
    """One line a case of a finished capture, and where it lies."""
    from nsysprof.cli.record import read_results

    results = read_results(folder)
    if as_json:
        rows = json.loads(results.to_json(orient="records"))
        notes = [note.to_json() for note in manifest.notes]
        typer.echo(json.dumps({"folder": str(folder), "cases": rows, "notes": notes}, indent=1))
        return
    from nsysprof.report.console import render_results
    from nsysprof.report.words import KERNELS, OPERATORS

    words = OPERATORS if manifest.environment.get("device") == "cpu" else KERNELS
    typer.echo(render_results(results, words, width=_width()))
    for note in manifest.notes:
        typer.echo(f"{note.severity.value}: {note.text}" + (f" -> {note.next_step}" if note.next_step else ""))
    typer.echo(f"\ncapture in {folder}; next: nsysprof analyze {folder}")


def _width() -> int:
    return shutil.get_terminal_size((120, 40)).columns
