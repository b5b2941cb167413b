"""Define each option that the requests of several use cases have, so that it means the same everywhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from nsysprof.app.inputs.option import ATTRIBUTION, MEGABYTES, NAMES, REPEATED, WORDS, Option
from nsysprof.results.samples import LEAST_BLOCKS

# With fewer blocks of its best backends, a tuning has barely begun to measure them.
LEAST_TUNING_BLOCKS = LEAST_BLOCKS
# The limits of recording a held program: the length of a recording (s), how long steps before and after it are watched
# (s), and how many parts are kept.
LONGEST_RECORDING_S = 24 * 3600.0
MOST_WATCHED_S = 3600.0
MOST_KEPT_PARTS = 10_000
# The smallest value of time options where zero would measure nothing (s).
LEAST_SECONDS = 0.001


GRID, MEASUREMENT, VERDICT, OUTPUT, TOOLS = "Grid", "Measurement", "Verdict", "Output", "NVIDIA's tools"
COUNTERS, PROGRAM, SIDES = "Hardware counters", "A program instead of the grid", "Two sides"

# The verdict on two sides.
FailOn = Annotated[
    str,
    Option(
        "Gate, such as slower:3%,step:3%,launches:+1,vram:+5%. Exit code 0 pass, 1 regression, 3 inconclusive.",
        panel=VERDICT,
    ),
]
Margin = Annotated[
    float | None,
    Option(
        "Smallest difference that matters (percent). Default: the limit of `slower` or `step` in --fail-on, or 3.",
        ("--margin",),
        VERDICT,
    ),
]
Attribution = Annotated[
    bool,
    Option(
        "Kernels that count for a range: all (also adopted from helper threads and captured into CUDA graphs), or "
        "launched (NVIDIA's numbers).",
        ("--attribution",),
        form=ATTRIBUTION,
    ),
]
KernelNames = Annotated[
    Path | None,
    Option(
        "A file of your own kernels: category, unit, backend and pattern, with tabs between them. It goes before what "
        "is known.",
    ),
]
Policy = Annotated[
    Path | None, Option("A policy.json of tune: the attention backends that were measured to be faster.")
]

BASELINE = Option(
    "Measure two sides in turn: settings NAME=VALUE and a Python, as after `env`; with a program, settings and a "
    "policy.json. Default: this Python in this environment.",
    panel=SIDES,
)
CANDIDATE = Option("The candidate side, written like --baseline.", panel=SIDES)

# The measurement.
Device = Annotated[Literal["auto", "cuda", "cpu"], Option("Where to measure.", panel=MEASUREMENT)]
Samples = Annotated[int, Option("Maximum number of samples in a block of a case.", panel=MEASUREMENT, min=1)]
SampleSeconds = Annotated[
    float, Option("Take fewer samples if they take longer than this (s).", panel=MEASUREMENT, min=LEAST_SECONDS)
]
WarmupSeconds = Annotated[float, Option("Longest warm-up before each block (s).", panel=MEASUREMENT, min=0)]
Seed = Annotated[
    int | None, Option("Seed for the order of the blocks. Default: random; it is printed.", panel=MEASUREMENT)
]
Flush = Annotated[bool, Option("Empty the caches before each sample.", ("--flush/--warm-l2",), MEASUREMENT)]
Check = Annotated[bool, Option("Compare results with a float64 reference before timing.", panel=MEASUREMENT)]
CaseTimeout = Annotated[
    float, Option("Seconds after which a case is stopped.", ("--case-timeout",), MEASUREMENT, min=LEAST_SECONDS)
]
Budget = Annotated[float, Option("Time limit in seconds.", ("--budget",), MEASUREMENT, min=LEAST_SECONDS)]
Processes = Annotated[int, Option("Number of fresh processes.", panel=MEASUREMENT, min=1)]

# How a program is recorded.
PROFILER = Option(
    "auto, nsys, torch or none; ',ncu' adds a pass that counts. For a program also cupti. auto: nsys if there is one "
    "and a GPU, else torch's own profiler.",
    ("--profiler",),
    MEASUREMENT,
)
Profilers = Annotated[tuple[str, ...], replace(PROFILER, form=NAMES)]
GpuMetrics = Annotated[bool, Option("Sample DRAM traffic under nsys.", ("--gpu-metrics",), COUNTERS)]
GpuMetricsFrequency = Annotated[int, Option("Samples a second.", panel=COUNTERS, min=10, max=200_000)]
STEP_PATTERN = Option(
    "A printed line that matches this regular expression ends a step; a group named s, ms, us or ns is its time."
)
KEEP = Option(
    "Record part after part, and keep this many of the last.", min=1, max=MOST_KEPT_PARTS, shows_default=False
)
MAX_RECORDING = Option(
    "Stop recording when nsys has written this many megabytes. 0: no limit.",
    ("--max-recording",),
    min=0,
    form=MEGABYTES,
    old_names=("--max-size",),
)
KEEP_REPORT = Option("Keep nsys' own reports.", ("--keep-report/--no-keep-report",))

# NVIDIA's tools.
Nsys = Annotated[Path | None, Option("The nsys to use. Default: NSYSPROF_NSYS, else the one found.", panel=TOOLS)]
Ncu = Annotated[Path | None, Option("The ncu to use. Default: NSYSPROF_NCU, else the one found.", panel=TOOLS)]

# The output.
Resume = Annotated[bool, Option("Continue with the results in --out.", ("--resume",), OUTPUT)]
Force = Annotated[bool, Option("Replace an older result.", ("--force",), OUTPUT)]
Figures = Annotated[bool, Option("Draw the figures.", panel=OUTPUT)]
Database = Annotated[Path | None, Option("Append the results to this SQLite database.", panel=OUTPUT)]


def out_option(what: str) -> Option:
    """Return the option --out, -o of a command.

    what: its help: what is written there, and the default.
    """
    return Option(what, ("--out", "-o"), OUTPUT)


def program_argument(what: str) -> Option:
    """Return the argument that is a program with its own arguments."""
    return Option(what, metavar="-- PROGRAM [ARGUMENTS]", form=WORDS, is_argument=True, shows_default=False)


def repeated_option(what: str, name: str, *, panel: str = "", metavar: str = "", bare: str = "") -> Option:
    """Return an option that may be given several times. bare: see Option."""
    return Option(what, (name,), panel, metavar, form=REPEATED, bare=bare)
