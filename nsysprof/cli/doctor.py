"""`nsysprof doctor`: what this machine can do, and how to mend what it cannot."""

from __future__ import annotations

import json
import shutil
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Try nsys, ncu, hardware counters, the driver, clocks, disks and torch, and print each problem with its fix.

    Ends with 1 when something that is there does not work; what is merely absent is no problem.
    """
    from nsysprof.capture.doctor import State, run_checks

    checks = run_checks(_silent if as_json else _say)
    problems = [check for check in checks if check.state is State.PROBLEM]
    if as_json:
        typer.echo(json.dumps({"ok": not problems, "checks": [check.to_json() for check in checks]}, indent=1))
    else:
        from nsysprof.report.console import render_table
        from nsysprof.report.tables import Table

        rows = tuple((check.name, check.state.value, check.found) for check in checks)
        width = shutil.get_terminal_size((120, 40)).columns
        table = Table("This machine", ("", "", "found"), rows, frozenset({0, 1, 2}), len(rows))
        typer.echo(render_table(table, width, name_width=100))
        for check in checks:
            if check.fix:
                typer.echo(f"{check.state.value}: {check.name}: {check.found}\n  -> {check.fix}")
        typer.echo(f"{len(problems)} problems" if problems else "no problem found")
    if problems:
        raise typer.Exit(1)


def _say(text: str) -> None:
    typer.echo(f"  {text}", err=True)


def _silent(_text: str) -> None:
    """Progress of a --json run."""
