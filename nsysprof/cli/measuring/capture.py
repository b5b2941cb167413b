"""Define `nsysprof capture`: record a grid, untraced and then under a profiler, or any program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nsysprof.cli import options
from nsysprof.cli.measuring.measurement import run_measurement
from nsysprof.cli.terminal.console import print_json
from nsysprof.cli.terminal.program_output import parse_ranks
from nsysprof.files.json_file import json_value

if TYPE_CHECKING:
    from nsysprof.app.measuring.capture import CaptureRequest, CaptureResult
    from nsysprof.app.measuring.program_request import ProgramRequest
    from nsysprof.attention.case import Case

EXAMPLES = (
    "nsysprof capture --backends math,flash --seq 1024,4096",
    "nsysprof capture --profiler nsys,ncu --backends flash --seq 4096    # hardware counters too",
    "nsysprof capture --out run -- python train.py --epochs 1",
    "nsysprof capture --attention --out run -- python train.py    # then: nsysprof tune --from run",
    "nsysprof capture --per-rank -- torchrun --nproc-per-node 8 train.py",
    "nsysprof capture --profiler torch --skip-steps 5 --optimizer-steps 20 -- python train.py",
    "nsysprof capture --hold --out server -- python serve.py    # then: nsysprof record --seconds 10",
)
_COUNTERS, _PROGRAM = "Hardware counters", "A program instead of the grid"
_FOR_BOTH = (
    "program",
    "profiler",
    "nsys",
    "gpu_metrics",
    "gpu_metrics_frequency",
    "out",
    "force",
    "dry_run",
    "as_json",
)
_FOR_PROGRAMS = (
    "per_rank",
    "ranks",
    "trace",
    "capture_range",
    "delay",
    "duration",
    "end_program",
    "memory",
    "stacks",
    "attention",
    "nsys_option",
    "retry",
    "probe",
    "measure_cost",
    "power",
    "max_size",
    "keep_report",
    "hold",
    "skip_steps",
    "optimizer_steps",
)

Program = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- PROGRAM [ARGUMENTS]",
        help="Record this program instead of measuring the grid.",
        show_default=False,
    ),
]
Profiler = Annotated[
    str,
    typer.Option(
        help="auto, nsys, torch or none, and with ',ncu' a counted pass too. auto: nsys where there is one and a "
        "GPU, else torch's own.",
        rich_help_panel=options.MEASUREMENT,
    ),
]
Warmup = Annotated[int, typer.Option(min=0, help="Warm-up calls of a case.", rich_help_panel=options.MEASUREMENT)]
TracedCalls = Annotated[
    int, typer.Option(min=1, help="Calls inside each case's NVTX range.", rich_help_panel=options.MEASUREMENT)
]
GpuMetrics = Annotated[
    bool, typer.Option("--gpu-metrics", help="Sample DRAM traffic under nsys.", rich_help_panel=_COUNTERS)
]
GpuMetricsFrequency = Annotated[
    int, typer.Option(min=10, max=200_000, help="Samples a second.", rich_help_panel=_COUNTERS)
]
Metrics = Annotated[
    str, typer.Option(help="More metrics for ncu, e.g. smsp__inst_executed.sum.", rich_help_panel=_COUNTERS)
]
Section = Annotated[
    str, typer.Option(help="Sections for ncu, into its report, e.g. SpeedOfLight.", rich_help_panel=_COUNTERS)
]
Replay = Annotated[
    Literal["auto", "kernel", "application"],
    typer.Option(
        help="How ncu repeats a kernel. auto: kernel, or application where memory is too small.",
        rich_help_panel=_COUNTERS,
    ),
]
CountKernels = Annotated[
    int, typer.Option(min=1, help="Largest number of kernels of a call to count.", rich_help_panel=_COUNTERS)
]
PerRank = Annotated[
    bool,
    typer.Option("--per-rank", help="A trace for each worker of torchrun or accelerate.", rich_help_panel=_PROGRAM),
]
Ranks = Annotated[str, typer.Option(help="Record only these ranks, e.g. 0,8-11.", rich_help_panel=_PROGRAM)]
Trace = Annotated[str, typer.Option(help="The APIs that nsys records.", rich_help_panel=_PROGRAM)]
CaptureRange = Annotated[
    str,
    typer.Option(help="Record only cudaProfilerApi, or nvtx:NAME[@DOMAIN].", rich_help_panel=_PROGRAM),
]
Delay = Annotated[int, typer.Option(min=0, help="Seconds before the recording.", rich_help_panel=_PROGRAM)]
Duration = Annotated[
    int, typer.Option(min=0, help="Seconds of the recording. 0: to the program's end.", rich_help_panel=_PROGRAM)
]
EndProgram = Annotated[
    bool, typer.Option("--end-program", help="End the program with the recording.", rich_help_panel=_PROGRAM)
]
Memory = Annotated[
    bool,
    typer.Option("--memory", help="Record which line allocated torch's memory.", rich_help_panel=_PROGRAM),
]
Stacks = Annotated[
    bool,
    typer.Option("--stacks", help="Take stacks: findings name lines of code.", rich_help_panel=_PROGRAM),
]
Attention = Annotated[
    bool,
    typer.Option("--attention", help="Record each call of attention as a range.", rich_help_panel=_PROGRAM),
]
SkipSteps = Annotated[
    int, typer.Option(min=0, help="Optimizer steps to leave out (--profiler torch).", rich_help_panel=_PROGRAM)
]
OptimizerSteps = Annotated[
    int, typer.Option(min=0, help="Optimizer steps to record (--profiler torch).", rich_help_panel=_PROGRAM)
]
Hold = Annotated[
    bool,
    typer.Option("--hold", help="Record nothing until `nsysprof record` asks.", rich_help_panel=_PROGRAM),
]
NsysOption = Annotated[
    list[str] | None,
    typer.Option(help="For nsys profile, e.g. --nsys-option=--sample=process-tree.", rich_help_panel=_PROGRAM),
]
Retry = Annotated[
    bool | None,
    typer.Option(
        "--retry/--no-retry",
        help="Record again with less where data was lost. Default: where the program took less than 120 s.",
        rich_help_panel=_PROGRAM,
        show_default=False,
    ),
]
Probe = Annotated[
    bool,
    typer.Option(
        "--probe/--no-probe", help="Try nsys' options once on this machine, with a GPU.", rich_help_panel=_PROGRAM
    ),
]
MeasureCost = Annotated[
    bool,
    typer.Option(
        "--measure-cost", help="What recording costs: by a second run, or while held.", rich_help_panel=_PROGRAM
    ),
]
Power = Annotated[
    bool,
    typer.Option("--power", help="Sample the energy that the GPUs use, by range.", rich_help_panel=_PROGRAM),
]
MaxSize = Annotated[
    float,
    typer.Option(
        help="Stop recording when nsys has written this (million bytes). 0: no limit.",
        rich_help_panel=_PROGRAM,
    ),
]
KeepReport = Annotated[
    bool, typer.Option("--keep-report/--no-keep-report", help="Keep nsys' own reports.", rich_help_panel=_PROGRAM)
]


def capture(
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
    profiler: Profiler = "auto",
    device: options.Device = "auto",
    samples: options.Samples = 50,
    sample_seconds: options.SampleSeconds = 3.0,
    warmup: Warmup = 10,
    traced_calls: TracedCalls = 10,
    case_timeout: options.CaseTimeout = 300.0,
    check: options.Check = True,
    gpu_metrics: GpuMetrics = False,
    gpu_metrics_frequency: GpuMetricsFrequency = 10_000,
    metrics: Metrics = "",
    section: Section = "",
    replay: Replay = "auto",
    count_kernels: CountKernels = 200,
    per_rank: PerRank = False,
    ranks: Ranks = "",
    trace: Trace = "cuda,nvtx",
    capture_range: CaptureRange = "none",
    delay: Delay = 0,
    duration: Duration = 0,
    end_program: EndProgram = False,
    memory: Memory = False,
    stacks: Stacks = False,
    attention: Attention = False,
    nsys_option: NsysOption = None,
    retry: Retry = None,
    probe: Probe = True,
    measure_cost: MeasureCost = False,
    power: Power = False,
    max_size: MaxSize = 0.0,
    keep_report: KeepReport = True,
    hold: Hold = False,
    skip_steps: SkipSteps = 0,
    optimizer_steps: OptimizerSteps = 0,
    nsys: options.Nsys = None,
    ncu: options.Ncu = None,
    out: Annotated[Path | None, options.out_option("Capture folder. Default: traces/DATE-TIME.")] = None,
    force: options.Force = False,
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Measure attention backends over a grid: untraced latency first, then launches and memory under a profiler.

    Latency and torch's peak memory come from the untraced pass; kernels, launches and copies from the traced one.
    With a PROGRAM: record it under nsys instead, in one trace or one a rank, and keep its output and exit status.
    """
    options.check_program_options(context, _FOR_BOTH, _FOR_PROGRAMS, is_program=bool(program))
    metrics_hz = gpu_metrics_frequency if gpu_metrics else 0
    if program:
        from nsysprof.app.measuring.program_request import ProgramRequest

        program_request = ProgramRequest(
            argv=tuple(program),
            per_rank=per_rank,
            ranks=parse_ranks(ranks),
            trace=trace,
            capture_range=capture_range,
            delay_s=delay,
            duration_s=duration,
            end_program=end_program,
            gpu_metrics_hz=metrics_hz,
            memory=memory,
            stacks=stacks,
            attention=attention,
            nsys_options=tuple(nsys_option or ()),
            retry=retry,
            probe=probe,
            measure_cost=measure_cost,
            power=power,
            max_bytes=int(max_size * 1e6),
            keep_report=keep_report,
            profiler=profiler,
            skip_steps=skip_steps,
            steps=optimizer_steps,
            stdout_to_stderr=as_json,
            nsys=nsys,
            out=out,
            force=force,
        )
        _capture_program(program_request, hold=hold, dry_run=dry_run, as_json=as_json)
        return
    from nsysprof.app.measuring import capture as use_case

    request = use_case.CaptureRequest(
        grid=options.parse_grid(backends, seq, batch, heads, kv_heads, head_dim, dtype, causal, pass_),
        profilers=options.parse_names(profiler),
        device=device,
        samples=samples,
        sample_seconds=sample_seconds,
        warmup=warmup,
        traced_calls=traced_calls,
        case_timeout_s=case_timeout,
        check=check,
        gpu_metrics_hz=metrics_hz,
        metrics=options.parse_names(metrics),
        sections=options.parse_names(section),
        replay=replay,
        count_kernels=count_kernels,
        nsys=nsys,
        ncu=ncu,
        out=out,
        force=force,
    )
    run_measurement(
        request, use_case.capture, print_plan=_print_plan, print_result=_print_result, dry_run=dry_run, as_json=as_json
    )


