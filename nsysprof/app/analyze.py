"""Run the use case `analyze`: turn one trace, or all ranks of a job, into tables, figures and a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nsysprof.app.inputs.reading_requests import AnalyzeRequest, is_snapshot
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.trace_analysis.analyze_ranks import RanksResult, analyze_ranks
from nsysprof.app.trace_analysis.analyze_snapshot import SnapshotRequest, SnapshotResult, analyze_snapshot
from nsysprof.app.trace_analysis.analyze_trace import TraceResult, analyze_one
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import name_after, refuse_url
from nsysprof.files.scratch_folder import scratch_folder
from nsysprof.kernels.names import use_names
from nsysprof.ranks.identity import read_manifest_ranks
from nsysprof.trace.inputs.bundle_file import is_bundle, unpack_bundle
from nsysprof.trace.inputs.resolve_input import FILES, TRACES

__all__ = ["AnalyzeRequest", "analyze"]


def analyze(request: AnalyzeRequest, progress: Progress = SILENT) -> TraceResult | RanksResult | SnapshotResult:
    """Analyze the traces that the request names, and write the analysis folder."""
    with use_names(request.kernel_names):
        return _analyze(request, progress)


def _analyze(request: AnalyzeRequest, progress: Progress) -> TraceResult | RanksResult | SnapshotResult:
    inputs, out = request.inputs, request.out
    if not inputs:
        raise UsageError("There is nothing to analyze.", "Name a trace or a capture folder.")
    for source in inputs:
        refuse_url(source)
    name = name_after(inputs[0])
    if any(is_snapshot(source) for source in inputs):
        if len(inputs) > 1:
            raise UsageError(
                "A memory snapshot must be the only input.", "To compare two snapshots: nsysprof compare BEFORE AFTER."
            )
        if request.range is not None or request.step is not None:
            raise UsageError("--range and --step need a trace, and this is a memory snapshot.", "Leave them out.")
        snapshot = SnapshotRequest(inputs[0], out or Path("analysis") / name, request.force, request.figures)
        return analyze_snapshot(snapshot, progress)
    with scratch_folder() as scratch:
        ranks_out = out
        if len(inputs) == 1 and is_bundle(inputs[0]):
            progress.say(f"unpack {inputs[0].name}")
            inputs = (unpack_bundle(inputs[0], scratch),)
            ranks_out = out or Path("analysis") / f"{name}-ranks"
        if not is_many(inputs):
            return analyze_one(replace(request, inputs=inputs, out=out or Path("analysis") / name), progress)
        of_one = (request.counters, request.ncu, request.policy, request.range, request.step)
        if any(value is not None for value in of_one):
            raise UsageError(
                "--counters, --ncu, --policy, --range and --step need a single trace, and several were given.",
                "Give only the trace that they belong to.",
            )
        return analyze_ranks(replace(request, inputs=inputs, out=ranks_out), progress)


def is_many(inputs: Sequence[Path]) -> bool:
    """Return whether there are several traces: several inputs, or a folder of several."""
    if len(inputs) > 1:
        return True
    if not inputs[0].is_dir():
        return False
    if read_manifest_ranks(inputs[0]):
        return True
    try:
        names = [path.name for path in inputs[0].iterdir()]
    except OSError:
        return False
    if any(name.startswith(TRACES) for name in names):
        return False
    return sum(name.endswith((*FILES, ".nsys-rep")) for name in names) > 1
