"""Define the requests of the commands that measure attention backends, with their options."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from nsysprof.app.inputs import options
from nsysprof.app.inputs.grid import (
    Backends,
    Batches,
    BatchSpecs,
    Causals,
    Dtypes,
    Grid,
    HeadDims,
    HeadDimV,
    Heads,
    KvDtype,
    KvHeads,
    KvSeqs,
    PageSize,
    Seqs,
    Sinks,
    Softcap,
    WindowSize,
)
from nsysprof.app.inputs.options import GRID, LEAST_TUNING_BLOCKS, NAMES, CaseTimeout, Device, Option, TypedForm
from nsysprof.capture.measured_process import HERE, Setting
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import VERSION

_ASK_SECONDS = 60.0
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class BenchRequest:
    """What to measure and how; the options say what each field is. Numbers are as in BenchPlan.

    command: the command line that the user typed, which the report repeats.
    """

    PANEL: ClassVar = options.MEASUREMENT
    grid: Grid = field(default_factory=Grid)
    processes: options.Processes = 3
    rounds: Annotated[int, Option("How often each process measures every case.", min=1)] = 5
    samples: options.BlockSamples = 10
    sample_seconds: options.SampleSeconds = 1.0
    warmup_seconds: options.WarmupSeconds = 1.0
    seed: options.Seed = None
    sustained: Annotated[bool, Option("Load the GPU before each block until its clock has settled.")] = False
    locked_clock_mhz: Annotated[
        int | None,
        Option(
            "Lock the SM clock at this frequency while measuring (needs root). It is released afterwards in any case.",
            ("--lock-clocks",),
            metavar="MHZ",
            min=1,
        ),
    ] = None
    flush: options.Flush = True
    graph: Annotated[
        Literal["auto", "always", "never"],
        Option("Also time CUDA graphs. auto: only the first block of a case in each process."),
    ] = "auto"
    check: options.Check = True
    allow_error: options.AllowError = 0.0
    device: options.Device = "auto"
    case_timeout_s: options.CaseTimeout = 300.0
    self_check: Annotated[bool, Option("Measure each case against itself, to find this machine's noise.")] = False
    copies: Annotated[int, Option("With --self-check: how often each case is measured.", min=2)] = 2
    out: Annotated[Path | None, options.out_option("Folder. Default: traces/bench-DATE-TIME.")] = None
    force: options.Force = False
    db: options.Database = None
    figures: options.Figures = True
    command: str = "nsysprof.bench(...)"


def parse_side(text: str) -> Setting:
    """Return the side that `text` describes: settings NAME=VALUE and at most one Python, as in a command of `env`.

    An empty text is this Python in this environment. Raises UsageError for anything else.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"'{text}' is not a valid side: {error}.", "Close the quotation.") from error
    found = [_ASSIGNMENT.fullmatch(word) for word in words]
    variables = tuple((match[1], match[2]) for match in found if match is not None)
    rest = [word for word, match in zip(words, found, strict=True) if match is None]
    if len(rest) > 1:
        raise UsageError(
            f"'{text}' is not a valid side: '{rest[0]}' and '{rest[1]}' are not settings.",
            "Give settings NAME=VALUE and at most one Python, such as A=1 /envs/mine/bin/python.",
        )
    return Setting(_find_python(rest[0]) if rest else sys.executable, variables)


