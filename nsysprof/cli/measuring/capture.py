"""Define `nsysprof capture`: record a grid (first untraced, then under a profiler), or any program."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from nsysprof.app.inputs.attention_requests import CaptureRequest
from nsysprof.app.measuring.program_request import ProgramRequest
from nsysprof.cli import options
from nsysprof.cli.measuring.measurement import run_measurement
from nsysprof.cli.terminal import print_json, print_report, say, show_progress
from nsysprof.files.plain_file import json_value
from nsysprof.units import format_bytes

if TYPE_CHECKING:
    from nsysprof.app.measuring.capture import CaptureResult
    from nsysprof.app.measuring.capture_program import PlannedProgram, ProgramResult
    from nsysprof.app.measuring.record import HoldResult, PlannedHold
    from nsysprof.attention.shape import Case

EXAMPLES = (
    "nsysprof capture --backends math,flash --seq 1024,4096",
    "nsysprof capture --profiler nsys,ncu --backends flash --seq 4096    # hardware counters too",
    "nsysprof capture --out run -- python train.py --epochs 1",
    "nsysprof capture --attention --out run -- python train.py    # then: nsysprof tune --from run",
    "nsysprof capture --per-rank -- torchrun --nproc-per-node 8 train.py",
    "nsysprof capture --profiler torch --skip-steps 5 --optimizer-steps 20 -- python train.py",
    "nsysprof capture --profiler torch --skip-steps 5 --forward-steps 20 -- python generate.py",
    "nsysprof capture --hold --out server -- python serve.py    # then: nsysprof record --duration 10",
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

    if dry_run:
        print_program_plan(plan_program_capture(request), as_json=as_json)
        return
    result = capture_program(request, show_progress(quiet=as_json))
    print_program_result(result, as_json=as_json)
    end_with_program(result)


def _hold_program(request: ProgramRequest, *, dry_run: bool, as_json: bool) -> None:
    from nsysprof.app.measuring.record import hold_program, plan_hold

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
    say(f"{len(plan.cases)} cases on {plan.device}, traced by {using}, into {folder}")
    say(
        f"each: {plan.warmup} warm-up calls, up to {plan.samples} untraced samples in {plan.sample_seconds:g} s, "
        f"{plan.traced_calls} traced calls"
        + (f" or {plan.traced_seconds:g} s, DRAM sampled at {plan.gpu_metrics_hz:,} Hz" if plan.gpu_metrics_hz else "")
        + (", one call counted by ncu" if plan.counting else "")
    )
    for case, name in zip(plan.cases, ranges, strict=True):
        typer.echo(
            f"  {name}  B={case.batch} H={case.heads}{_key_heads(case)} S={case.seq}{_key_length(case)} "
            f"D={case.head_dim} {case.dtype} {' '.join([_mask(case), *case.served_words, case.pass_])}"
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
    say(f"\ncapture in {folder}; next: nsysprof analyze {folder}")


def print_program_plan(planned: PlannedProgram, *, as_json: bool) -> None:
    """Print what would be recorded, and how."""
    plan, folder = planned.plan, planned.folder
    if as_json:
        data = {"program": list(plan.argv), "out": str(folder), "per_rank": plan.per_rank, "nsys": planned.nsys_argv}
        print_json(data)
        return
    each = "each worker of" if plan.per_rank else ""
    typer.echo(f"{each} {shlex.join(plan.argv)}, into {folder}".strip())
    typer.echo(f"  {shlex.join(planned.nsys_argv)}" if planned.nsys else "  recorded by torch's own profiler")


def print_program_result(result: ProgramResult, *, as_json: bool) -> None:
    """Print how the program ended, the notes, and where the traces are."""
    if as_json:
        manifest = result.captured.manifest.to_json()
        keys = ("program", "ranks", "complete", "notes")
        print_json({"folder": str(result.folder), **{key: manifest[key] for key in keys}})
    elif result.is_first:
        _print_end(result)


def end_with_program(result: ProgramResult) -> None:
    """Exit with the program's exit code. If that is 0, any other failure counts."""
    captured, ended = result.captured, result.captured.ended
    if ended.exit_code and not ended.ended_by_us and not ended.refused and ended.interrupted is None:
        if captured.failure is not None:
            say(f"{captured.failure.text} -> {captured.failure.next_step}", err=True)
        raise typer.Exit(ended.exit_code)
    if result.failure is not None:
        raise result.failure


def print_hold_plan(planned: PlannedHold, *, as_json: bool) -> None:
    """Print what would be held, and how."""
    if as_json:
        argv = list(planned.nsys_argv)
        print_json({"program": list(planned.plan.argv), "out": str(planned.folder), "hold": True, "nsys": argv})
        return
    typer.echo(f"{shlex.join(planned.plan.argv)}, held in {planned.folder} and recorded on demand")
    typer.echo(f"  {shlex.join(planned.nsys_argv)}")


def end_with_held_program(result: HoldResult, *, as_json: bool) -> None:
    """Print what was recorded of a held program, and end as it did."""
    if as_json:
        recordings = [str(path) for path in result.recordings]
        print_json({"folder": str(result.folder), "exit_code": result.exit_code, "recordings": recordings})
    else:
        how = "did not start" if result.exit_code is None else f"ended with exit code {result.exit_code}"
        count = len(result.recordings)
        typer.echo(f"\nthe program {how}; {count} recording{'' if count == 1 else 's'} in {result.folder}", err=True)
        for path in result.recordings:
            typer.echo(f"  nsysprof analyze {path}", err=True)
    if result.exit_code and result.interrupted is None:
        raise typer.Exit(result.exit_code)
    if result.failure is not None:
        raise result.failure


def _print_end(result: ProgramResult) -> None:
    from nsysprof.report.formats.console import note_line

    captured, folder = result.captured, result.folder
    manifest = captured.manifest
    assert manifest.program is not None
    seconds, code = captured.ended.duration_ns / 1e9, captured.ended.exit_code
    how = "did not start" if code is None else f"ended with exit code {code}"
    if captured.ended.ended_by_us:
        how = "was ended with the recording"
    typer.echo(f"\nthe program {how} after {seconds:.1f} s", err=True)
    for note in manifest.notes:
        say(note_line(note), err=True)
    ranks, what = manifest.program.ranks, ""
    if ranks:
        traced = sum(rank.trace is not None for rank in ranks)
        so_far = " so far" if traced < ranks[0].world_size and not manifest.complete else ""
        what = f"traces of {traced} of {ranks[0].world_size} ranks{so_far}, "
    size = (
        f"{what}{format_bytes(result.trace_bytes)}); next: nsysprof analyze {folder}"
        if captured.traces
        else f"{what}no trace)"
    )
    say(f"capture in {folder} ({size}", err=True)
