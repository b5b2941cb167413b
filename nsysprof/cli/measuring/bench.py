"""Define `nsysprof bench`: measure the untraced latency of a grid, with sound statistics."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nsysprof.cli import options
from nsysprof.cli.measuring.measurement import run_measurement
from nsysprof.cli.terminal.console import GATE_EXIT_CODES, print_json
from nsysprof.errors import UsageError
from nsysprof.files.json_file import json_value

if TYPE_CHECKING:
    from nsysprof.app.measuring.bench import BenchRequest, BenchResult
    from nsysprof.app.measuring.bench_program import ProgramBenchRequest, ProgramBenchResult
    from nsysprof.app.measuring.bench_sides import SidesRequest, SidesResult

_SIDES = "Two sides"
EXAMPLES = (
    "nsysprof bench --backends math,flash,cudnn --seq 1024,4096",
    "nsysprof bench --backends flash,mypackage.attention:run --dtype bf16 --causal both",
    "nsysprof bench --self-check --seq 512,2048    # how much noise this machine makes",
    "nsysprof bench --baseline /envs/main/bin/python --candidate /envs/mine/bin/python --fail-on slower:3%",
    "nsysprof bench --candidate NVIDIA_TF32_OVERRIDE=1 --dtype fp32    # this environment against a setting",
    "nsysprof bench --candidate policy.json --fail-on slower:3% -- python train.py",
    r"nsysprof bench --candidate A=1 --value-pattern 'loss ([-+.\deE]+)' -- python train.py",
)
_FOR_BOTH = (
    "program", "processes", "baseline", "candidate", "fail_on", "margin", "case_timeout", "out", "force", "dry_run",
    "as_json",
)  # fmt: skip
_FOR_PROGRAMS = ("step_pattern", "step_range", "value_pattern", "value_tolerance", "warmup_steps", "resume")

Program = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- PROGRAM [ARGUMENTS]", help="Run this program on both sides in turn.", show_default=False
    ),
]

Rounds = Annotated[
    int,
    typer.Option(min=1, help="How often each process measures every case.", rich_help_panel=options.MEASUREMENT),
]
Graph = Annotated[
    Literal["auto", "always", "never"],
    typer.Option(
        help="Also time CUDA graphs. auto: only the first block of a case in each process.",
        rich_help_panel=options.MEASUREMENT,
    ),
]
Sustained = Annotated[
    bool,
    typer.Option(
        "--sustained",
        help="Load the GPU before each block until its clock has settled.",
        rich_help_panel=options.MEASUREMENT,
    ),
]
LockClocks = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="MHZ",
        help="Lock the SM clock at this frequency while measuring (needs root). It is released afterwards in any case.",
        rich_help_panel=options.MEASUREMENT,
    ),
]
SelfCheck = Annotated[
    bool,
    typer.Option(
        "--self-check",
        help="Measure each case against itself, to find this machine's noise.",
        rich_help_panel=options.MEASUREMENT,
    ),
]
Copies = Annotated[
    int,
    typer.Option(
        min=2, help="With --self-check: how often each case is measured.", rich_help_panel=options.MEASUREMENT
    ),
]
Baseline = Annotated[
    str,
    typer.Option(
        help="Measure two sides in turn: settings NAME=VALUE and a Python, as after `env`; with a program, settings "
        "and a policy.json. Default: this Python in this environment.",
        rich_help_panel=_SIDES,
    ),
]
Candidate = Annotated[str, typer.Option(help="The candidate side, written like --baseline.", rich_help_panel=_SIDES)]


def bench(
    context: typer.Context,
    program: Program = None,
    backends: options.Backends = "math,flash",
    seq: options.Seq = "1024,2048,4096",
    batch: options.Batch = "1",
    heads: options.Heads = "8",
    kv_heads: options.KvHeads = "",
    head_dim: options.HeadDim = "64",
    dtype: options.Dtype = "",
    causal: options.Causal = "yes",
    pass_: options.Pass = "fwd",
    processes: options.Processes = 3,
    rounds: Rounds = 5,
    samples: options.Samples = 10,
    sample_seconds: options.SampleSeconds = 1.0,
    warmup_seconds: options.WarmupSeconds = 1.0,
    seed: options.Seed = None,
    sustained: Sustained = False,
    lock_clocks: LockClocks = None,
    flush: options.Flush = True,
    graph: Graph = "auto",
    check: options.Check = True,
    device: options.Device = "auto",
    case_timeout: options.CaseTimeout = 300.0,
    self_check: SelfCheck = False,
    copies: Copies = 2,
    baseline: Baseline = "",
    candidate: Candidate = "",
    step_pattern: options.StepPattern = "",
    step_range: options.StepRange = "",
    value_pattern: options.ValuePattern = "",
    value_tolerance: options.ValueTolerance = 1.0,
    warmup_steps: options.WarmupSteps = 2,
    fail_on: options.FailOn = "",
    margin: options.Margin = None,
    out: Annotated[Path | None, options.out_option("Folder. Default: traces/bench-DATE-TIME.")] = None,
    force: options.Force = False,
    resume: options.Resume = False,
    db: options.Database = None,
    figures: options.Figures = True,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Time attention backends over a grid, untraced, with intervals and verdicts that hold.

    Cases are interleaved in random order over several processes; a difference counts only beyond the machine's noise.
    With a PROGRAM: run it with --baseline and --candidate in turn, and compare its steps, its memory and its values.
    """
    from nsysprof.app.measuring import bench as use_case

    options.check_program_options(context, _FOR_BOTH, _FOR_PROGRAMS, is_program=bool(program))
    if program:
        from nsysprof.app.measuring.bench_program import ProgramBenchRequest, parse_program_side

        program_request = ProgramBenchRequest(
            argv=tuple(program),
            baseline=parse_program_side(baseline),
            candidate=parse_program_side(candidate),
            processes=processes,
            step_pattern=step_pattern,
            step_range=step_range,
            value_pattern=value_pattern,
            value_tolerance_pct=value_tolerance,
            warmup_steps=warmup_steps,
            run_timeout_s=case_timeout,
            fail_on=fail_on,
            margin_pct=margin,
            out=out,
            force=force,
            resume=resume,
        )
        _bench_program(program_request, dry_run=dry_run, as_json=as_json)
        return
    request = use_case.BenchRequest(
        grid=options.parse_grid(backends, seq, batch, heads, kv_heads, head_dim, dtype, causal, pass_),
        processes=processes,
        rounds=rounds,
        samples=samples,
        sample_seconds=sample_seconds,
        warmup_seconds=warmup_seconds,
        seed=seed,
        sustained=sustained,
        locked_clock_mhz=lock_clocks,
        flush=flush,
        graph=graph,
        check=check,
        device=device,
        case_timeout_s=case_timeout,
        copies=copies if self_check else 1,
        out=out,
        force=force,
        db=db,
        figures=figures,
        command=options.command_line(),
    )
    if baseline or candidate:
        from nsysprof.app.measuring.bench_sides import SidesRequest, parse_side

        until_decided = not options.is_given(context, "processes")
        both = (parse_side(baseline), parse_side(candidate))
        sides = SidesRequest(request, *both, fail_on, margin, until_decided=until_decided)
        _bench_sides(sides, dry_run=dry_run, as_json=as_json)
        return
    if fail_on or margin is not None:
        raise UsageError("--fail-on and --margin compare two sides.", "Give --baseline or --candidate too.")
    run_measurement(
        request, use_case.bench, print_plan=_print_plan, print_result=_print, dry_run=dry_run, as_json=as_json
    )


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
        from nsysprof.cli.terminal.console import print_report
        from nsysprof.report.pages.program import program_report

        print_report(program_report(found))
        typer.echo(f"read {result.folder / 'report.md'}")
    if result.failure is None and found.outcome is not None:
        raise typer.Exit(GATE_EXIT_CODES[found.outcome])


def _bench_sides(sides: SidesRequest, *, dry_run: bool, as_json: bool) -> None:
    """Measure two sides in turn, and print their comparison. The exit code is the gate's result."""
    from nsysprof.app.measuring.bench_sides import bench_sides, turns_of_sides

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
        from nsysprof.cli.terminal.console import print_report
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
    typer.echo(
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
    from nsysprof.cli.terminal.console import print_report
    from nsysprof.report.pages.bench import bench_report

    report = bench_report(report_of(result.run, results, result.folder, command=""))
    print_report(report)
    floor = "unknown" if results.floor_pct is None else f"{results.floor_pct:.2f} %"
    typer.echo(f"noise floor {floor}; seed {seed}; read {result.folder / 'report.md'}")
