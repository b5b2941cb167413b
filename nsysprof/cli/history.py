"""Define `nsysprof history`: show how the latency of cases changed over the runs in a results database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsysprof.app.inputs.reading_requests import HistoryRequest
from nsysprof.cli import options
from nsysprof.cli.terminal import print_json, print_report, show_progress
from nsysprof.files.plain_file import json_value

if TYPE_CHECKING:
    from nsysprof.app.read_history import HistoryResult

EXAMPLES = (
    "nsysprof history results.db",
    "nsysprof history results.db --case 'flash S=4096'",
)


def history(request: HistoryRequest, as_json: options.Json = False) -> None:
    """Show how the latency of each case changed over the runs that --db collected.

    Changes are shown only between runs under the same conditions. `nsysprof view` shows the same with figures.
    """
    from nsysprof.app import read_history as use_case

    _print(use_case.history(request, show_progress(quiet=as_json)), as_json)


def _print(result: HistoryResult, as_json: bool) -> None:
    if as_json:
        print_json({"database": result.name, "cases": json_value(result.cases)})
        return
    from nsysprof.report.pages.history import history_report

    print_report(history_report(result.name, result.cases, {}))
