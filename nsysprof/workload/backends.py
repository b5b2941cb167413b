"""The attention backends by name: a context that selects one, and the function (q, k, v, is_causal) -> out."""

from __future__ import annotations

import importlib
import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], torch.Tensor]

_SDPA_NAMES = {
    "math": "MATH",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
}
_WARNING_WORDS = {"math": "math", "flash": "flash", "efficient": "mem", "cudnn": "cudnn"}


class IneligibleError(Exception):
    """Torch refused the backend for this shape; the text says why, in torch's words."""


def load_attention(backend: str) -> tuple[Any, Attention]:
    """A context manager that selects `backend`, to be entered once around many calls, and the function to call."""
    if backend in _SDPA_NAMES:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        return sdpa_kernel(getattr(SDPBackend, _SDPA_NAMES[backend])), _sdpa
    if backend == "auto":
        return nullcontext(), _sdpa
    if backend == "naive":
        return nullcontext(), _naive
    module, _, name = backend.partition(":")
    return nullcontext(), getattr(importlib.import_module(module), name)


def _sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


def _naive(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """softmax(q k^T / sqrt(d)) v, every intermediate in memory, as one would write it by hand."""
    scores = q @ k.transpose(-2, -1) * (1 / math.sqrt(q.shape[-1]))
    if is_causal:
        ones = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
        scores = scores.masked_fill(ones.triu(1), float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


@contextmanager
def eligibility(backend: str) -> Iterator[None]:
    """Turn torch's refusal of a backend into IneligibleError, with torch's warnings as the reason."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except RuntimeError as error:
            if not re.search(r"No (available kernel|viable backend)", str(error)):
                raise
            reasons = refusal_reasons(backend, [str(warning.message) for warning in caught])
            raise IneligibleError(reasons or f"torch: {str(error).splitlines()[0]}") from error


def refusal_reasons(backend: str, messages: list[str]) -> str:
    """Of torch's warnings, those that give the reason for `backend`, without its source positions."""
    word = _WARNING_WORDS.get(backend, backend)
    reasons: list[str] = []
    mine = False
    for message in messages:
        text = re.sub(r"\s*\(Triggered internally at [^)]*\)", "", message).strip()
        if text.rstrip(".").endswith("not used because:"):
            mine = text.lower().startswith(word) or word in text.lower().split(" kernel")[0]
        elif mine and "runtime disabled" not in text:
            reasons.append(text)
    return " ".join(dict.fromkeys(reasons))
