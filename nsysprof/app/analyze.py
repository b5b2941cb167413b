"""Run the use case `analyze`: turn one trace, or all ranks of a job, into tables, figures and a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysprof.app.inputs.reading_requests import AnalyzeRequest, is_snapshot
from nsysprof.app.progress import SILENT, Progress, Say
from nsysprof.app.trace_analysis.analyze_snapshot import SnapshotRequest, SnapshotResult, analyze_snapshot
from nsysprof.app.trace_analysis.assemble import AnalysisOptions, Beside, assemble, summarize_opened
from nsysprof.attention.policy_file import read_policy
from nsysprof.errors import UsageError
from nsysprof.files.folder_state import ANALYSIS
from nsysprof.files.memory_reuse import return_freed_memory
from nsysprof.files.plain_file import name_after, refuse_url, scratch_folder
from nsysprof.files.result_folder import claim_folder
from nsysprof.kernels.names import use_names
from nsysprof.ranks.identity import read_manifest_ranks
from nsysprof.report.document import Report
from nsysprof.report.write import analysis_json, write_analysis
from nsysprof.results.analysis import Analysis, CaptureRecord
from nsysprof.trace.inputs.bundle_file import is_bundle, unpack_bundle
from nsysprof.trace.inputs.resolve_input import FILES, TRACES, resolve_input
from nsysprof.trace.open import open_trace

if TYPE_CHECKING:
    from nsysprof.app.trace_analysis.analyze_ranks import RanksResult

__all__ = ["AnalyzeRequest", "analyze"]


def analyze_one(request: AnalyzeRequest, progress: Progress, *, timeline: bool = False) -> TraceResult:
    """Analyze one trace or capture, and write its tables, figures and report.

    timeline: whether the page has its timeline where no figures are drawn, too.
    """
    timeline = timeline or request.figures
    (source,) = request.inputs
    folder = request.out or Path("analysis") / name_after(source)
    if request.ncu is not None and request.counters is None:
        raise UsageError("--ncu is used to read --counters, which was not given.", "Give the report with --counters.")
    policy = None if request.policy is None else read_policy(request.policy)
    with claim_folder(folder, ANALYSIS, force=request.force) as claimed:
        with scratch_folder() as scratch:
            trace = resolve(source, request.nsys, scratch, progress.say)
            options = AnalysisOptions(
                request.launched_only, policy, request.unfold, request.counters, request.ncu, range=request.range,
                step=request.step, grids=timeline,
            )  # fmt: skip
            assembled = assemble(source, trace, options, progress.say)
            analysis, record = assembled.analysis, assembled.record

        return_freed_memory()
        files, report = write_analysis(
            analysis,
            record,
            claimed.path,
            figures=request.figures,
            timeline=timeline,
            svg=request.svg,
            progress=progress.say,
        )
        claimed.commit()
    return TraceResult(analysis, record, folder, claimed.final(files), report)


def analyze_trace(
    trace_path: Path,
    say: Say | None = None,
    identity: Path | None = None,
    *,
    beside: Beside | None = None,
    **options: Any,
) -> Analysis:
    """Return the analysis of one SQLite trace alone, without what may lie beside it.

    identity: the file that the user named (see open_trace).
    beside: see summarize_opened.
    options: the fields of AnalysisOptions.
    """
    with open_trace(trace_path, identity) as trace:
        trace.begin()
        return summarize_opened(trace, AnalysisOptions(**options), say, beside=beside)[0]


def resolve(source: Path, nsys: Path | None, scratch: Path, say: Say) -> Path:
    """Return the SQLite file of an input.

    nsys: the nsys that the user named, if any.
    scratch: a folder for what must be unpacked, exported or converted.
    """
    if source.suffix != ".sqlite":
        say(f"read {source.name}")
    return resolve_input(source, nsys, scratch)


@dataclass(frozen=True)
class TraceResult:
    """The analysis of one trace, the record of its capture (if it has one), the files that were written, the report."""

    analysis: Analysis
    record: CaptureRecord | None
    folder: Path
    files: tuple[Path, ...]
    report: Report

    def to_json(self) -> dict[str, Any]:
        """Return what `--json` prints, without the folder."""
        return analysis_json(self.analysis, self.record)


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
        # A job needs modules that take a twentieth of the time of a small trace.
        from nsysprof.app.trace_analysis.analyze_ranks import analyze_ranks

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
