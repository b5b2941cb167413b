"""`nsysprof explain`: which backends take a shape, why the others do not, and what really runs."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsysprof.attention_call import CALL_PASSES, MASKS, AttentionCall, expand_backends, expand_calls
from nsysprof.case import BACKENDS, DTYPES
from nsysprof.cli.machine import check_choice, require_torch, settle_device
from nsysprof.cli.options import parse_names, parse_sizes
from nsysprof.eligibility import Answer, Question
from nsysprof.errors import InterruptedCaptureError, ToolFailedError, UsageError
from nsysprof.nearest import changes

if TYPE_CHECKING:
    from nsysprof.capture.eligibility import Answers

_FORMAT_VERSION = 1


def explain(
    backends: Annotated[str, typer.Option(help=f"all, or of {', '.join(BACKENDS)}.")] = "all",
    seq: Annotated[str, typer.Option(help="Sequence lengths of q.")] = "1024",
    kv_seq: Annotated[str, typer.Option(help="Sequence lengths of k and v. Default: those of q.")] = "",
    batch: Annotated[str, typer.Option(help="Batch sizes.")] = "1",
    heads: Annotated[str, typer.Option(help="Head counts of q.")] = "8",
    kv_heads: Annotated[str, typer.Option(help="Head counts of k and v. Default: those of q.")] = "",
    head_dim: Annotated[str, typer.Option(help="Head dimensions.")] = "64",
    dtype: Annotated[str, typer.Option(help=f"Of {', '.join(DTYPES)}. Default: fp16 on a GPU, fp32 on the CPU.")] = "",
    causal: Annotated[bool | None, typer.Option(help="Causal mask. Default: causal unless there is a --mask.")] = None,
    mask: Annotated[str, typer.Option(help=f"attn_mask: {', '.join(MASKS)}.")] = "none",
    dropout: Annotated[float, typer.Option(help="Dropout probability.")] = 0.0,
    pass_: Annotated[str, typer.Option("--pass", help=f"Of {', '.join(CALL_PASSES)}.")] = "fwd",
    device: Annotated[str, typer.Option(help="auto, cuda or cpu.")] = "auto",
    timeout: Annotated[float, typer.Option(help="Seconds after which one backend is given up.")] = 120.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")] = False,
) -> None:
    """Say which backends can run a shape, why the others cannot, and which one really ran.

    Asks torch's own checks, one backend at a time, and looks at the kernels that one call launches.
    """
    from nsysprof.capture.eligibility import run_probe

    shape: dict[str, Any] = dict(
        seqs=parse_sizes("--seq", seq),
        kv_seqs=parse_sizes("--kv-seq", kv_seq),
        batches=parse_sizes("--batch", batch),
        heads=parse_sizes("--heads", heads),
        kv_heads=parse_sizes("--kv-heads", kv_heads),
        head_dims=parse_sizes("--head-dim", head_dim),
        causal=causal,
        mask=mask,
        dropout=dropout,
        passes=parse_names(pass_),
    )
    names, dtypes = expand_backends(parse_names(backends)), parse_names(dtype)
    expand_calls(**shape, dtypes=dtypes or ["fp16"])  # complain about the shapes before looking at the machine
    if not timeout > 0:
        raise UsageError(f"--timeout {timeout:g} is not a time.", "Give seconds above zero.")
    require_torch("explain")
    check_choice("--device", device, ("auto", "cuda", "cpu"))
    settled = settle_device(device)
    calls = expand_calls(**shape, dtypes=dtypes or ["fp16" if settled == "cuda" else "fp32"])
    questions = [Question(name, call) for call in calls for name in names]
    try:
        answers = run_probe(questions, settled, timeout_s=timeout)
    except KeyboardInterrupt:
        raise InterruptedCaptureError("Interrupted before every backend was asked.") from None
    _print(calls, names, answers, as_json)
    _complain(answers)


def _print(calls: list[AttentionCall], names: list[str], answers: Answers, as_json: bool) -> None:
    blocks = [
        (call, answers.answers[index * len(names) : (index + 1) * len(names)]) for index, call in enumerate(calls)
    ]
    if as_json:
        shapes = [
            {"call": call.to_json(), "backends": [_to_json(call, each) for each in block]} for call, block in blocks
        ]
        data = {"format_version": _FORMAT_VERSION, "environment": answers.facts, "shapes": shapes}
        typer.echo(json.dumps(data, indent=1))
        return
    from nsysprof.report.eligibility import render_eligibility

    width = shutil.get_terminal_size((120, 40)).columns
    typer.echo(render_eligibility(blocks, answers.facts, width))


def _to_json(call: AttentionCall, answer: Answer) -> dict[str, Any]:
    nearest = [{"changes": changes(call, each), "call": each.to_json()} for each in answer.nearest]
    return {**answer.to_json(), "nearest": nearest}


def _complain(answers: Answers) -> None:
    """Raise when the process died or hung over a question: the other answers are printed, and the exit code says so."""
    lost = answers.lost
    if lost:
        names = ", ".join(dict.fromkeys(answer.backend for answer in lost))
        raise ToolFailedError(
            f"Asking torch about {names}: {lost[0].reason.rstrip('.')}.",
            "The other answers hold; --timeout gives more time.",
        )
