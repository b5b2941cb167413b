"""Analyze one trace: find the SQLite file behind an input, read it, and summarize it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysprof.app.inputs.reading_requests import AnalyzeRequest
from nsysprof.app.progress import Progress, Say
from nsysprof.app.trace_analysis.assemble import AnalysisOptions, Beside, assemble, summarize_opened
from nsysprof.attention.policy_file import read_policy
from nsysprof.errors import UsageError
from nsysprof.files.folder_state import ANALYSIS
from nsysprof.files.memory_reuse import return_freed_memory
from nsysprof.files.plain_file import name_after
from nsysprof.files.result_folder import claim_folder
from nsysprof.files.scratch_folder import scratch_folder
from nsysprof.report.document import Report
from nsysprof.report.write import analysis_json, write_analysis
from nsysprof.results.analysis import Analysis, CaptureRecord
from nsysprof.trace.inputs.resolve_input import resolve_input
from nsysprof.trace.open import open_trace


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
