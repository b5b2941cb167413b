"""Define `nsysprof optimize`: record a program's attention, tune it, apply what won, and verify it on the program."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsysprof.cli import options
from nsysprof.cli.measuring.measurement import run_measurement
from nsysprof.cli.terminal.console import print_json

if TYPE_CHECKING:
    from nsysprof.app.optimize import OptimizeRequest, OptimizeResult

EXAMPLES = (
    "nsysprof optimize -- python train.py",
    r"nsysprof optimize --budget 1800 --value-pattern 'loss ([-+.\deE]+)' -- python train.py --steps 50",
    "nsysprof optimize --try ATTENTION=sdpa -- python train.py    # a setting that the program itself reads",
    "nsysprof optimize --resume --out tuned -- python train.py",
)

Program = Annotated[
    list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENTS]", help="The program to optimize.", show_default=False)
]
Captured = Annotated[
    Path | None,
    typer.Option(
        "--capture",
        help="Use this capture of the program, made with capture --attention.",
        rich_help_panel=options.MEASUREMENT,
    ),
]
Tries = Annotated[
    list[str] | None,
    typer.Option(
        "--try", help="Try these settings NAME=VALUE too; can be repeated.", rich_help_panel=options.MEASUREMENT
    ),
]


def optimize(
    program: Program,
    budget: options.Budget = 600.0,
    processes: options.Processes = 3,
    step_pattern: options.StepPattern = "",
    step_range: options.StepRange = "",
    value_pattern: options.ValuePattern = "",
    value_tolerance: options.ValueTolerance = 1.0,
    warmup_steps: options.WarmupSteps = 2,
    margin: options.Margin = None,
    tries: Tries = None,
    captured: Captured = None,
    nsys: options.Nsys = None,
    out: Annotated[Path | None, options.out_option("Folder. Default: traces/optimize-DATE-TIME.")] = None,
    force: options.Force = False,
    resume: options.Resume = False,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Find out what makes a program faster without changing its code, and verify it on the program itself.

    It records the program's attention once, times torch's backends for its shapes, and runs the program in turn with
    and without the winning backends. If findings suggest it, TF32 and allocator settings are tried too. The result may
    be that nothing helps.
    """
    from nsysprof.app import optimize as use_case

    run_measurement(
        use_case.OptimizeRequest(
            tuple(program),
            budget_s=budget,
            processes=processes,
            step_pattern=step_pattern,
            step_range=step_range,
            value_pattern=value_pattern,
            value_tolerance_pct=value_tolerance,
            warmup_steps=warmup_steps,
            margin_pct=margin,
            tries=None if tries is None else tuple(tries),
            captured=captured,
            stdout_to_stderr=as_json,
            nsys=nsys,
            out=out,
            force=force,
            resume=resume,
        ),
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
        typer.echo(f"  {number}. {step}")


def _print(result: OptimizeResult, as_json: bool) -> None:
    if as_json:
        print_json({**result.optimization.to_json(), "folder": str(result.folder)})
        return
    from nsysprof.cli.terminal.console import print_report
    from nsysprof.report.pages.program import optimize_report

    print_report(optimize_report(result.optimization))
    typer.echo(f"read {result.folder / 'report.html'}")
