"""Define `nsysprof explain`: show which backends accept a shape, why others do not, and what really runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from nsysprof.cli import options
from nsysprof.cli.terminal.console import print_json
from nsysprof.files.json_file import json_value

if TYPE_CHECKING:
    from nsysprof.app.explain import ExplainResult
    from nsysprof.attention.attention_call import AttentionCall
    from nsysprof.attention.eligibility import EligibilityAnswer

EXAMPLES = (
    "nsysprof explain --seq 16 --head-dim 8192",
    "nsysprof explain --backends flash,cudnn --dtype bf16 --kv-heads 2 --pass bwd",
    "nsysprof explain --backends mine --device cpu    # a backend that an installed package registers",
)
_FORMAT_VERSION = 1

KvSeq = Annotated[
    str, typer.Option(help="Sequence lengths of k and v. Default: the lengths of q.", rich_help_panel=options.GRID)
]
Mask = Annotated[
    Literal["none", "bool", "float", "learned"],
    typer.Option(
        help="The type of an attn_mask, which replaces the causal mask. A learned one needs a gradient.",
        rich_help_panel=options.GRID,
    ),
]
Dropout = Annotated[
    float, typer.Option(min=0, max=1, help="Dropout probability, less than 1.", rich_help_panel=options.GRID)
]
Pass = Annotated[str, typer.Option("--pass", help="Passes: fwd, bwd.", rich_help_panel=options.GRID)]


def explain(
    context: typer.Context,
    backends: options.Backends = "all",
    seq: options.Seq = "1024",
    kv_seq: KvSeq = "",
    batch: options.Batch = "1",
    heads: options.Heads = "8",
    kv_heads: options.KvHeads = "",
    head_dim: options.HeadDim = "64",
    dtype: options.Dtype = "",
    causal: options.Causal = "yes",
    mask: Mask = "none",
    dropout: Dropout = 0.0,
    pass_: Pass = "fwd",
    device: options.Device = "auto",
    case_timeout: options.CaseTimeout = 120.0,
    as_json: options.Json = False,
) -> None:
    """Say which backends can run a shape, why the others cannot, and which one really ran.

    Asks torch's own checks, one backend at a time, and looks at the kernels that one call launches. --backends all asks
    about torch's own backends and naive.
    """
    from nsysprof.app import explain as use_case

    request = use_case.ExplainRequest(
        backends=options.parse_names(backends),
        seqs=options.parse_sizes("--seq", seq),
        kv_seqs=options.parse_sizes("--kv-seq", kv_seq),
        batches=options.parse_sizes("--batch", batch),
        heads=options.parse_sizes("--heads", heads),
        kv_heads=options.parse_sizes("--kv-heads", kv_heads),
        head_dims=options.parse_sizes("--head-dim", head_dim),
        dtypes=options.parse_names(dtype),
        causals=options.parse_causal(causal) if options.is_given(context, "causal") else (),
        mask=mask,
        dropout=dropout,
        passes=options.parse_names(pass_),
        device=device,
        case_timeout_s=case_timeout,
    )
    result = use_case.explain(request)
    _print(result, as_json)
    if result.failure is not None:
        raise result.failure


def _print(result: ExplainResult, as_json: bool) -> None:
    if as_json:
        shapes = [
            {"call": json_value(call), "backends": [_to_json(call, each) for each in answers]}
            for call, answers in result.blocks
        ]
        data = {"format_version": _FORMAT_VERSION, "environment": result.facts, "shapes": shapes}
        print_json(data)
        return
    from nsysprof.cli.terminal.console import print_report
    from nsysprof.report.pages.machine import explain_report

    print_report(explain_report(result.blocks, result.facts))


def _to_json(call: AttentionCall, answer: EligibilityAnswer) -> dict[str, Any]:
    from nsysprof.attention.nearest_supported_shape import changes

    nearest = [{"changes": changes(call, each), "call": json_value(each)} for each in answer.nearest]
    return {**json_value(answer), "nearest": nearest}
