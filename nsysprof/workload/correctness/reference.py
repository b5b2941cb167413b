"""Compute attention and its gradients in float64, by blocks of queries so that memory stays bounded.

The same arithmetic can run twice: exactly, and with every intermediate that a plain implementation would store rounded
to a narrower format. A backend is compared with the first. The distance between the two is what rounding alone costs on
these inputs; `check` makes its tolerance from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

BLOCK_BYTES = 256 << 20  # the size of all (queries x keys) intermediates of one block together
_INTERMEDIATES = 8  # arrays of that size at once: scores, probabilities, their gradients, and temporaries

Rounding = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Inputs:
    """The inputs of one attention, all of one dtype."""

    # (batch, heads, queries, head_dim)
    q: torch.Tensor
    # (batch, kv_heads, keys, head_dim)
    k: torch.Tensor
    v: torch.Tensor
    # The gradient of some loss with respect to the output, shaped like q. Without it, no gradients are computed.
    grad: torch.Tensor | None
    is_causal: bool
    # What is added to the scores, or which of them count; it has four axes, some of size 1.
    mask: torch.Tensor | None = None


@dataclass(frozen=True)
class Piece:
    """Float64 results of some heads, each of shape (heads of k, heads of q for each, rows, head_dim)."""

    # Positions in the flattened (batch, kv_heads).
    kv_heads: slice
    # The query positions of out and dq.
    rows: torch.Tensor
    # None where not computed.
    out: torch.Tensor | None = None
    dq: torch.Tensor | None = None
    # For all keys, with 1 in place of the heads of q.
    dk: torch.Tensor | None = None
    dv: torch.Tensor | None = None


def reference_pieces(
    inputs: Inputs, rows: torch.Tensor, rounding: Rounding | None = None, block_bytes: int = BLOCK_BYTES
) -> Iterator[Piece]:
    """Yield the results head by head: out and dq by blocks of queries, then dk and dv.

    dk and dv hold what the given rows contribute, which is everything when grad is zero elsewhere. A causal mask lets
    query i see the keys up to i, as torch's is_causal does. Memory holds one block, and float64 copies of the inputs of
    one group of heads.

    rows: the query positions to compute, ascending.
    rounding: a function applied to intermediates and results; None computes exactly.
    block_bytes: the size of the intermediates of one block (bytes).
    """
    round_ = rounding or _exact
    groups = inputs.k.shape[0] * inputs.k.shape[1]
    members = inputs.q.shape[1] // inputs.k.shape[1]
    keys = inputs.k.shape[2]
    row_bytes = members * keys * 8 * _INTERMEDIATES
    height = max(1, min(len(rows), block_bytes // row_bytes))
    width = max(1, min(groups, block_bytes // (row_bytes * len(rows))))
    for first in range(0, groups, width):
        yield from _heads(inputs, slice(first, min(first + width, groups)), rows, height, round_)


def split_heads(tensor: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """Return (batch, heads, rows, dim) as (batch * kv_heads, heads / kv_heads, rows, dim), the form of a Piece."""
    return tensor.unflatten(1, (kv_heads, -1)).flatten(0, 1)


def _exact(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _heads(inputs: Inputs, heads: slice, rows: torch.Tensor, height: int, round_: Rounding) -> Iterator[Piece]:
    count = inputs.k.shape[1]
    q, k, v = (round_(split_heads(t, count)[heads].double()) for t in (inputs.q, inputs.k, inputs.v))
    grad = None if inputs.grad is None else round_(split_heads(inputs.grad, count)[heads].double())
    dk, dv = (None, None) if grad is None else (torch.zeros_like(k), torch.zeros_like(v))
    for block in rows.split(height):
        # Keys that no query of the block sees are skipped.
        seen = slice(0, min(k.shape[2], int(block[-1]) + 1) if inputs.is_causal else k.shape[2])
        scores = _scores(q[:, :, block], k[:, :, seen], block if inputs.is_causal else None, round_)
        if inputs.mask is not None:
            _apply_mask(scores, _mask_of(inputs, heads)[:, :, block][..., seen])
        p = round_(torch.softmax(scores, dim=-1))
        del scores
        out = round_(p @ v[:, :, seen])
        if grad is None or dk is None or dv is None:
            yield Piece(heads, block, out=out)
            continue
        g = grad[:, :, block]
        dv[:, :, seen] += (p.mT @ g).sum(1, keepdim=True)
        # The sums of p * dp and of g * out are equal. Kernels compute the second, whose rounding differs.
        ds = round_(p * (round_(g @ v[:, :, seen].mT) - (g * out).sum(-1, keepdim=True)))
        ds = round_(ds / math.sqrt(q.shape[-1]))
        dk[:, :, seen] += (ds.mT @ q[:, :, block]).sum(1, keepdim=True)
        yield Piece(heads, block, out=out, dq=round_(ds @ k[:, :, seen]))
    if dk is not None and dv is not None:
        yield Piece(heads, rows, dk=round_(dk), dv=round_(dv))


def _mask_of(inputs: Inputs, heads: slice) -> torch.Tensor:
    """Return the mask of some heads, of shape (heads of k, heads of q for each, queries, keys)."""
    assert inputs.mask is not None
    batch, count, keys = inputs.k.shape[0], inputs.k.shape[1], inputs.k.shape[2]
    whole = inputs.mask.expand(batch, inputs.q.shape[1], inputs.q.shape[2], keys).unflatten(1, (count, -1))
    chosen = range(*heads.indices(batch * count))
    return torch.stack([whole[group // count, group % count] for group in chosen])


def _apply_mask(scores: torch.Tensor, mask: torch.Tensor) -> None:
    if mask.dtype is torch.bool:
        scores.masked_fill_(~mask, float("-inf"))
    else:
        scores += mask.double()


def _scores(q: torch.Tensor, k: torch.Tensor, positions: torch.Tensor | None, round_: Rounding) -> torch.Tensor:
    """Return the scaled scores, causally masked when the queries' positions are given."""
    scores = round_(round_(q @ k.mT) / math.sqrt(q.shape[-1]))
    if positions is None:
        return scores
    hidden = torch.arange(k.shape[2], device=q.device) > positions[:, None]
    return scores.masked_fill_(hidden, float("-inf"))