def _capture_program(request: ProgramRequest, *, hold: bool, dry_run: bool, as_json: bool) -> None:
    if hold:
        _hold_program(request, dry_run=dry_run, as_json=as_json)
        return
    from nsysprof.app.measuring.capture_program import capture_program, plan_program_capture
    from nsysprof.cli.terminal.program_output import end_with_program, print_program_plan, print_program_result
    from nsysprof.cli.terminal.progress import show_progress

    if dry_run:
        print_program_plan(plan_program_capture(request), as_json=as_json)
        return
    result = capture_program(request, show_progress(quiet=as_json))
    print_program_result(result, as_json=as_json)
    end_with_program(result)


def _hold_program(request: ProgramRequest, *, dry_run: bool, as_json: bool) -> None:
    from nsysprof.app.measuring.hold_program import hold_program, plan_hold
    from nsysprof.cli.terminal.program_output import end_with_held_program, print_hold_plan
    from nsysprof.cli.terminal.progress import show_progress

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
            f"  {name}  B={case.batch} H={case.heads}{_key_heads(case)} S={case.seq} D={case.head_dim} {case.dtype} "
            f"{'causal' if case.causal else 'full'} {case.pass_}"
        )


def _key_heads(case: Case) -> str:
    return "" if case.own_kv_heads is None else f" KV={case.kv_heads}"


def _print_result(result: CaptureResult, as_json: bool) -> None:
    """Print a line for each case, and where the capture lies."""
    manifest, folder = result.manifest, result.folder
    if as_json:
        print_json(result.to_json())
        return
    from nsysprof.cli.terminal.console import print_report
    from nsysprof.report.reports.analysis_report import capture_report

    report = capture_report(result.results, manifest.environment, manifest.notes)
    print_report(report)
    typer.echo(f"\ncapture in {folder}; next: nsysprof analyze {folder}")
