"""Define `nsysprof tune`: find the fastest backend for each shape, or a tie, and a policy that uses it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import typer

from nsysprof.app.inputs.attention_requests import TuneRequest
from nsysprof.app.inputs.grid import Grid
from nsysprof.cli import options
from nsysprof.cli.measuring.measurement import run_measurement
from nsysprof.cli.options import is_given
from nsysprof.cli.terminal import print_json, print_report, say
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import json_value

if TYPE_CHECKING:
    from nsysprof.app.tune import TuneResult

EXAMPLES = (
    "nsysprof tune --seq 256,1024,4096 --head-dim 64,128",
    "nsysprof tune --backends auto,flash,cudnn --dtype bf16 --budget 1800 --out tuned",
    "nsysprof tune --from traces/train --budget 300    # the shapes of a program: capture --attention",
    "nsysprof tune --resume --out tuned    # with the options of its first run",
)
_OF_GRID = ("search", *(field.name for field in fields(Grid) if field.name != "backends"))


def tune(
    context: typer.Context,
    request: TuneRequest,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Find the fastest backend for each shape, or say that there is none, and write a policy that uses it.

    Backends far behind are dropped early; a winner needs a difference that holds, else it is a tie. Without --backends
    it tries all of torch's own that suit the device, and torch's own choice (auto).
    """
    from nsysprof.app import tune as use_case

    if request.source is not None:
        _check_options(context)
    request = replace(request, command=options.command_line())
    run_measurement(
        request, use_case.tune, print_plan=_print_plan, print_result=_print, dry_run=dry_run, as_json=as_json
    )


def _check_options(context: typer.Context) -> None:
    """Raise UsageError for an option of the grid where a program provides the shapes."""
    for parameter in context.command.params:
        if parameter.name in _OF_GRID and is_given(context, parameter.name or ""):
            raise UsageError(
                f"{parameter.opts[0]} is an option of the grid, but --from uses the shapes of a program.",
                "Leave it out.",
            )


def _print_plan(request: TuneRequest, as_json: bool) -> None:
    from nsysprof.app.measuring.bench import dated_bench_folder
    from nsysprof.app.tune import plan_tuning

    plan, folder = plan_tuning(request), request.out or dated_bench_folder("tune")
    if as_json:
        print_json({**json_value(plan), "budget_s": request.budget_s, "out": str(folder)})
        return
    say(f"{len(plan.cells)} cells on {plan.device}, {request.budget_s:g} s, seed {plan.seed}, into {folder}")
    for cell in range(len(plan.cells)):
        typer.echo(f"  {plan.name_of(cell)}")


def _print(result: TuneResult, as_json: bool) -> None:
    if as_json:
        print_json({"folder": str(result.folder), **result.tuning.data})
        return
    from nsysprof.report.pages.bench import tuning_report, tuning_sections

    tuning = result.tuning
    sections = tuning_sections(tuning.winners, tuning.insights, price=None, policy=None, budget_note=result.told)
    print_report(tuning_report(sections, result.results.notes))
    use = "" if result.tuning.policy is None else f"; use {result.tuning.policy}"
    typer.echo(f"read {result.folder / 'report.md'}{use}")
