"""Load attention backends by name: a context that selects one, and the function (q, k, v, is_causal) -> out."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from nsysprof.attention.backend_limits import TAKES, why_refused
from nsysprof.attention.shape import Case, Shape, is_callable_backend, registered_backends
from nsysprof.workload.measuring.case_tensors import make_mask, make_sinks, page_table, plain_keys
from nsysprof.workload.other_libraries import flex_with_mask
from nsysprof.workload.refusal import IneligibleError, UnusableBackendError, WrongResultError
from nsysprof.workload.served_libraries import (
    FLASH_IMPLEMENTATIONS,
    adapter_of,
    flash_implementation,
    flash_library,
)

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], torch.Tensor]

_SDPA_NAMES = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}


def load_attention(backend: str) -> tuple[Any, Attention]:
    """Return a context manager that selects `backend`, entered once around many calls, and the function to call.

    Raises UnusableBackendError when the backend cannot be imported or called.
    """
    if backend in FLASH_IMPLEMENTATIONS:
        return flash_implementation(backend), _sdpa
    if backend in _SDPA_NAMES:
        return sdpa_kernel(getattr(SDPBackend, _SDPA_NAMES[backend])), _sdpa
    if backend == "auto":
        return nullcontext(), _sdpa
    if backend == "naive":
        return nullcontext(), _naive
    return nullcontext(), _load_callable(backend)


def _load_callable(backend: str) -> Attention:
    """Return the user's own `module:function`, or the callable that a package registered under this name."""
    module, _, name = backend.partition(":")
    if not is_callable_backend(backend):
        point = registered_backends().get(backend)
        if point is None:
            raise UnusableBackendError(f"No installed package registers the backend {backend}.")
        module, name = point.module, point.attr
    try:
        target: Any = importlib.import_module(module)
    except Exception as error:  # the module belongs to the user, and its import may do anything
        raise UnusableBackendError(f"{module} cannot be imported: {type(error).__name__}: {error}") from error
    for part in name.split("."):
        if not hasattr(target, part):
            raise UnusableBackendError(f"{module} has no {name}.")
        target = getattr(target, part)
    if not callable(target):
        raise UnusableBackendError(f"{module}:{name} is of type {type(target).__name__}, which cannot be called.")
    return cast(Attention, target)


def attention_for(
    backend: str, shape: Shape, mask: torch.Tensor | None, device: str
) -> tuple[AbstractContextManager[Any], Attention]:
    """Return what load_attention does, for the shape: with its mask, window, cap, sinks, data type and pages.

    mask: of mask_of.

    Raises IneligibleError for a shape that the backend does not take, and UnusableBackendError.
    """
    refused = why_refused(backend, shape)
    if refused:
        raise IneligibleError(refused)
    adapter = adapter_of(backend, shape)
    if adapter is not None:
        return nullcontext(), adapter(shape, device)
    select, attention = load_attention(backend)
    attention = _with_mask(attention, shape, backend, mask, make_sinks(shape, device))
    if backend not in TAKES or (shape.kv_dtype == "same" and not shape.page_size):
        return select, attention
    table = page_table(shape, device) if shape.page_size else None
    return select, lambda q, k, v, causal: attention(q, *plain_keys(shape, k, v, table), causal)


def library_attention(backend: str, shape: Shape, device: str) -> Attention:
    """Return what a policy calls in place of torch's attention. Raises as attention_for does.

    FlashAttention 3 and 4 are called themselves: to activate them within torch would change other calls too.
    """
    own = flash_library(backend, shape, device)
    return attention_for(backend, shape, None, device)[1] if own is None else own


def mask_of(case: Case, device: str) -> torch.Tensor | None:
    """Return the mask that the backend gets; None without a mask, and for a window where the backend takes a rule."""
    takes_tensor = case.backend in (*_SDPA_NAMES, "auto", "naive")
    return make_mask(case, device) if takes_tensor or case.window is None else None


def _with_mask(
    attention: Attention, shape: Shape, backend: str, mask: torch.Tensor | None, sinks: torch.Tensor | None
) -> Attention:
    """Return attention with the mask, the cap and the sinks of a shape; without them, the same function.

    Torch's backends and naive get a window as a bool mask, flex as a block mask.
    """
    if shape.mask == "none" and not shape.softcap and sinks is None:
        return attention
    if backend == "flex":
        return flex_with_mask(shape, mask, sinks)
    if backend == "naive":
        return partial(_naive, mask=mask, softcap=shape.softcap, sinks=sinks)

    def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
        gqa = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, enable_gqa=gqa)

    return masked


def check_form(out: object, q: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Return `out` when it is a tensor of q's dtype, on q's device and of shape (batch, heads, seq, head_dim of v).

    Raises WrongResultError. Reads no values, so it costs no synchronisation.
    """
    if not isinstance(out, torch.Tensor):
        raise WrongResultError(f"returned a {type(out).__name__} instead of a tensor")
    shape = (*q.shape[:-1], v.shape[-1])
    if tuple(out.shape) != shape:
        raise WrongResultError(f"returned the shape {tuple(out.shape)} instead of {shape}")
    if out.dtype != q.dtype:
        raise WrongResultError(f"returned {out.dtype} instead of {q.dtype}")
    if out.device != q.device:
        raise WrongResultError(f"returned a tensor on {out.device} instead of {q.device}")
    return out


def _sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=q.shape[1] != k.shape[1])


def _naive(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    is_causal: bool,
    mask: torch.Tensor | None = None,
    softcap: float = 0.0,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return softmax(q k^T / sqrt(d)) v, as written by hand with every intermediate in memory.

    Where k and v have fewer heads, copies of them are made in memory too.
    """
    k, v = (tensor.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for tensor in (k, v))
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if is_causal:
        ones = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(ones.triu(1), float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    if sinks is not None:
        scores = torch.cat([scores, sinks[:, None, None].expand(*scores.shape[:-1], 1)], dim=-1)
    return torch.softmax(scores, dim=-1)[..., : k.shape[-2]] @ v
