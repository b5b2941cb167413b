"""Define the request of the use case `analyze`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class AnalyzeRequest:
    """What to analyze, where to write it, and how.

    inputs: one trace, capture, bundle or folder of traces; several are the ranks of one job.
    out: the analysis folder; None chooses analysis/NAME.
    counters: what ncu counted in the same program (.ncu-rep, or its raw page as .csv).
    ncu: the ncu that reads the counters.
    launched_only: whether to leave out what ranges adopted or captured, in one trace.
    policy: a policy of tune, whose faster attention backends become findings of one trace.
    unfold: whether to show step0, step1, ... instead of step#.

    Only for several traces:

    workers: how many processes; None chooses their number by the size of the traces.
    scheduler: the address of a Dask scheduler; None for this machine alone.
    tls: the scheduler's certificate authority, our certificate and our key (PEM files); None for a scheduler without
        TLS.
    worker_memory: the memory of each process on this machine, such as 4GiB; auto for no limit.
    by_order: whether ranks are numbered by the order of the inputs.
    """

    inputs: tuple[Path, ...]
    out: Path | None = None
    force: bool = False
    figures: bool = True
    svg: bool = False
    nsys: Path | None = None
    counters: Path | None = None
    ncu: Path | None = None
    launched_only: bool = False
    policy: Path | None = None
    unfold: bool = False
    workers: int | None = None
    scheduler: str | None = None
    tls: tuple[Path | None, Path | None, Path | None] | None = None
    worker_memory: str = "auto"
    by_order: bool = False
