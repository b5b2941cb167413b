"""Define `nsysprof doctor`: show what this machine can do, and how to fix what it cannot."""

from __future__ import annotations

import typer

from nsysprof.cli import options
from nsysprof.cli.terminal import print_json, print_report, show_progress
from nsysprof.files.plain_file import json_value

EXAMPLES = (
    "nsysprof doctor",
    "nsysprof doctor --links",
    "nsysprof doctor --json > machine.json    # to attach to an issue",
)


def doctor(links: options.Links = False, as_json: options.Json = False) -> None:
    """Try nsys, ncu, hardware counters, the driver, clocks, disks and torch, and print each problem with its fix.

    The exit code is 1 when something that is installed does not work. What is not installed is not a problem.
    """
    from nsysprof.app import doctor as use_case

    result = use_case.doctor(show_progress(quiet=as_json), links=links)
    if as_json:
        data = {"ok": not result.problems, "checks": json_value(result.checks)}
        print_json(data)
    else:
        from nsysprof.report.pages.machine import doctor_report

        print_report(doctor_report(result.checks))
    if result.problems:
        raise typer.Exit(1)
