"""Analyze one trace: find the SQLite file behind an input, read it, and summarize it."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.app.progress import Progress, Say
from nsysprof.errors import UsageError
from nsysprof.files.folder_kinds import ANALYSIS
from nsysprof.files.folder_name import name_after
from nsysprof.files.result_folder import claim_folder

if TYPE_CHECKING:
    from nsysprof.app.trace_analysis.analyze_request import AnalyzeRequest
    from nsysprof.attention.policy_file import PolicyFile
    from nsysprof.report.document import Report
    from nsysprof.results.analysis import Analysis, CaptureRecord
    from nsysprof.results.findings import StackSamples
    from nsysprof.results.power_samples import GpuEnergy
    from nsysprof.trace.open import Trace

# In a smaller trace, two threads wait for each other longer than they work at the same time.
_LEAST_FOR_TWO_THREADS = 8 << 20


def analyze_one(request: AnalyzeRequest, progress: Progress) -> TraceResult:
    """Analyze one trace or capture, and write its tables, figures and report."""
    from nsysprof.app.trace_analysis.capture_record import read_record
    from nsysprof.app.trace_analysis.join_attention import join_attention
    from nsysprof.app.trace_analysis.join_counters import complete_analysis
    from nsysprof.app.trace_analysis.join_memory import join_memory
    from nsysprof.app.trace_analysis.join_recording_cost import join_recording_cost
    from nsysprof.app.trace_analysis.read_power import read_power
    from nsysprof.app.trace_analysis.read_stacks import read_stacks
    from nsysprof.attention.policy_file import read_policy
    from nsysprof.trace.inputs.resolve_input import identity_of
    from nsysprof.trace.open import open_trace

    (source,) = request.inputs
    folder = request.out or Path("analysis") / name_after(source)
    if request.ncu is not None and request.counters is None:
        raise UsageError("--ncu is used to read --counters, which was not given.", "Give the report with --counters.")
    policy = None if request.policy is None else read_policy(request.policy)
    with claim_folder(folder, ANALYSIS, force=request.force) as claimed:
        with tempfile.TemporaryDirectory(prefix="nsysprof-") as scratch:
            record = read_record(source) if source.is_dir() else None
            trace = resolve(source, request.nsys, Path(scratch), progress.say)
            with open_trace(trace, identity_of(source, trace)) as opened:
                opened.begin()  # while pandas loads
                analysis = _analyze_opened(
                    opened,
                    progress.say,
                    launched_only=request.launched_only,
                    policy=policy,
                    stacks=read_stacks(source, trace),
                    unfold=request.unfold,
                    power=read_power(source, trace),
                )
            analysis, record = complete_analysis(
                analysis, record, trace, folder=source, report=request.counters, ncu=request.ncu
            )
            analysis = join_attention(join_memory(analysis, source, trace), source)
            analysis = join_recording_cost(analysis, source, trace)
        from nsysprof.files.memory_reuse import return_freed_memory
        from nsysprof.report.write import write_analysis

        return_freed_memory()
        files, report = write_analysis(
            analysis, record, claimed.path, figures=request.figures, svg=request.svg, progress=progress.say
        )
        claimed.commit()
    return TraceResult(analysis, record, folder, claimed.final(files), report)


def analyze_trace(
    trace_path: Path,
    say: Say | None = None,
    identity: Path | None = None,
    *,
    launched_only: bool = False,
    policy: PolicyFile | None = None,
    stacks: StackSamples | None = None,
    unfold: bool = False,
    power: Sequence[GpuEnergy] = (),
) -> Analysis:
    """Read and summarize one SQLite trace.

    identity: the file that the user named (see open_trace).
    launched_only: whether to leave out what ranges adopted or captured.
    policy, stacks, unfold, power: see summarize.
    """
    from nsysprof.trace.open import open_trace

    with open_trace(trace_path, identity) as trace:
        trace.begin()
        return _analyze_opened(
            trace, say, launched_only=launched_only, policy=policy, stacks=stacks, unfold=unfold, power=power
        )


def _analyze_opened(
    trace: Trace,
    say: Say | None,
    *,
    launched_only: bool,
    policy: PolicyFile | None,
    stacks: StackSamples | None,
    unfold: bool,
    power: Sequence[GpuEnergy],
) -> Analysis:
    """Read and summarize an opened trace. The other arguments are those of summarize."""
    from nsysprof.analysis.overview.summarize import summarize
    from nsysprof.files.memory_reuse import return_freed_memory, reuse_in_pyarrow
    from nsysprof.trace.tables import read_tables

    reuse_in_pyarrow()
    return summarize(
        read_tables(trace, progress=say),
        launched_only=launched_only,
        policy=policy,
        stacks=stacks,
        unfold=unfold,
        power=power,
        alone=trace.one_thread or trace.bytes < _LEAST_FOR_TWO_THREADS,
        release=return_freed_memory if trace.is_large else lambda: None,
    )


def resolve(source: Path, nsys: Path | None, scratch: Path, say: Say) -> Path:
    """Return the SQLite file of an input.

    nsys: the nsys that the user named, if any.
    scratch: a folder for what must be unpacked, exported or converted.
    """
    from nsysprof.trace.inputs.resolve_input import resolve_input

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
