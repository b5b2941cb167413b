"""Define `nsysprof capture`: record a grid (first untraced, then under a profiler), or any program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from nsysprof.app.measuring.program_request import ProgramRequest
from nsysprof.app.requests.attention import CaptureRequest
from nsysprof.cli import options
from nsysprof.cli.measuring.measurement import run_measurement
from nsysprof.cli.terminal.console import print_json, print_report
from nsysprof.cli.terminal.progress import show_progress
from nsysprof.files.json_file import json_value

if TYPE_CHECKING:
    from nsysprof.app.measuring.capture import CaptureResult
    from nsysprof.attention.case import Case

EXAMPLES = (
    "nsysprof capture --backends math,flash --seq 1024,4096",
    "nsysprof capture --profiler nsys,ncu --backends flash --seq 4096    # hardware counters too",
    "nsysprof capture --out run -- python train.py --epochs 1",
    "nsysprof capture --attention --out run -- python train.py    # then: nsysprof tune --from run",
    "nsysprof capture --per-rank -- torchrun --nproc-per-node 8 train.py",
    "nsysprof capture --profiler torch --skip-steps 5 --optimizer-steps 20 -- python train.py",
    "nsysprof capture --profiler torch --skip-steps 5 --forward-steps 20 -- python generate.py",
    "nsysprof capture --hold --out server -- python serve.py    # then: nsysprof record --seconds 10",
    "nsysprof capture --keep 10 --duration 30 -- python serve.py    # always the last ten parts of 30 s",
)
# The options that people use; the help shows all others as advanced.
PANELS = {
    "Program or grid": ("--profiler", "--out"),
    "Program": ("--duration", "--per-rank", "--stacks", "--memory", "--attention", "--operators", "--layers"),
    "Grid": ("--backends", "--seq", "--dtype"),
}


def capture(
    request: CaptureRequest | ProgramRequest,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Record your program, or a grid of attention backends.

    A program is recorded under nsys, in one trace or one a rank, and keeps its output and exit status.
    Without one, each case of the grid is measured: latency and torch's peak memory untraced, then kernels, launches and
    copies traced.
    """
    from nsysprof.app.measuring import capture as use_case

    if isinstance(request, ProgramRequest):
        program = replace(request, stdout_to_stderr=as_json)
        _capture_program(program, dry_run=dry_run, as_json=as_json)
        return
    run_measurement(
        request, use_case.capture, print_plan=_print_plan, print_result=_print_result, dry_run=dry_run, as_json=as_json
    )


def _capture_program(request: ProgramRequest, *, dry_run: bool, as_json: bool) -> None:
    if request.hold or request.keep:
        _hold_program(request, dry_run=dry_run, as_json=as_json)
        return
    from nsysprof.app.measuring.capture_program import capture_program, plan_program_capture
    from nsysprof.cli.terminal.program_output import end_with_program, print_program_plan, print_program_result

    if dry_run:
        print_program_plan(plan_program_capture(request), as_json=as_json)
        return
    result = capture_program(request, show_progress(quiet=as_json))
    print_program_result(result, as_json=as_json)
    end_with_program(result)


def _hold_program(request: ProgramRequest, *, dry_run: bool, as_json: bool) -> None:
    from nsysprof.app.measuring.hold_program import hold_program, plan_hold
    from nsysprof.cli.terminal.program_output import end_with_held_program, print_hold_plan

    if dry_run:
        print_hold_plan(plan_hold(request), as_json=as_json)
        return
    end_with_held_program(hold_program(request, show_progress()), as_json=as_json)


def _print_plan(request: CaptureRequest, as_json: bool) -> None:
    from nsysprof.app.measuring.capture import plan_capture

    planned = plan_capture(request)
    plan, folder = planned.plan, planned.folder
    ranges = [plan.range_of(case) for case in plan.cases]
    if as_json:
        cells = [{**json_value(case), "range": name} for case, name in zip(plan.cases, ranges, strict=True)]
        data = {"profiler": plan.profiler, "device": plan.device, "out": str(folder), "cases": cells}
        print_json(data)
        return
    using = f"{plan.profiler} ({planned.nsys})" if plan.profiler == "nsys" else plan.profiler
    typer.echo(f"{len(plan.cases)} cases on {plan.device}, traced by {using}, into {folder}")
    typer.echo(
        f"each: {plan.warmup} warm-up calls, up to {plan.samples} untraced samples in {plan.sample_seconds:g} s, "
        f"{plan.traced_calls} traced calls"
        + (f" or {plan.traced_seconds:g} s, DRAM sampled at {plan.gpu_metrics_hz:,} Hz" if plan.gpu_metrics_hz else "")
        + (", one call counted by ncu" if plan.counting else "")
    )
    for case, name in zip(plan.cases, ranges, strict=True):
        typer.echo(
            f"  {name}  B={case.batch} H={case.heads}{_key_heads(case)} S={case.seq}{_key_length(case)} "
            f"D={case.head_dim} {case.dtype} {_mask(case)} {case.pass_}"
        )


def _key_heads(case: Case) -> str:
    return "" if case.own_kv_heads is None else f" KV={case.kv_heads}"


def _mask(case: Case) -> str:
    return case.mask if case.mask != "none" else "causal" if case.causal else "full"


def _key_length(case: Case) -> str:
    return "" if case.own_kv_seq is None else f" K={case.kv_seq}"


def _print_result(result: CaptureResult, as_json: bool) -> None:
    """Print a line for each case, and where the capture is."""
    manifest, folder = result.manifest, result.folder
    if as_json:
        print_json(result.to_json())
        return
    from nsysprof.report.pages.analysis import capture_report

    report = capture_report(result.results, manifest.environment, manifest.notes)
    print_report(report)
    typer.echo(f"\ncapture in {folder}; next: nsysprof analyze {folder}")
