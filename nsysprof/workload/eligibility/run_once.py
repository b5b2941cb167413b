"""Run one call of attention under torch's profiler to see which operator torch chose and which kernels it launched."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd.profiler import profile
from torch.nn.attention import sdpa_kernel

from nsysprof.attention.attention_call import AttentionCall
from nsysprof.attention.choices import BACKENDS
from nsysprof.attention.eligibility import Ran
from nsysprof.attention.kernel_family import dispatched_operator, kernel_family, operator_family
from nsysprof.workload.backends import check_form, load_attention
from nsysprof.workload.eligibility.attention_inputs import AttentionInputs, make_inputs


def run_once(backend: str, select: Any, call: AttentionCall, device: str, expected: str | None) -> Ran:
    """Run the call twice, the second time under the profiler, and return what ran.

    expected: the family that should run.

    Raises what the backend raises, and NoMemoryError when the inputs do not fit.
    """
    inputs = make_inputs(call, device, fill=True)
    attention = _attention_of(backend)
    with nullcontext() if select is None else sdpa_kernel(select):
        # this creates cuBLAS handles and cuDNN plans, which only the first call needs
        _call(attention, inputs, call, device)
        # Not torch.profiler.profile around it: that loads torch's compiler first, which takes seconds.
        with profile(use_device="cuda" if device == "cuda" else None, use_kineto=True) as profiler:
            _call(attention, inputs, call, device)
    operators = _operators(profiler)
    kernels = _kernels(profiler) if device == "cuda" else []
    operator = dispatched_operator(operators)
    family = kernel_family([kernel["name"] for kernel in kernels] if device == "cuda" else operators)
    if device == "cpu" or family == "other":
        family = operator_family(operator) or family  # products of odd sizes run kernels with many different names
    if device == "cuda" and not kernels:
        reason = "torch's profiler recorded no kernel; CUPTI may be blocked or in use"
        return Ran("ok", reason, None, operator)
    as_asked = None if family is None or expected is None else family == expected
    return Ran("ok", "", family, operator, tuple(kernels), as_asked)


def _attention_of(backend: str) -> Callable[[AttentionInputs], torch.Tensor]:
    """Return the function to call. Raise UnusableBackendError for a user's own backend that cannot be loaded."""
    if backend in BACKENDS:
        return _naive if backend == "naive" else _sdpa
    own = load_attention(backend)[1]
    return lambda inputs: check_form(own(inputs.q, inputs.k, inputs.v, inputs.causal), inputs.q, inputs.v)


def _call(attention: Any, inputs: AttentionInputs, call: AttentionCall, device: str) -> None:
    with torch.set_grad_enabled(call.pass_ == "bwd"):
        out = attention(inputs)
        if call.pass_ == "bwd":
            torch.autograd.grad(out, (inputs.q, inputs.k, inputs.v), torch.ones_like(out))
    if device == "cuda":
        torch.cuda.synchronize()


def _sdpa(inputs: AttentionInputs) -> torch.Tensor:
    grouped: dict[str, Any] = {"enable_gqa": True} if inputs.grouped else {}  # not every torch has the argument
    return F.scaled_dot_product_attention(
        inputs.q,
        inputs.k,
        inputs.v,
        attn_mask=inputs.mask,
        dropout_p=inputs.dropout,
        is_causal=inputs.causal,
        **grouped,
    )


def _naive(inputs: AttentionInputs) -> torch.Tensor:
    """Return softmax(q k^T / sqrt(d)) v, as written by hand with every intermediate in memory."""
    q, k, v = inputs.q, inputs.k, inputs.v
    if inputs.grouped:
        k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in (k, v))
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
    if inputs.causal:
        hidden = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    if inputs.mask is not None:
        boolean = inputs.mask.dtype == torch.bool
        scores = scores.masked_fill(~inputs.mask, float("-inf")) if boolean else scores + inputs.mask
    return F.dropout(torch.softmax(scores, dim=-1), inputs.dropout) @ v


def _operators(profiler: profile) -> list[str]:
    return [event.name for event in profiler.function_events if event.name.startswith("aten::")]


def _kernels(profiler: profile) -> list[dict[str, Any]]:
    """Return the name, count and total time of each kernel (ns), by first launch, without copies and fills."""
    kernels: dict[str, dict[str, Any]] = {}
    for event in sorted(profiler.function_events, key=lambda launched: launched.time_range.start):
        on_gpu = event.device_type == torch.autograd.DeviceType.CUDA
        if not on_gpu or event.name.startswith(("Memcpy", "Memset", "aten::")):
            continue
        kernel = kernels.setdefault(event.name, {"name": event.name, "count": 0, "total_ns": 0})
        kernel["count"] += 1
        kernel["total_ns"] += round(event.time_range.elapsed_us() * 1000)
    return list(kernels.values())
