"""Define `nsysprof analyze`: turn a trace or capture folder into tables, figures and a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from nsysprof.app.trace_analysis.analyze_request import AnalyzeRequest
from nsysprof.cli import options
from nsysprof.cli.terminal.console import print_json, say_missing_figures
from nsysprof.errors import DataLossError

if TYPE_CHECKING:
    from nsysprof.app.trace_analysis.analyze_ranks import RanksResult
    from nsysprof.app.trace_analysis.analyze_snapshot import SnapshotResult
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult
    from nsysprof.report.document import Report

EXAMPLES = (
    "nsysprof analyze report.nsys-rep",
    "nsysprof analyze traces/20261121-093000 --out analysis/first --force",
    "nsysprof analyze trace.sqlite --range forward    # one range alone; --step 7: one step",
    "nsysprof analyze trace.sqlite --counters counters.ncu-rep",
    "nsysprof analyze job/ranks --workers 8    # all ranks of a job",
    "nsysprof analyze snapshot.pickle    # what owned torch's memory at its peak",
)


def analyze(
    request: AnalyzeRequest,
    as_json: options.Json = False,
) -> None:
    """Count launches, kernels, copies and peak memory in every NVTX range of a trace, or of all ranks of a job."""
    from nsysprof.app import analyze as use_case
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult
    from nsysprof.cli.terminal.progress import show_progress
    from nsysprof.cli.terminal.standard_streams import mark_saved

    result = use_case.analyze(request, show_progress(quiet=as_json))
    mark_saved()
    say_missing_figures(request.figures and not as_json)
    if as_json:
        print_json({**_to_json(result), "folder": str(result.folder)})
    else:
        _print(result)
    if isinstance(result, TraceResult) and result.analysis.lost_kernels:
        raise DataLossError(
            "The profiler lost every kernel of this trace.", f"{result.folder / 'report.md'} has what is left, and why."
        )


def _to_json(result: TraceResult | RanksResult | SnapshotResult) -> dict[str, Any]:
    from nsysprof.app.trace_analysis.analyze_snapshot import SnapshotResult
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult
    from nsysprof.report.pages.ranks import whole_ranks_json
    from nsysprof.report.write import analysis_json

    if isinstance(result, TraceResult):
        return analysis_json(result.analysis, result.record)
    return result.memory.to_json() if isinstance(result, SnapshotResult) else whole_ranks_json(result.analysis)


def _print(result: TraceResult | RanksResult | SnapshotResult) -> None:
    from nsysprof.cli.terminal.console import print_report

    print_report(_report(result))
    typer.echo(f"\n{len(result.files)} files in {result.folder}; read {result.folder / 'report.md'} first")


def _report(result: TraceResult | RanksResult | SnapshotResult) -> Report:
    """Return the report of a result. Only the modules of its kind are loaded."""
    from nsysprof.app.trace_analysis.analyze_trace import TraceResult

    if isinstance(result, TraceResult):
        return result.report
    from nsysprof.app.trace_analysis.analyze_snapshot import SnapshotResult

    if isinstance(result, SnapshotResult):
        from nsysprof.report.pages.memory import memory_report

        return memory_report(result.memory)
    from nsysprof.report.pages.ranks import ranks_report

    return ranks_report(result.analysis)
