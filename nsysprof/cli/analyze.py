"""Define `nsysprof analyze`: turn a trace or capture folder into tables, figures and a report."""

from __future__ import annotations

from nsysprof.app.inputs.reading_requests import AnalyzeRequest
from nsysprof.cli import options
from nsysprof.cli.terminal import mark_saved, print_json, print_report, say, say_missing_figures, show_progress
from nsysprof.errors import DataLossError

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

    result = use_case.analyze(request, show_progress(quiet=as_json))
    mark_saved()
    say_missing_figures(request.figures and not as_json)
    if as_json:
        print_json({**result.to_json(), "folder": str(result.folder)})
    else:
        print_report(result.report)
        say(f"\n{len(result.files)} files in {result.folder}; read {result.folder / 'report.md'} first")
    from nsysprof.app.analyze import TraceResult

    if isinstance(result, TraceResult) and result.analysis.lost_kernels:
        raise DataLossError(
            "The profiler lost every kernel of this trace.", f"{result.folder / 'report.md'} has what is left, and why."
        )
