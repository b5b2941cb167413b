"""Run the use case `analyze`: turn one trace, or all ranks of a job, into tables, figures and a report."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.app.inputs.refuse_url import refuse_url
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.trace_analysis.analyze_trace import TraceRequest, TraceResult, analyze_one, default_name
from nsysprof.errors import UsageError

if TYPE_CHECKING:
    from nsysprof.app.trace_analysis.analyze_ranks import RanksResult
    from nsysprof.app.trace_analysis.analyze_snapshot import SnapshotResult


def analyze(request: AnalyzeRequest, progress: Progress = SILENT) -> TraceResult | RanksResult | SnapshotResult:
    """Analyze what the request names, and write the analysis folder."""
    from nsysprof.app.trace_analysis.analyze_ranks import RanksRequest, analyze_ranks, is_many
    from nsysprof.app.trace_analysis.analyze_snapshot import SnapshotRequest, analyze_snapshot, is_snapshot
    from nsysprof.trace.inputs.bundle_file import is_bundle, unpack_bundle

    inputs, out = request.inputs, request.out
    if not inputs:
        raise UsageError("There is nothing to analyze.", "Name a trace or a capture folder.")
    for source in inputs:
        refuse_url(source)
    name = default_name(inputs[0])
    if any(is_snapshot(source) for source in inputs):
        if len(inputs) > 1:
            raise UsageError("A snapshot of memory is analyzed alone.", "Compare two: nsysprof compare BEFORE AFTER.")
        snapshot = SnapshotRequest(inputs[0], out or Path("analysis") / name, request.force, request.figures)
        return analyze_snapshot(snapshot, progress)
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
        ranks_out = out
        if len(inputs) == 1 and is_bundle(inputs[0]):
            progress.say(f"unpack {inputs[0].name}")
            inputs = (unpack_bundle(inputs[0], Path(scratch)),)
            ranks_out = out or Path("analysis") / f"{name}-ranks"
        if not is_many(inputs):
            one = TraceRequest(
                source=inputs[0],
                out=out or Path("analysis") / name,
                force=request.force,
                figures=request.figures,
                svg=request.svg,
                nsys=request.nsys,
                counters=request.counters,
                ncu=request.ncu,
                launched_only=request.launched_only,
                policy=request.policy,
                unfold=request.unfold,
            )
            return analyze_one(one, progress)
        if request.counters is not None or request.ncu is not None or request.policy is not None:
            raise UsageError(
                "--counters, --ncu and --policy are for one trace, and several were given.", "Analyze that trace alone."
            )
        many = RanksRequest(
            inputs=inputs,
            out=ranks_out,
            force=request.force,
            figures=request.figures,
            svg=request.svg,
            nsys=request.nsys,
            workers=request.workers,
            scheduler=request.scheduler,
            tls=request.tls,
            worker_memory=request.worker_memory,
            by_order=request.by_order,
        )
        return analyze_ranks(many, progress)


@dataclass(frozen=True)
class AnalyzeRequest:
    """What to analyze, where to write it, and how.

    inputs: one trace, capture, bundle or folder of traces; several are the ranks of one job.
    out: the analysis folder; None chooses analysis/NAME.
    counters: what ncu counted of the same program (.ncu-rep, or its raw page as .csv).
    ncu: the ncu that reads the counters.
    launched_only: leave out what ranges adopted or captured, in one trace.
    policy: a policy of tune, whose faster attention backends are findings of one trace.
    unfold: show step0, step1, ... of one trace instead of step#.
    workers, scheduler, tls, worker_memory, by_order: only for several traces; see RanksRequest.
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