def _find_python(name: str) -> str:
    """Return the path of a Python in which this version of nsysprof is installed. Raises UsageError for any other."""
    python = shutil.which(name)
    if python is None:
        raise UsageError(f"'{name}' is not a program.", "Give settings NAME=VALUE, or the path of a Python.")
    ask = "import nsysprof, torch; print(nsysprof.__version__)"
    try:
        done = subprocess.run(
            [python, "-c", ask], capture_output=True, text=True, errors="replace", timeout=_ASK_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{name} cannot be run as a Python: {error}.", "Give the path of a Python.") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1][:200]
        raise UsageError(f"{name} lacks nsysprof or torch: {last}", f"Install nsysprof {VERSION} and torch there.")
    if done.stdout.strip() != VERSION:
        raise UsageError(
            f"{name} has nsysprof {done.stdout.strip()[:40]}, and this is {VERSION}.",
            f"Install nsysprof {VERSION} there: both sides must be measured in the same way.",
        )
    return python


_SIDE = TypedForm(str, lambda text, _: parse_side(text), lambda _: "")


@dataclass(frozen=True)
class SidesRequest:
    """Two sides to measure in turn.

    bench: the grid and how to measure it; `processes` is the number of turns.
    until_decided: whether to take as many turns as decide every case (3 to 24) instead of `processes`.
    fail_on, margin_pct: as in CompareRequest.
    """

    bench: BenchRequest = field(default_factory=BenchRequest)
    baseline: Annotated[Setting, replace(options.BASELINE, form=_SIDE)] = HERE
    candidate: Annotated[Setting, replace(options.CANDIDATE, form=_SIDE)] = HERE
    fail_on: options.FailOn = ""
    margin_pct: options.Margin = None
    until_decided: bool = False


@dataclass(frozen=True)
class TuneRequest:
    """What to search and how; the options say what each field is.

    grid: without backends, those that suit the device.
    command: the command line that the user typed, which the report repeats.
    """

    PANEL: ClassVar = "Search"
    source: Annotated[
        Path | None,
        Option(
            "Tune the shapes of a program instead of a grid: give a capture with --attention, or its analysis.",
            ("--from",),
        ),
    ] = None
    grid: Grid = field(default_factory=lambda: Grid(backends=(), seqs=(128, 256, 512, 1024, 2048)))
    search: Annotated[
        Literal["grid", "axes"],
        Option("grid: every combination; axes: one dimension at a time, from the first value of each list."),
    ] = "grid"
    budget_s: options.Budget = 600.0
    blocks: Annotated[
        int, Option("Number of blocks of samples for the best backends of a shape.", min=LEAST_TUNING_BLOCKS)
    ] = 12
    samples: options.BlockSamples = 10
    warmup_seconds: options.WarmupSeconds = 0.5
    seed: options.Seed = None
    flush: options.Flush = True
    check: options.Check = True
    allow_error: options.AllowError = 0.0
    device: options.Device = "auto"
    case_timeout_s: options.CaseTimeout = 120.0
    out: Annotated[Path | None, options.out_option("Folder. Default: traces/tune-DATE-TIME.")] = None
    force: options.Force = False
    resume: options.Resume = False
    gpu_hour_price: Annotated[
        float | None,
        Option("Price of one GPU hour, to add what a million calls cost.", panel=options.OUTPUT, min=0),
    ] = None
    db: options.Database = None
    figures: options.Figures = True
    command: str = "nsysprof.tune(...)"


@dataclass(frozen=True)
class ExplainRequest:
    """The backends and shapes to ask about.

    backends: names, or `all`.
    causals: empty for a causal mask, unless there is another mask.
    """

    PANEL: ClassVar = GRID
    backends: Backends = ("all",)
    seqs: Seqs = (1024,)
    kv_seqs: KvSeqs = ()
    batches: Batches = (1,)
    heads: Heads = (8,)
    kv_heads: KvHeads = ()
    head_dims: HeadDims = (64,)
    dtypes: Dtypes = ()
    causals: Causals = ()
    mask: Annotated[
        Literal["none", "bool", "float", "learned"],
        Option("The type of an attn_mask, which replaces the causal mask. A learned one needs a gradient."),
    ] = "none"
    window: WindowSize = None
    batch_specs: BatchSpecs = ()
    head_dim_v: HeadDimV = 0
    softcap: Softcap = 0.0
    sinks: Sinks = False
    kv_dtype: KvDtype = "same"
    page_size: PageSize = 0
    dropout: Annotated[float, Option("Dropout probability, less than 1.", min=0, max=1)] = 0.0
    passes: Annotated[tuple[str, ...], Option("Passes: fwd, bwd.", ("--pass",), form=NAMES)] = ("fwd",)
    device: Device = "auto"
    case_timeout_s: CaseTimeout = 120.0


@dataclass(frozen=True)
class CaptureRequest:
    """What to measure and how."""

    PANEL: ClassVar = options.MEASUREMENT
    grid: Grid = field(default_factory=Grid)
    # With ncu, a separate pass counts each case.
    profilers: options.Profilers = ("auto",)
    device: options.Device = "auto"
    # At least ten samples are taken.
    samples: Annotated[int, Option("Maximum number of samples of a case.", min=1)] = 50
    sample_seconds: options.SampleSeconds = 3.0
    warmup: Annotated[
        int, Option("Number of warm-up calls of each case.", ("--warmup-calls",), min=0, old_names=("--warmup",))
    ] = 10
    traced_calls: Annotated[int, Option("Number of calls inside each case's NVTX range.", min=1)] = 10
    case_timeout_s: options.CaseTimeout = 300.0
    check: options.Check = True
    gpu_metrics: options.GpuMetrics = False
    gpu_metrics_frequency: options.GpuMetricsFrequency = 10_000
    metrics: Annotated[
        tuple[str, ...],
        Option("Additional metrics for ncu, e.g. smsp__inst_executed.sum.", panel=options.COUNTERS, form=NAMES),
    ] = ()
    sections: Annotated[
        tuple[str, ...],
        Option("Sections for ncu's own report, e.g. SpeedOfLight.", ("--section",), options.COUNTERS, form=NAMES),
    ] = ()
    replay: Annotated[
        Literal["auto", "kernel", "application"],
        Option(
            "How ncu repeats a kernel. auto: kernel, or application where memory is too small.", panel=options.COUNTERS
        ),
    ] = "auto"
    # The first kernels of a call are counted.
    count_kernels: Annotated[
        int, Option("Largest number of kernels of a call to count.", panel=options.COUNTERS, min=1)
    ] = 200
    nsys: options.Nsys = None
    ncu: options.Ncu = None
    out: Annotated[Path | None, options.out_option("Capture folder. Default: traces/DATE-TIME.")] = None
    force: options.Force = False

    @property
    def gpu_metrics_hz(self) -> int:
        """Return the rate at which DRAM traffic is sampled (Hz); 0: not at all."""
        return self.gpu_metrics_frequency if self.gpu_metrics else 0
