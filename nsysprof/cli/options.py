"""Define each option that several commands have, so that it means the same everywhere."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer.models import OptionInfo

from nsysprof.attention.choices import BACKENDS, DTYPES, PASSES, PLUGINS
from nsysprof.errors import UsageError

if TYPE_CHECKING:
    from nsysprof.app.inputs.grid import Grid

GRID, MEASUREMENT, VERDICT, OUTPUT, TOOLS = "Grid", "Measurement", "Verdict", "Output", "NVIDIA's tools"
# The smallest value of time options where zero would measure nothing (s).
LEAST_SECONDS = 0.001

# The verdict on two sides.
FailOn = Annotated[
    str,
    typer.Option(
        help="Gate, such as slower:3%,step:3%,launches:+1,vram:+5%. Exit code 0 pass, 1 regression, 3 inconclusive.",
        rich_help_panel=VERDICT,
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="Smallest difference that matters (percent). Default: the limit of `slower` or `step` in --fail-on, or 3.",
        rich_help_panel=VERDICT,
    ),
]

# The grid. Lists are separated by commas.
Backends = Annotated[
    str,
    typer.Option(
        help=f"Backends: {', '.join((*BACKENDS, *PLUGINS))}, a registered one, or your own module:function.",
        rich_help_panel=GRID,
    ),
]
Seq = Annotated[str, typer.Option(help="Sequence lengths of q.", rich_help_panel=GRID)]
Batch = Annotated[str, typer.Option(help="Batch sizes.", rich_help_panel=GRID)]
Heads = Annotated[str, typer.Option(help="Head counts of q.", rich_help_panel=GRID)]
KvHeads = Annotated[
    str,
    typer.Option(
        help="Head counts of k and v, each a divisor of --heads. Default: as many as q.", rich_help_panel=GRID
    ),
]
HeadDim = Annotated[str, typer.Option(help="Head dimensions.", rich_help_panel=GRID)]
Dtype = Annotated[
    str,
    typer.Option(help=f"Dtypes: {', '.join(DTYPES)}. Default: fp16 on a GPU, fp32 on the CPU.", rich_help_panel=GRID),
]
Causal = Annotated[Literal["yes", "no", "both"], typer.Option(help="Whether the mask is causal.", rich_help_panel=GRID)]
Pass = Annotated[str, typer.Option("--pass", help=f"Passes: {', '.join(PASSES)}.", rich_help_panel=GRID)]

# The measurement.
Device = Annotated[Literal["auto", "cuda", "cpu"], typer.Option(help="Where to measure.", rich_help_panel=MEASUREMENT)]
Samples = Annotated[
    int, typer.Option(min=1, help="Maximum number of samples in a block of a case.", rich_help_panel=MEASUREMENT)
]
SampleSeconds = Annotated[
    float,
    typer.Option(
        min=LEAST_SECONDS, help="Take fewer samples if they take longer than this (s).", rich_help_panel=MEASUREMENT
    ),
]
WarmupSeconds = Annotated[
    float, typer.Option(min=0, help="Longest warm-up before each block (s).", rich_help_panel=MEASUREMENT)
]
Seed = Annotated[
    int | None,
    typer.Option(help="Seed for the order of the blocks. Default: random; it is printed.", rich_help_panel=MEASUREMENT),
]
Flush = Annotated[
    bool, typer.Option("--flush/--warm-l2", help="Empty the caches before each sample.", rich_help_panel=MEASUREMENT)
]
Check = Annotated[
    bool,
    typer.Option(help="Compare results with a float64 reference before timing.", rich_help_panel=MEASUREMENT),
]
CaseTimeout = Annotated[
    float,
    typer.Option(min=LEAST_SECONDS, help="Seconds after which a case is stopped.", rich_help_panel=MEASUREMENT),
]

POLICY_HELP = "A policy.json of tune: the attention backends that were measured to be faster."
Policy = Annotated[Path | None, typer.Option(help=POLICY_HELP)]

# What is measured of a program that runs on two sides.
KEEP_HELP = "Record part after part, and keep this many of the last."
MAX_RECORDING_HELP = "Stop recording when nsys has written this many megabytes (--max-size too). 0: no limit."
KEEP_REPORT_HELP = "Keep nsys' own reports."
STEP_PATTERN_HELP = (
    "A printed line that matches this regular expression ends a step; a group named s, ms, us or ns is its time."
)
_STEPS = "A program instead of the grid"
StepPattern = Annotated[
    str,
    typer.Option(help=STEP_PATTERN_HELP, rich_help_panel=_STEPS),
]
StepRange = Annotated[
    str,
    typer.Option(
        help="An NVTX range of torch that begins, and whose whole name matches this regular expression, ends a step.",
        rich_help_panel=_STEPS,
    ),
]
ValuePattern = Annotated[
    str,
    typer.Option(
        help="The first group of this regular expression is a value that both sides must share, e.g. the loss.",
        rich_help_panel=_STEPS,
    ),
]
ValueTolerance = Annotated[
    float, typer.Option(min=0, help="How much values may differ, in percent.", rich_help_panel=_STEPS)
]
WarmupSteps = Annotated[
    int, typer.Option(min=0, help="Number of steps at the beginning that do not count.", rich_help_panel=_STEPS)
]

Budget = Annotated[float, typer.Option(min=LEAST_SECONDS, help="Time limit in seconds.", rich_help_panel=MEASUREMENT)]
Processes = Annotated[int, typer.Option(min=1, help="Number of fresh processes.", rich_help_panel=MEASUREMENT)]

# NVIDIA's tools.
Nsys = Annotated[
    Path | None,
    typer.Option(help="The nsys to use. Default: NSYSPROF_NSYS, else the one found.", rich_help_panel=TOOLS),
]
Ncu = Annotated[
    Path | None,
    typer.Option(help="The ncu to use. Default: NSYSPROF_NCU, else the one found.", rich_help_panel=TOOLS),
]

# The output.
Resume = Annotated[bool, typer.Option("--resume", help="Continue with the results in --out.", rich_help_panel=OUTPUT)]
Force = Annotated[bool, typer.Option("--force", help="Replace an older result.", rich_help_panel=OUTPUT)]
Figures = Annotated[bool, typer.Option(help="Draw the figures.", rich_help_panel=OUTPUT)]
Database = Annotated[
    Path | None, typer.Option(help="Append the results to this SQLite database.", rich_help_panel=OUTPUT)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.", rich_help_panel=OUTPUT)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.", rich_help_panel=OUTPUT)]


def out_option(what: str) -> OptionInfo:
    """Return the option --out, -o of a command.

    what: its help: what is written there, and the default.
    """
    option: OptionInfo = typer.Option("--out", "-o", help=what, rich_help_panel=OUTPUT)
    return option


def is_given(context: typer.Context, name: str) -> bool:
    """Return whether the user typed an option, so that its value is not only the default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def check_program_options(
    context: typer.Context, for_both: tuple[str, ...], for_programs: tuple[str, ...], *, is_program: bool
) -> None:
    """Raise UsageError for an option of the grid with a program, or for an option of programs without one."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if not is_given(context, name) or name in for_both:
            continue
        if is_program and name not in for_programs:
            raise UsageError(
                f"{parameter.opts[0]} is an option of the grid, but a program was given.",
                "Leave it out; options of the program follow its name.",
            )
        if not is_program and name in for_programs:
            raise UsageError(f"{parameter.opts[0]} needs a program, and none was given.", "Add -- PROGRAM [ARGUMENTS].")


def parse_names(text: str) -> tuple[str, ...]:
    """Return the parts of a list separated by commas: `math, flash` -> ("math", "flash")."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_sizes(option: str, text: str) -> tuple[int, ...]:
    """Return the numbers in a list: `1024,2048` -> (1024, 2048). Raises UsageError for anything else."""
    sizes = []
    for part in parse_names(text):
        try:
            sizes.append(int(part))
        except ValueError:
            raise UsageError(
                f"{option} {part!r} is not an integer.", "Give positive integers, separated by commas."
            ) from None
    return tuple(sizes)


