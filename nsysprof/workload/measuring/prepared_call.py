"""Prepare the call that a case measures: allocate inputs, select the backend, and check the form of the result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import torch

from nsysprof.attention.backend_limits import MOST_LOSS, is_lossy
from nsysprof.attention.shape import Case
from nsysprof.workload.backends import Attention, attention_for, check_form, mask_of
from nsysprof.workload.correctness_check import check_attention
from nsysprof.workload.measuring.case_tensors import draw_inputs
from nsysprof.workload.measuring.memory import PeakMemory
from nsysprof.workload.measuring.timing import Call, synchronize
from nsysprof.workload.refusal import WrongResultError, eligibility


@contextmanager
def prepared(case: Case, device: str, memory: PeakMemory | None = None) -> Iterator[Call]:
    """Yield the case's call, ready to run and called once already.

    fwd computes out = attention(q, k, v) without autograd. bwd computes the gradients of q, k and v, and of a learned
    mask, after a forward pass that is not measured. fwdbwd does both.

    Raises IneligibleError when the backend refuses the case, UnusableBackendError when it cannot be imported or called,
    and WrongResultError when its result does not have the form of attention.

    memory: is told when the inputs exist and nothing else does.
    """
    q, k, v = _make_inputs(case, device)
    mask = mask_of(case, device)
    select, attention = attention_for(case.backend, case, mask, device)
    leaves = (q, k, v) if mask is None or not mask.requires_grad else (q, k, v, mask)
    grad = torch.randn_like(q[..., :1].expand(*q.shape[:-1], v.shape[-1])) if case.pass_ != "fwd" else None
    if memory is not None:
        memory.mark_inputs()
    with select, torch.set_grad_enabled(case.pass_ != "fwd"):
        with eligibility(case.backend):
            call = _make_call(case, attention, leaves, grad)
            synchronize(device)
        yield call


def check_case(case: Case, device: str, allow_error: float = 0.0) -> dict[str, Any]:
    """Return how far the results are from the float64 reference. Raises WrongResultError when that is too far.

    A lossy backend may be farther than rounding explains, as any other may up to allow_error: it is approximate.
    """
    select, attention = attention_for(case.backend, case, mask_of(case, device), device)
    with select, eligibility(case.backend):
        result = check_attention(attention, case, device)
    largest = max(result.errors.values(), default=math.inf)
    if not result.ok and not largest <= max(allow_error, MOST_LOSS if is_lossy(case.backend) else 0.0):
        raise WrongResultError(result.reason)
    return asdict(result) | {"approximate": not result.ok}


def _make_inputs(case: Case, device: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator(device=device).manual_seed(0)
    q, k, v = (tensor.requires_grad_(case.pass_ != "fwd") for tensor in draw_inputs(case, device, generator))
    return q, k, v


def _make_call(
    case: Case,
    attention: Attention,
    leaves: tuple[torch.Tensor, ...],
    grad: torch.Tensor | None,
) -> Call:
    """Return the call to measure, after a first call whose result has the right form.

    leaves: q, k, v, and whatever else needs a gradient.
    """
    (q, k, v), causal = leaves[:3], case.causal
    out = attention(q, k, v, causal)
    tensor = check_form(out, q, v)
    if q.requires_grad and not tensor.requires_grad:
        raise WrongResultError("returned a tensor without gradient")
    if case.pass_ == "fwd":
        return lambda: attention(q, k, v, causal)
    torch.autograd.grad(out, leaves, grad, retain_graph=case.pass_ == "bwd")
    if case.pass_ == "bwd":
        return lambda: torch.autograd.grad(out, leaves, grad, retain_graph=True)
    return lambda: torch.autograd.grad(attention(q, k, v, causal), leaves, grad)
