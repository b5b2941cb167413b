"""Define `nsysprof optimize`: record a program's attention, tune it, apply what won, and verify it on the program."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from nsysprof.app.measuring.program_request import OptimizeRequest
from nsysprof.cli import options
from nsysprof.cli.measuring.measurement import run_measurement
from nsysprof.cli.terminal import print_json, print_report, say

if TYPE_CHECKING:
    from nsysprof.app.optimize import OptimizeResult

EXAMPLES = (
    "nsysprof optimize -- python train.py",
    r"nsysprof optimize --budget 1800 --value-pattern 'loss ([-+.\deE]+)' -- python train.py --steps 50",
    "nsysprof optimize --try ATTENTION=sdpa -- python train.py    # a setting that the program itself reads",
    "nsysprof optimize --resume --out tuned -- python train.py",
)


def optimize(request: OptimizeRequest, dry_run: options.DryRun = False, as_json: options.Json = False) -> None:
    """Find out what makes a program faster without changing its code, and verify it on the program itself.

    It records the program once, times torch's backends for its attention, and runs the program in turn with and without
    each remedy that its code leaves open: TF32, torch.compile, channels_last, the fused optimizer and others. What wins
    is put together and proven again. The result may be that nothing helps.
    """
    from nsysprof.app import optimize as use_case

    run_measurement(
        replace(request, stdout_to_stderr=as_json),
        use_case.optimize,
        print_plan=_print_plan,
        print_result=_print,
        dry_run=dry_run,
        as_json=as_json,
    )


def _print_plan(request: OptimizeRequest, as_json: bool) -> None:
    from nsysprof.app.optimize import plan_optimize

    steps = plan_optimize(request)
    if as_json:
        print_json({"program": list(request.argv), "budget_s": request.budget_s, "steps": steps})
        return
    typer.echo(f"{shlex.join(request.argv)}, in {request.budget_s:g} s:")
    for number, step in enumerate(steps, 1):
        say(f"  {number}. {step}")


def _print(result: OptimizeResult, as_json: bool) -> None:
    if as_json:
        print_json({**result.optimization.to_json(), "folder": str(result.folder)})
        return
    from nsysprof.report.pages.program import optimize_report

    print_report(optimize_report(result.optimization))
    typer.echo(f"read {result.folder / 'report.html'}")
