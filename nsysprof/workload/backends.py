"""Load attention backends by name: a context that selects one, and the function (q, k, v, is_causal) -> out."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import torch
import torch.nn.functional as F

from nsysprof.attention.shape import Case, Shape, is_callable_backend, registered_backends
from nsysprof.workload.measuring.case_tensors import make_mask
from nsysprof.workload.other_libraries import flex_with_mask
from nsysprof.workload.refusal import IneligibleError, UnusableBackendError, WrongResultError

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
    if backend in _SDPA_NAMES:
        from torch.nn.attention import SDPBackend, sdpa_kernel

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


def mask_of(case: Case, device: str) -> torch.Tensor | None:
    """Return the mask that the backend gets; None without a mask, and for a window in flex, which takes a rule."""
    return None if case.backend == "flex" and case.window is not None else make_mask(case, device)


def with_mask(attention: Attention, shape: Shape, backend: str, mask: torch.Tensor | None) -> Attention:
    """Return attention with the mask of a shape; without one, the same function.

    Torch's backends and naive get a window as a bool mask, flex as a block mask.

    Raises IneligibleError for a backend that is called without masks.
    """
    if shape.mask == "none":
        return attention
    if backend == "flex":
        return flex_with_mask(shape, mask)
    if backend == "naive":
        return partial(_naive, mask=mask)
    if backend not in (*_SDPA_NAMES, "auto"):
        raise IneligibleError(
            f"{backend} is called with q, k, v and is_causal, without a mask. Torch's backends, flex and naive take "
            "masks and windows."
        )

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
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Return softmax(q k^T / sqrt(d)) v, as written by hand with every intermediate in memory.

    Where k and v have fewer heads, copies of them are made in memory too.
    """
    k, v = (tensor.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for tensor in (k, v))
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
    if is_causal:
        ones = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(ones.triu(1), float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return torch.softmax(scores, dim=-1) @ v
