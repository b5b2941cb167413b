"""Define `nsysprof run`: run a program with a policy, and report how many calls ran as tuned."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from nsysprof.app.measuring.program_request import RunRequest
from nsysprof.cli import options
from nsysprof.cli.measuring.measurement import run_measurement
from nsysprof.cli.terminal import print_json
from nsysprof.files.plain_file import json_value

if TYPE_CHECKING:
    from nsysprof.app.measuring.run import RunResult

EXAMPLES = (
    "nsysprof run --policy policy.json -- python train.py",
    "nsysprof run --policy policy.json -- torchrun --nproc-per-node 8 train.py",
    "nsysprof run --remedies tf32,compile -- python train.py",
)


def run(request: RunRequest, dry_run: options.DryRun = False, as_json: options.Json = False) -> None:
    """Run a program with the backends that were tuned for its shapes of attention, or with remedies of optimize.

    Works for every Python that the program starts, also under torchrun and torch.compile. Calls without a rule are left
    to torch, and so are all calls on another GPU or torch. The exit code is the program's.
    """
    from nsysprof.app.measuring import run as use_case

    run_measurement(
        replace(request, stdout_to_stderr=as_json),
        use_case.run,
        print_plan=_print_plan,
        print_result=_print,
        dry_run=dry_run,
        as_json=as_json,
    )


def _print_plan(request: RunRequest, as_json: bool) -> None:
    from nsysprof.app.measuring.run import check_run

    found = check_run(request)
    if found is None:
        told = {"program": list(request.argv), "remedies": request.remedies}
        if as_json:
            print_json(told)
        else:
            typer.echo(f"{shlex.join(request.argv)}, with {request.remedies}")
        return
    where = " with ".join(filter(None, (found.gpu_name or found.device, f"torch {found.torch_version}")))
    if as_json:
        print_json({"program": list(request.argv), "policy": str(request.policy), "rules": len(found.rules)})
        return
    typer.echo(f"{shlex.join(request.argv)}, with {len(found.rules)} rules that were tuned on {where}")


def _print(result: RunResult, as_json: bool) -> None:
    """Print on stderr which backends the calls got, because stdout belongs to the program."""
    if not result.has_policy and not as_json:
        pass  # each remedy that is not in force has said so
    elif as_json:
        keys = {"exit_code": result.exit_code, "processes": result.processes}
        print_json({**keys, "use": json_value(result.use)})
    else:
        typer.echo(_told(result), err=True)
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def _told(result: RunResult) -> str:
    use = result.use
    if not result.processes:
        return "nsysprof: no process of the program imported torch and ended by itself: its calls are unknown"
    if use.was_refused:
        return "nsysprof: the policy was not in force, and every call was left to torch"
    compiled = f", {use.compiled:,} were compiled with a rule" if use.compiled else ""
    largest = max((error for error in use.errors.values() if error is not None), default=None)
    checked = "" if largest is None else f"; first calls differ from torch's choice by at most {largest:.1g} relative"
    return f"nsysprof: {use.calls:,} calls ran as tuned, {use.left:,} were left to torch{compiled}{checked}"
