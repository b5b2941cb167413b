"""Define `nsysprof bench`: measure the untraced latency of a grid, with sound statistics."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from nsysprof.app.inputs.attention_requests import SidesRequest
from nsysprof.app.measuring.program_request import ProgramBenchRequest
from nsysprof.cli import options
from nsysprof.cli.measuring.measurement import run_measurement
from nsysprof.cli.options import is_given
from nsysprof.cli.terminal import GATE_EXIT_CODES, print_json, print_report, say
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import json_value

if TYPE_CHECKING:
    from nsysprof.app.inputs.attention_requests import BenchRequest
    from nsysprof.app.measuring.bench import BenchResult
    from nsysprof.app.measuring.bench_program import ProgramBenchResult, SidesResult

EXAMPLES = (
    "nsysprof bench --backends math,flash,cudnn --seq 1024,4096",
    "nsysprof bench --backends flash,mypackage.attention:run --dtype bf16 --causal both",
    "nsysprof bench --self-check --seq 512,2048    # how much noise this machine makes",
    "nsysprof bench --baseline /envs/main/bin/python --candidate /envs/mine/bin/python --fail-on slower:3%",
    "nsysprof bench --candidate NVIDIA_TF32_OVERRIDE=1 --dtype fp32    # this environment against a setting",
    "nsysprof bench --candidate policy.json --fail-on slower:3% -- python train.py",
    r"nsysprof bench --candidate A=1 --value-pattern 'loss ([-+.\deE]+)' -- python train.py",
)


def bench(
    context: typer.Context,
    request: SidesRequest | ProgramBenchRequest,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Time attention backends over a grid, untraced, with intervals and verdicts that hold.

    Cases are interleaved in random order over several processes; a difference counts only beyond the machine's noise.
    With a PROGRAM: run it with --baseline and --candidate in turn, and compare its steps, its memory and its values.
    """
    from nsysprof.app.measuring import bench as use_case

    if isinstance(request, ProgramBenchRequest):
        _bench_program(request, dry_run=dry_run, as_json=as_json)
        return
    own = replace(request.bench, command=options.command_line())
    if is_given(context, "baseline") or is_given(context, "candidate"):
        until_decided = not is_given(context, "processes")
        _bench_sides(replace(request, bench=own, until_decided=until_decided), dry_run=dry_run, as_json=as_json)
        return
    if request.fail_on or request.margin_pct is not None:
        raise UsageError("--fail-on and --margin compare two sides.", "Give --baseline or --candidate too.")
    run_measurement(own, use_case.bench, print_plan=_print_plan, print_result=_print, dry_run=dry_run, as_json=as_json)


def _bench_program(request: ProgramBenchRequest, *, dry_run: bool, as_json: bool) -> None:
    """Run a program on two sides in turn, and print the comparison. The exit code is the gate's result."""
    from nsysprof.app.measuring.bench_program import bench_program

    run_measurement(
        request,
        bench_program,
        print_plan=_print_program_plan,
        print_result=_print_program,
        dry_run=dry_run,
        as_json=as_json,
    )


def _print_program_plan(request: ProgramBenchRequest, as_json: bool) -> None:
    from nsysprof.app.measuring.bench import dated_bench_folder
    from nsysprof.app.measuring.bench_program import check_program_bench

    check_program_bench(request)
    folder, sides = request.out or dated_bench_folder("bench"), (request.baseline.label, request.candidate.label)
    if as_json:
        print_json({"program": list(request.argv), "sides": sides, "turns": request.processes, "out": str(folder)})
        return
    typer.echo(f"{shlex.join(request.argv)}: {sides[0]} against {sides[1]}, {request.processes} turns, into {folder}")


def _print_program(result: ProgramBenchResult, as_json: bool) -> None:
    found = result.comparison
    if as_json:
        print_json({**found.to_json(), "folder": str(result.folder)})
    else:
        from nsysprof.report.pages.program import program_report

        print_report(program_report(found))
        typer.echo(f"read {result.folder / 'report.md'}")
    if result.failure is None and found.outcome is not None:
        raise typer.Exit(GATE_EXIT_CODES[found.outcome])


def _bench_sides(sides: SidesRequest, *, dry_run: bool, as_json: bool) -> None:
    """Measure two sides in turn, and print their comparison. The exit code is the gate's result."""
    from nsysprof.app.measuring.bench_program import bench_sides, turns_of_sides

    run_measurement(
        sides,
        bench_sides,
        print_plan=lambda sides, as_json: _print_plan(turns_of_sides(sides), as_json),
        print_result=_print_sides,
        dry_run=dry_run,
        as_json=as_json,
    )


def _print_sides(result: SidesResult, as_json: bool) -> None:
    found = result.comparison
    if as_json:
        from nsysprof.report.pages.compare import comparison_json

        print_json({**comparison_json(found), "folder": str(result.folder), "seed": result.seed})
    else:
        from nsysprof.report.pages.compare import compare_report

        print_report(compare_report(found))
        typer.echo(f"seed {result.seed}; read {result.folder / 'report.md'}")
    if result.failure is None and found.outcome is not None:
        raise typer.Exit(GATE_EXIT_CODES[found.outcome])


def _print_plan(request: BenchRequest, as_json: bool) -> None:
    from nsysprof.app.measuring.bench import dated_bench_folder, plan_bench

    plan, folder = plan_bench(request), request.out or dated_bench_folder("bench")
    if as_json:
        print_json({**json_value(plan), "out": str(folder)})
        return
    blocks = plan.processes * plan.rounds
    say(
        f"{len(plan.cells)} cells on {plan.device}, each {blocks} times {plan.samples} samples in {plan.processes} "
        f"processes, seed {plan.seed}, into {folder}"
    )
    for cell in range(len(plan.cells)):
        typer.echo(f"  {plan.name_of(cell)}")


def _print(result: BenchResult, as_json: bool) -> None:
    results, seed = result.results, result.run.plan.seed
    if as_json:
        print_json(result.to_json())
        return
    from nsysprof.app.measuring.bench import report_of
    from nsysprof.report.pages.bench import bench_report

    report = bench_report(report_of(result.run, results, result.folder, command=""))
    print_report(report)
    floor = "unknown" if results.floor_pct is None else f"{results.floor_pct:.2g} %"
    what = "noise floor" if result.self_check is not None else "smallest difference that would be told"
    say(f"{what}: {floor}; seed {seed}; read {result.folder / 'report.md'}")
