"""Define the options of `nsysprof capture` that no other command has."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from nsysprof.app.inputs.request_limits import MOST_KEPT_PARTS
from nsysprof.cli import options

_COUNTERS, _PROGRAM = "Hardware counters", "A program instead of the grid"

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
        help="auto, nsys, torch or none; ',ncu' adds a pass that counts. For a program also cupti. auto: nsys if there "
        "is one and a GPU, else torch's own profiler.",
        rich_help_panel=options.MEASUREMENT,
    ),
]
Warmup = Annotated[
    int, typer.Option(min=0, help="Number of warm-up calls of each case.", rich_help_panel=options.MEASUREMENT)
]
TracedCalls = Annotated[
    int, typer.Option(min=1, help="Number of calls inside each case's NVTX range.", rich_help_panel=options.MEASUREMENT)
]
GpuMetrics = Annotated[
    bool, typer.Option("--gpu-metrics", help="Sample DRAM traffic under nsys.", rich_help_panel=_COUNTERS)
]
GpuMetricsFrequency = Annotated[
    int, typer.Option(min=10, max=200_000, help="Samples a second.", rich_help_panel=_COUNTERS)
]
Metrics = Annotated[
    str, typer.Option(help="Additional metrics for ncu, e.g. smsp__inst_executed.sum.", rich_help_panel=_COUNTERS)
]
Section = Annotated[
    str, typer.Option(help="Sections for ncu's own report, e.g. SpeedOfLight.", rich_help_panel=_COUNTERS)
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
    typer.Option(
        "--per-rank", help="Record each worker of torchrun or accelerate in its own trace.", rich_help_panel=_PROGRAM
    ),
]
Ranks = Annotated[str, typer.Option(help="Record only these ranks, e.g. 0,8-11.", rich_help_panel=_PROGRAM)]
Trace = Annotated[str, typer.Option(help="The APIs for nsys to record.", rich_help_panel=_PROGRAM)]
CaptureRange = Annotated[
    str,
    typer.Option(help="Record only cudaProfilerApi, or nvtx:NAME[@DOMAIN].", rich_help_panel=_PROGRAM),
]
Delay = Annotated[int, typer.Option(min=0, help="Seconds before the recording.", rich_help_panel=_PROGRAM)]
Duration = Annotated[
    int,
    typer.Option(min=0, help="Length of the recording in seconds. 0: to the program's end.", rich_help_panel=_PROGRAM),
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
    typer.Option("--stacks", help="Sample stacks, so that findings name lines of code.", rich_help_panel=_PROGRAM),
]
Attention = Annotated[
    bool,
    typer.Option("--attention", help="Record each call of attention as a range.", rich_help_panel=_PROGRAM),
]
SkipSteps = Annotated[int, typer.Option(min=0, help="Steps to skip (--profiler torch).", rich_help_panel=_PROGRAM)]
OptimizerSteps = Annotated[
    int, typer.Option(min=0, help="Optimizer steps to record (--profiler torch).", rich_help_panel=_PROGRAM)
]
ForwardSteps = Annotated[
    int,
    typer.Option(min=0, help="Calls of the outermost module to record (--profiler torch).", rich_help_panel=_PROGRAM),
]
Hold = Annotated[
    bool,
    typer.Option("--hold", help="Record only when `nsysprof record` asks for it.", rich_help_panel=_PROGRAM),
]
Keep = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_KEPT_PARTS, help=options.KEEP_HELP, rich_help_panel=_PROGRAM, show_default=False),
]
NsysOption = Annotated[
    list[str] | None,
    typer.Option(
        help="An option for nsys profile, e.g. --nsys-option=--sample=process-tree.", rich_help_panel=_PROGRAM
    ),
]
Retry = Annotated[
    bool | None,
    typer.Option(
        "--retry/--no-retry",
        help="Record again with fewer options if data was lost. Default: if the program took less than 120 s.",
        rich_help_panel=_PROGRAM,
        show_default=False,
    ),
]
Probe = Annotated[
    bool,
    typer.Option(
        "--probe/--no-probe",
        help="Try nsys' options out once on this machine, if it has a GPU.",
        rich_help_panel=_PROGRAM,
    ),
]
MeasureCost = Annotated[
    bool,
    typer.Option(
        "--measure-cost",
        help="Measure what recording costs, by a second run or while the program is held.",
        rich_help_panel=_PROGRAM,
    ),
]
Power = Annotated[
    bool,
    typer.Option("--power", help="Sample the energy that GPUs use, for each range.", rich_help_panel=_PROGRAM),
]
MaxRecording = Annotated[
    float,
    typer.Option(
        "--max-recording",
        "--max-size",
        min=0,
        help=options.MAX_RECORDING_HELP,
        rich_help_panel=_PROGRAM,
    ),
]
KeepReport = Annotated[
    bool, typer.Option("--keep-report/--no-keep-report", help=options.KEEP_REPORT_HELP, rich_help_panel=_PROGRAM)
]
