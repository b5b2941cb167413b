"""Define the requests of the commands that read traces and results, with their options."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

from nsysprof.app.inputs import options
from nsysprof.app.inputs.options import MEGABYTES, PATHS, Option, TypedForm
from nsysprof.errors import UsageError

# The largest factor for a time.
MOST_FACTOR = 1000
# The smallest size (MB), and the most ranks of a projection.
LEAST_MB, MOST_MB, MOST_RANKS = 0.001, 1_000_000, 1_000_000
LEAST_SCALE, MOST_SCALE = 0.001, 1000


@dataclass(frozen=True)
class CompareRequest:
    """Two sides to compare, and how."""

    baseline: tuple[Path, ...] = ()
    candidate: tuple[Path, ...] = ()
    fail_on: options.FailOn = ""
    margin_pct: options.Margin = None
    floor_pct: Annotated[
        float | None,
        Option(
            "The machine's noise floor in percent, from bench --self-check. Default: estimated from the inputs.",
            ("--floor",),
            options.VERDICT,
        ),
    ] = None
    ignore_conditions: Annotated[
        bool,
        Option(
            "Compare even sides that were measured under different conditions, with a warning.", panel=options.VERDICT
        ),
    ] = False
    launched_only: options.Attribution = False
    nsys: options.Nsys = None
    out: Annotated[Path | None, options.out_option("Folder for report, tables and figure.")] = None
    force: options.Force = False
    markdown: Annotated[
        Path | None, Option("Write the report for a pull request to this file.", panel=options.OUTPUT)
    ] = None
    junit: Annotated[Path | None, Option("Write JUnit XML to this file.", panel=options.OUTPUT)] = None
    figures: options.Figures = True


@dataclass(frozen=True)
class ExportRequest:
    """A trace and where to write it: a file for Perfetto, a file for Chrome, a folder for Parquet."""

    source: Annotated[
        Path, Option("Any input that analyze accepts.", metavar="INPUT", is_argument=True, shows_default=False)
    ]
    perfetto: Annotated[
        Path | None, Option("Perfetto's protobuf, for ui.perfetto.dev: OUT.pftrace.", metavar="FILE")
    ] = None
    chrome: Annotated[
        Path | None, Option("Chrome's JSON as Kineto writes it: OUT.json or OUT.json.gz.", metavar="FILE")
    ] = None
    parquet: Annotated[Path | None, Option("A folder with one Parquet file for each table.", metavar="FOLDER")] = None
    nsys: options.Nsys = None
    force: options.Force = False


@dataclass(frozen=True)
class DemoRequest:
    """Where to write the demo's analysis, whether to replace an older one, and whether to draw figures.

    figures: the page has the step and the timeline without them, and the demo takes a third of the time.
    """

    out: Annotated[
        Path | None,
        options.out_option("Analysis folder. Default: nsysprof-demo, where an older demo is replaced."),
    ] = None
    force: options.Force = False
    figures: Annotated[bool, Option("Draw the figures.", ("--figures/--no-figures",), options.OUTPUT)] = False


class Change(StrEnum):
    """A change that applies wherever it can. Each would fix one kind of finding."""

    PIN_COPIES = "pin-copies"
    NO_ALLOC = "no-alloc"
    NO_HOST_WORK = "no-host-work"
    GRAPH_LAUNCHES = "graph-launches"
    FUSE_ATTENTION = "fuse-attention"
    FUSE_OPTIMIZER = "fuse-optimizer"
    NO_STREAM_WAITS = "no-stream-waits"


def factors_like(example: str) -> TypedForm:
    """Return how texts with factors are typed, such as softmax=0.5."""

    def read(texts: list[str] | None, flag: str) -> tuple[tuple[str, float], ...]:
        return tuple(_read_factor(text, flag, example) for text in texts or ())

    return TypedForm(list[str] | None, read, lambda pairs: [f"{text}={factor:g}" for text, factor in pairs] or None)


def _read_factor(text: str, flag: str, example: str) -> tuple[str, float]:
    name, _, factor = text.rpartition("=")
    try:
        value = float(factor)
    except ValueError:
        value = -1.0
    if not name or not 0 <= value <= MOST_FACTOR:
        raise UsageError(f"{flag} {text!r} is not a text with a factor.", f"Write for example {flag} {example}.")
    return name, value


@dataclass(frozen=True)
class WhatIfRequest:
    """A trace and what to change in it.

    no_sync: of a job, "all" leaves out reductions of gradients that no optimizer step needs.
    like_peers, bucket_mb, link_scale, ranks_count: these need a folder of ranks as the source.
    """

    PANEL: ClassVar = "Changes"
    source: Annotated[Path, Option("A trace or capture, or a folder of ranks.", metavar="TRACE", is_argument=True)]
    pin_copies: Annotated[bool, Option("Copy from pinned memory and asynchronously.")] = False
    no_sync: Annotated[
        tuple[str, ...],
        options.repeated_option(
            "Remove waits for the GPU in a range; all: everywhere. For a job: reduce gradients only before the "
            "optimizer's step.",
            "--no-sync",
            metavar="[RANGE]",
            bare="all",
        ),
    ] = ()
    no_alloc: Annotated[bool, Option("Allocate no memory in the loop.")] = False
    no_host_work: Annotated[bool, Option("Remove host work of 200 us and more.")] = False
    graph_launches: Annotated[bool, Option("Launch as cheaply as in a CUDA graph.")] = False
    fuse_attention: Annotated[bool, Option("Run attention as fused kernels.")] = False
    fuse_optimizer: Annotated[bool, Option("Run the optimizer as one kernel.")] = False
    no_stream_waits: Annotated[bool, Option("Let no stream wait for another one.")] = False
    kernels: Annotated[
        tuple[tuple[str, float], ...],
        Option(
            "Kernels whose names contain TEXT take FACTOR times as long.",
            ("--kernel",),
            metavar="TEXT=FACTOR",
            form=factors_like("softmax=0.5"),
        ),
    ] = ()
    ranges: Annotated[
        tuple[tuple[str, float], ...],
        Option(
            "Work launched in ranges whose names contain TEXT takes FACTOR times as long.",
            ("--launched-in",),
            metavar="TEXT=FACTOR",
            form=factors_like("attention::=0.5"),
        ),
    ] = ()
    policy: options.Policy = None
    like_peers: Annotated[
        int | None, Option("Let this rank of a job behave like the others.", metavar="RANK", min=0)
    ] = None
    bucket_mb: Annotated[
        float | None,
        Option("Send neighbouring messages of a job together, up to N MiB.", metavar="N", min=LEAST_MB, max=MOST_MB),
    ] = None
    link_scale: Annotated[
        float | None,
        Option("A link between the ranks that is X times as fast.", metavar="X", min=LEAST_SCALE, max=MOST_SCALE),
    ] = None
    ranks_count: Annotated[
        int | None,
        Option("A projection: the same work on each of N ranks.", ("--ranks",), metavar="N", min=2, max=MOST_RANKS),
    ] = None
    nsys: options.Nsys = None

    @property
    def changes(self) -> tuple[Change, ...]:
        """Return the changes that apply wherever they can."""
        return tuple(change for change in Change if getattr(self, change.replace("-", "_")))

    @property
    def changes_communication(self) -> bool:
        """Return whether there is a change that only a job can have."""
        return not (self.bucket_mb is None and self.link_scale is None and self.ranks_count is None)


@dataclass(frozen=True)
class BundleRequest:
    """What to share, and how much of it."""

    source: Annotated[
        Path,
        Option(
            "A capture, bench or tune folder, or any trace that analyze reads.",
            metavar="INPUT",
            is_argument=True,
            shows_default=False,
        ),
    ]
    out: Annotated[Path | None, options.out_option("The archive. Default: NAME.zip in this folder.")] = None
    force: options.Force = False
    keep_names: Annotated[bool, Option("Keep the names of your ranges, kernels and backends.")] = False
    ranges: Annotated[
        tuple[str, ...],
        options.repeated_option(
            "Share only what belongs to ranges with this name (* and ? are wildcards). May be repeated.",
            "--range",
            metavar="NAME",
        ),
    ] = ()
    max_bytes: Annotated[
        int,
        Option("Largest size of the archive in MB (a million bytes).", ("--max-size",), min=LEAST_MB, form=MEGABYTES),
    ] = 25_000_000
    show: Annotated[bool, Option("Print what would be shared, and write nothing.", panel=options.OUTPUT)] = False
    nsys: options.Nsys = None


@dataclass(frozen=True)
class ViewRequest:
    """What to view, and at which port of the loopback address."""

    sources: Annotated[
        tuple[Path, ...],
        Option(
            "Traces, captures, benches, result folders and databases, or folders of them.",
            metavar="TRACE...",
            form=PATHS,
            is_argument=True,
            shows_default=False,
        ),
    ]
    port: Annotated[int, Option("The port on 127.0.0.1. Default: any free port.", min=0, max=65535)] = 0
    nsys: options.Nsys = None
    figures: options.Figures = True


@dataclass(frozen=True)
class HistoryRequest:
    """A results database, and a text that the names of the wanted cases contain; empty for all cases."""

    database: Annotated[
        Path, Option("A database that bench --db and tune --db write to.", is_argument=True, shows_default=False)
    ]
    case: Annotated[str, Option("Show only cases whose names contain this text.")] = ""


_RANKS = "Several traces"
_SNAPSHOTS = (".pickle", ".pkl")


def is_snapshot(path: Path) -> bool:
    """Return whether a path is a snapshot of torch's allocator, judged by its suffix."""
    return path.suffix in _SNAPSHOTS


