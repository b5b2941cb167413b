"""Define `nsysprof whatif`: show how long the steps of a trace would take with some changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsysprof.app.inputs.reading_requests import WhatIfRequest
from nsysprof.cli import options
from nsysprof.cli.terminal import print_json, print_report, show_progress

if TYPE_CHECKING:
    from nsysprof.app.whatif import WhatIfResult

EXAMPLES = (
    "nsysprof whatif train.sqlite --pin-copies --no-sync all",
    "nsysprof whatif train.sqlite --no-sync optimizer --graph-launches",
    "nsysprof whatif train.sqlite --kernel softmax=0.5",
    "nsysprof whatif train.sqlite --launched-in attention::=0.8",
    "nsysprof whatif train.sqlite --policy policy.json",
    "nsysprof whatif job --like-peers 3    # a folder of ranks",
    "nsysprof whatif job --bucket-mb 25 --no-sync",
)


def whatif(request: WhatIfRequest, as_json: options.Json = False) -> None:
    """Replay the steps of a trace with changes, and show how long a step would take.

    Each change is replayed alone and all of them together; `nsysprof help causes` explains each change.
    """
    from nsysprof.app import whatif as use_case

    _print(use_case.what_if(request, show_progress(quiet=as_json)), as_json)


def _print(result: WhatIfResult, as_json: bool) -> None:
    found = result.found
    if as_json:
        print_json(found.to_json())
        return
    from nsysprof.report.pages.program import whatif_report

    print_report(whatif_report(found))