def parse_causal(value: Literal["yes", "no", "both"]) -> tuple[bool, ...]:
    """Return which masks to measure; True is a causal one."""
    return {"yes": (True,), "no": (False,), "both": (True, False)}[value]


def parse_grid(
    backends: str,
    seq: str,
    batch: str,
    heads: str,
    kv_heads: str,
    head_dim: str,
    dtype: str,
    causal: Literal["yes", "no", "both"],
    pass_: str,
) -> Grid:
    """Return the grid that the options name."""
    from nsysprof.app.inputs.grid import Grid

    return Grid(
        backends=parse_names(backends),
        seqs=parse_sizes("--seq", seq),
        batches=parse_sizes("--batch", batch),
        heads=parse_sizes("--heads", heads),
        kv_heads=parse_sizes("--kv-heads", kv_heads),
        head_dims=parse_sizes("--head-dim", head_dim),
        dtypes=parse_names(dtype),
        causals=parse_causal(causal),
        passes=parse_names(pass_),
    )


def command_line() -> str:
    """Return the command line that the user typed. Paths are reduced to their last part, because reports are shared."""
    arguments = [f"{argument[: argument.find('=') + 1]}{Path(argument).name}" if "/" in argument else argument
                 for argument in sys.argv[1:]]  # fmt: skip
    return shlex.join(["nsysprof", *arguments])


Attribution = Annotated[
    Literal["all", "launched"],
    typer.Option(
        help="Kernels that count for a range: all (also adopted from helper threads and captured into CUDA graphs), or "
        "launched (NVIDIA's numbers)."
    ),
]