@dataclass(frozen=True)
class AnalyzeRequest:
    """What to analyze, where to write it, and how; the options say what each field is."""

    inputs: Annotated[
        tuple[Path, ...],
        Option(
            "A capture folder, a bundle (.zip), .sqlite (also .xz, .gz, .zst), .nsys-rep, .qdrep, a folder of nsys' "
            "Parquet files, torch.profiler's .json(.gz), or a .pickle of torch's allocator. Several: the ranks of one "
            "job.",
            metavar="INPUT...",
            form=PATHS,
            is_argument=True,
            shows_default=False,
        ),
    ]
    counters: Annotated[
        Path | None, Option("What ncu counted of the same program: a .ncu-rep, or its --page raw as .csv.")
    ] = None
    range: Annotated[
        str | None,
        Option("Read one range alone: a path of range_tree.csv, or a name as the table of ranges prints it."),
    ] = None
    step: Annotated[int | None, Option("Read one step alone, by its number in steps.csv.", min=0)] = None
    unfold: Annotated[bool, Option("List counted ranges (step0, step1) separately instead of as step#.")] = False
    policy: options.Policy = None
    kernel_names: options.KernelNames = None
    workers: Annotated[
        int | None, Option("Number of processes. Default: depends on the size of the traces.", panel=_RANKS, min=1)
    ] = None
    scheduler: Annotated[str | None, Option("The Dask scheduler of a cluster, tcp:// or tls://HOST.", panel=_RANKS)] = (
        None
    )
    tls_ca_file: Annotated[
        Path | None, Option("Certificate authority of a scheduler at tls:// (PEM).", panel=_RANKS)
    ] = None
    tls_cert: Annotated[
        Path | None, Option("Our client certificate for a scheduler at tls:// (PEM).", panel=_RANKS)
    ] = None
    tls_key: Annotated[Path | None, Option("Our private key for a scheduler at tls:// (PEM).", panel=_RANKS)] = None
    worker_memory: Annotated[str, Option("Memory of each process of --workers, such as 4GiB.", panel=_RANKS)] = "auto"
    by_order: Annotated[bool, Option("Number the ranks in the given order.", panel=_RANKS)] = False
    launched_only: options.Attribution = False
    nsys: options.Nsys = None
    ncu: options.Ncu = None
    out: Annotated[Path | None, options.out_option("Analysis folder. Default: analysis/NAME.")] = None
    force: options.Force = False
    figures: options.Figures = True
    svg: Annotated[bool, Option("Also draw the figures as SVG.", ("--svg/--no-svg",), options.OUTPUT)] = False

    @property
    def tls(self) -> tuple[Path | None, Path | None, Path | None] | None:
        """Return the files for a scheduler at tls://; None where there are none."""
        files = (self.tls_ca_file, self.tls_cert, self.tls_key)
        return files if any(files) else None
