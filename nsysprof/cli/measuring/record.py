"""Define `nsysprof record`: record a part of a running program that is held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from nsysprof.app.inputs.options import KEEP
from nsysprof.app.measuring.program_request import RecordRequest
from nsysprof.cli import options
from nsysprof.cli.terminal import mark_saved, print_json, print_report, show_progress

if TYPE_CHECKING:
    from nsysprof.app.measuring.record import RecordResult

EXAMPLES = (
    "nsysprof record --duration 10    # of the only program that `capture --hold` runs",
    "nsysprof record traces/server --steps 50 --step-pattern 'Decode batch'    # lines that the program prints",
    "nsysprof record --duration 30 --keep 10    # again and again until Ctrl-C; the last ten parts are kept",
    "nsysprof record --max-recording 500 --keep 4 --no-keep-report    # parts of 500 MB",
)


def record(request: RecordRequest, keep: Annotated[int | None, KEEP] = None, as_json: options.Json = False) -> None:
    """Record a part of a running program that was started with `nsysprof capture --hold -- PROGRAM`.

    The program continues. Each recording is a separate capture in the program's folder: recording-1, recording-2.
    """
    from nsysprof.app.measuring import record as use_case
    from nsysprof.app.measuring.record import record_windows

    progress = show_progress(quiet=as_json)
    if keep is not None:
        failure = record_windows(request, keep, lambda result: _show(result, as_json=as_json), progress)
    else:
        result = use_case.record(request, progress)
        mark_saved()
        _show(result, as_json=as_json)
        failure = result.failure
    if failure is not None:
        raise failure


def _show(result: RecordResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result.to_json())
    else:
        _print(result)


def _print(result: RecordResult) -> None:
    from nsysprof.report.pages.recording import recording_report

    print_report(recording_report(result))
    typer.echo(f"recording in {result.folder}; next: nsysprof analyze {result.folder}")
