"""Define the request of the use case `analyze`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from nsysprof.app.inputs import options
from nsysprof.app.inputs.option import PATHS, Option

_RANKS = "Several traces"
_SNAPSHOTS = (".pickle", ".pkl")


def is_snapshot(path: Path) -> bool:
    """Return whether a path is a snapshot of torch's allocator, judged by its suffix."""
    return path.suffix in _SNAPSHOTS


@dataclass(frozen=True)
class AnalyzeRequest:
    """What to analyze, where to write it, and how.

    inputs: one trace, capture, bundle or folder of traces; several are the ranks of one job.
    out: the analysis folder; None chooses analysis/NAME.
    counters: what ncu counted in the same program (.ncu-rep, or its raw page as .csv).
    ncu: the ncu that reads the counters.
    launched_only: whether to leave out what ranges adopted or captured, in one trace.
    policy: a policy of tune, whose faster attention backends become findings of one trace.
    kernel_names: a file of the user's own kernels, in the form of nsysprof/kernels/kernels.tsv.
    range: the only range of one trace to read, by its path or its name; None for the whole trace.
    step: the only step of one trace to read; None for the whole trace.
    unfold: whether to show step0, step1, ... instead of step#.

    Only for several traces:

    workers: how many processes; None chooses their number by the size of the traces.
    scheduler: the address of a Dask scheduler; None for this machine alone.
    worker_memory: the memory of each process on this machine, such as 4GiB; auto for no limit.
    by_order: whether ranks are numbered by the order of the inputs.
    """

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
    unfold: Annotated[
        bool, Option("List counted ranges (step0, step1) separately instead of as step#.", ("--unfold",))
    ] = False
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
    by_order: Annotated[bool, Option("Number the ranks in the given order.", ("--by-order",), _RANKS)] = False
    launched_only: options.Attribution = False
    nsys: options.Nsys = None
    ncu: options.Ncu = None
    out: Annotated[Path | None, options.out_option("Analysis folder. Default: analysis/NAME.")] = None
    force: options.Force = False
    figures: options.Figures = True
    svg: Annotated[bool, Option("Also draw the figures as SVG.", panel=options.OUTPUT)] = False

    @property
    def tls(self) -> tuple[Path | None, Path | None, Path | None] | None:
        """Return the files for a scheduler at tls://; None where there are none."""
        files = (self.tls_ca_file, self.tls_cert, self.tls_key)
        return files if any(files) else None
