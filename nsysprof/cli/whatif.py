"""Define `nsysprof whatif`: show how long the steps of a trace would take with some changes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsysprof.cli import options
from nsysprof.cli.terminal.console import print_json
from nsysprof.errors import UsageError

if TYPE_CHECKING:
    from nsysprof.app.whatif import WhatIfResult

EXAMPLES = (
    "nsysprof whatif train.sqlite --pin-copies --no-sync all",
    "nsysprof whatif train.sqlite --no-sync optimizer --graph-launches",
    "nsysprof whatif train.sqlite --kernel softmax=0.5",
    "nsysprof whatif train.sqlite --launched-in attention::=0.8",
    "nsysprof whatif train.sqlite --policy policy.json",
    "nsysprof whatif job --like-peers 3    # a folder of ranks",
)
_CHANGES = "Changes"

Source = Annotated[Path, typer.Argument(metavar="TRACE", help="A trace or capture, or a folder of ranks.")]
PinCopies = Annotated[
    bool, typer.Option("--pin-copies", help="Copy from pinned memory and asynchronously.", rich_help_panel=_CHANGES)
]
NoSync = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RANGE", help="Remove waits for the GPU in a range; all: everywhere.", rich_help_panel=_CHANGES
    ),
]
NoAlloc = Annotated[bool, typer.Option("--no-alloc", help="Allocate no memory in the loop.", rich_help_panel=_CHANGES)]
NoHostWork = Annotated[
    bool,
    typer.Option("--no-host-work", help="Remove host work of 200 us and more.", rich_help_panel=_CHANGES),
]
GraphLaunches = Annotated[
    bool, typer.Option("--graph-launches", help="Launch as cheaply as in a CUDA graph.", rich_help_panel=_CHANGES)
]
FuseAttention = Annotated[
    bool, typer.Option("--fuse-attention", help="Run attention as fused kernels.", rich_help_panel=_CHANGES)
]
FuseOptimizer = Annotated[
    bool, typer.Option("--fuse-optimizer", help="Run the optimizer as one kernel.", rich_help_panel=_CHANGES)
]
NoStreamWaits = Annotated[
    bool, typer.Option("--no-stream-waits", help="Let no stream wait for another one.", rich_help_panel=_CHANGES)
]
LikePeers = Annotated[
    int | None,
    typer.Option(
        metavar="RANK", min=0, help="Let this rank of a job behave like the others.", rich_help_panel=_CHANGES
    ),
]
Kernel = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT=FACTOR",
        help="Kernels whose names contain TEXT take FACTOR times as long.",
        rich_help_panel=_CHANGES,
    ),
]
LaunchedIn = Annotated[
    list[str] | None,
    typer.Option(
        "--launched-in",
        metavar="TEXT=FACTOR",
        help="Work launched in ranges whose names contain TEXT takes FACTOR times as long.",
        rich_help_panel=_CHANGES,
    ),
]


def whatif(
    source: Source,
    pin_copies: PinCopies = False,
    no_sync: NoSync = None,
    no_alloc: NoAlloc = False,
    no_host_work: NoHostWork = False,
    graph_launches: GraphLaunches = False,
    fuse_attention: FuseAttention = False,
    fuse_optimizer: FuseOptimizer = False,
    no_stream_waits: NoStreamWaits = False,
    kernel: Kernel = None,
    launched_in: LaunchedIn = None,
    policy: options.Policy = None,
    like_peers: LikePeers = None,
    nsys: options.Nsys = None,
    as_json: options.Json = False,
) -> None:
    """Replay the steps of a trace with changes, and show how long a step would take.

    Each change is replayed alone and all of them together; docs/causes.md explains each change.
    """
    from nsysprof.app import whatif as use_case
    from nsysprof.cli.terminal.progress import show_progress

    change = use_case.Change
    wanted = {
        change.PIN_COPIES: pin_copies, change.NO_ALLOC: no_alloc, change.NO_HOST_WORK: no_host_work,
        change.GRAPH_LAUNCHES: graph_launches, change.FUSE_ATTENTION: fuse_attention,
        change.FUSE_OPTIMIZER: fuse_optimizer, change.NO_STREAM_WAITS: no_stream_waits,
    }  # fmt: skip
    request = use_case.WhatIfRequest(
        source=source,
        changes=tuple(each for each, is_wanted in wanted.items() if is_wanted),
        no_sync=tuple(no_sync or ()),
        kernels=tuple(_parse_factor("--kernel", "softmax", text) for text in kernel or ()),
        ranges=tuple(_parse_factor("--launched-in", "attention::", text) for text in launched_in or ()),
        nsys=nsys,
        policy=policy,
        like_peers=like_peers,
    )
    _print(use_case.what_if(request, show_progress(quiet=as_json)), as_json)


def _parse_factor(option: str, example: str, text: str) -> tuple[str, float]:
    name, _, factor = text.rpartition("=")
    try:
        value = float(factor)
    except ValueError:
        value = -1.0
    if not name or not 0 <= value <= 1000:
        raise UsageError(
            f"{option} {text!r} is not a text with a factor.", f"Write for example {option} {example}=0.5."
        )
    return name, value


def _print(result: WhatIfResult, as_json: bool) -> None:
    found = result.found
    if as_json:
        print_json(found.to_json())
        return
    from nsysprof.cli.terminal.console import print_report
    from nsysprof.report.pages.whatif import whatif_report

    print_report(whatif_report(found))
