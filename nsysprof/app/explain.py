"""Run the use case `explain`: which backends accept a shape, why the others do not, and what really runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from nsysprof.app.inputs.attention_requests import ExplainRequest
from nsysprof.app.inputs.machine import default_dtype, require_torch, settle_device
from nsysprof.attention.eligibility import (
    AttentionCall,
    EligibilityAnswer,
    EligibilityQuestion,
    expand_backends,
    expand_calls,
)
from nsysprof.attention.mask import CAUSAL_WINDOW
from nsysprof.attention.shape import Served, parse_batch_specs
from nsysprof.capture.eligibility import Answers, run_probe
from nsysprof.errors import InterruptedCaptureError, NsysprofError, ToolFailedError


def explain(request: ExplainRequest) -> ExplainResult:
    """Ask torch about every backend and shape of the request. A failure is part of the result."""
    names = expand_backends(request.backends)
    _expand(request, "fp16")  # report a wrong shape before looking at the machine
    require_torch("explain")
    device = settle_device(request.device)
    calls = _expand(request, default_dtype(device))
    try:
        found = run_probe(
            [EligibilityQuestion(name, call) for call in calls for name in names],
            device,
            timeout_s=request.case_timeout_s,
        )
    except KeyboardInterrupt:
        raise InterruptedCaptureError("Interrupted before all backends were checked.") from None
    count = len(names)
    blocks = tuple((call, tuple(found.answers[i * count : (i + 1) * count])) for i, call in enumerate(calls))
    return ExplainResult(blocks, found.facts, _failure(found))


def _expand(request: ExplainRequest, dtype: str) -> list[AttentionCall]:
    """Return every call that the request asks about. Raises UsageError for impossible combinations.

    dtype: the dtype where the request names none.
    """
    if request.batch_specs:
        return [call for one in _requests_of_batches(request) for call in _expand(one, dtype)]
    calls = [
        call
        for causal in request.causals or (None,)
        for call in expand_calls(
            seqs=request.seqs,
            kv_seqs=request.kv_seqs,
            batches=request.batches,
            heads=request.heads,
            kv_heads=request.kv_heads,
            head_dims=request.head_dims,
            dtypes=request.dtypes or (dtype,),
            causal=causal,
            mask=request.mask,
            window=request.window,
            dropout=request.dropout,
            passes=request.passes,
            served=Served(*(getattr(request, name) for name in Served._fields)),
        )
    ]
    return list(dict.fromkeys(calls))


def _requests_of_batches(request: ExplainRequest) -> list[ExplainRequest]:
    """Return a request for each group of the batches, where each query sees the keys up to its own."""
    window = request.window or CAUSAL_WINDOW
    return [
        replace(request, batch_specs=(), batches=(n,), seqs=(queries,), kv_seqs=(keys,), window=window)
        for n, queries, keys in parse_batch_specs(request.batch_specs)
    ]


def _failure(found: Answers) -> NsysprofError | None:
    """Return the error for a process that died or hung while it checked a backend. The other answers stay valid."""
    lost = found.lost
    if not lost:
        return None
    names = ", ".join(dict.fromkeys(answer.backend for answer in lost))
    return ToolFailedError(
        f"Asking torch about {names}: {lost[0].reason.rstrip('.')}.",
        "The other answers are valid; --case-timeout gives more time.",
    )


@dataclass(frozen=True)
class ExplainResult:
    """The answers for each shape, the facts about torch and the GPU, and why answers are missing (if any are)."""

    blocks: tuple[tuple[AttentionCall, tuple[EligibilityAnswer, ...]], ...]
    facts: dict[str, Any]
    failure: NsysprofError | None
