"""Define `nsysprof export`: write a trace for Perfetto, for Chrome's trace viewer, or as Parquet."""

from __future__ import annotations

from nsysprof.app.inputs.reading_requests import ExportRequest
from nsysprof.cli import options
from nsysprof.cli.terminal import mark_saved, print_json, say, show_progress
from nsysprof.files.memory_reuse import return_large_memory

EXAMPLES = (
    "nsysprof export trace.sqlite --perfetto trace.pftrace",
    "nsysprof export traces/20261121-093000 --chrome trace.json.gz --parquet tables",
)


def export(request: ExportRequest, as_json: options.Json = False) -> None:
    """Write the ranges, API calls, kernels, copies, memory and GPU metrics of a trace for other tools."""
    from nsysprof.app import export as use_case
    from nsysprof.report.formats.console import note_line

    if request.perfetto or request.chrome:  # one piece of a file after another; a table of Parquet has whole columns
        return_large_memory()
    result = use_case.export(request, show_progress(quiet=as_json))
    mark_saved()
    if as_json:
        formats = {each.format: {"path": str(each.path), "rows": each.rows} for each in result.written}
        print_json({"formats": formats, "notes": result.notes})
        return
    for each in result.written:
        told = ", ".join(f"{count:,} {what}" for what, count in sorted(each.rows.items()))
        say(f"{each.path}: {told or 'nothing'}")
    for note in result.notes:
        if note.severity != "info":
            say(note_line(note))
    if request.perfetto:
        say("open it in https://ui.perfetto.dev (nothing is uploaded) or with trace_processor")
