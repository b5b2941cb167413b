"""Make the tensors for one AttentionCall."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from nsysprof.attention.eligibility import AttentionCall
from nsysprof.attention.shape import has_learned_mask
from nsysprof.workload.measuring.case_tensors import make_mask

_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


class NoMemoryError(Exception):
    """The tensors alone do not fit into memory."""


@dataclass(frozen=True)
class AttentionInputs:
    """q, k, v and the mask, with the other arguments of scaled_dot_product_attention."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    causal: bool
    grouped: bool

    @property
    def positional(self) -> tuple[Any, ...]:
        """Return the inputs in the order of torch.backends.cuda.SDPAParams."""
        return self.q, self.k, self.v, self.mask, self.dropout, self.causal, self.grouped


def make_inputs(call: AttentionCall, device: str, *, fill: bool) -> AttentionInputs:
    """Return the tensors of `call`.

    They are real tensors of the full size: torch's checks look at strides too, and expanded or fake tensors differ in
    them. Raises NoMemoryError when they do not fit.

    fill: whether they need content. Without it, their content is undefined and no kernel is launched.
    """
    try:
        q, k, v = (
            _make(shape, call, device, fill)
            for shape in (
                (call.batch, call.heads, call.seq, call.head_dim),
                (call.batch, call.kv_heads, call.kv_seq, call.head_dim),
                (call.batch, call.kv_heads, call.kv_seq, call.head_dim_v),
            )
        )
        mask = _make_mask(call, device, fill)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise NoMemoryError(f"the inputs do not fit the memory: {str(error).splitlines()[0][:200]}") from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error) or "numel" in str(error) or "overflow" in str(error):
            raise NoMemoryError("the inputs do not fit the memory") from error
        raise
    return AttentionInputs(q, k, v, mask, call.dropout, call.causal, call.heads != call.kv_heads)


def _make(shape: tuple[int, ...], call: AttentionCall, device: str, fill: bool) -> torch.Tensor:
    make = torch.randn if fill else torch.empty
    tensor: torch.Tensor = make(shape, device=device, dtype=_DTYPES[call.dtype])
    return tensor.requires_grad_(call.pass_ == "bwd")


def _make_mask(call: AttentionCall, device: str, fill: bool) -> torch.Tensor | None:
    """Return a lower triangle, in which every row sees at least one key."""
    if call.mask == "none":
        return None
    if fill and call.window is not None:
        return make_mask(call, device)
    if not fill:
        dtype = torch.bool if call.mask == "bool" or call.window else _DTYPES[call.dtype]
        mask = torch.empty(call.seq, call.kv_seq, dtype=dtype, device=device)
        return mask.requires_grad_(has_learned_mask(call))
    allowed = torch.ones(call.seq, call.kv_seq, dtype=torch.bool, device=device).tril()
    if call.mask == "bool":
        return allowed
    bias = torch.zeros(call.seq, call.kv_seq, dtype=_DTYPES[call.dtype], device=device)
    return bias.masked_fill(~allowed, float("-inf")).requires_grad_(has_learned_mask(call))
