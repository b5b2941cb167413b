"""Compute the work of a shape by formula: its floating-point operations, and the least bytes that it must move.

FLOPs: q k^T and (scores) v are two matrix products of 2 S_q S_k D each, per head and batch entry. A causal mask halves
them. Backward counts 2.5 times the forward pass, because it computes the scores again and forms four products (Dao,
FlashAttention-2, 2023, section 4.1). Softmax is not counted. With grouped heads, the heads of q count.

Bytes: what must cross the memory bus once if nothing is cached before and no intermediate is written. Forward reads q,
k, v and writes the output. Backward reads q, k, v, the output and its gradient, and writes three gradients.
"""

from __future__ import annotations

from nsysprof.attention.shape import Shape

CONVENTION = (
    "FLOPs: 4 B H S S D forward, halved by a causal mask, backward 2.5 times forward; bytes: each input read once, "
    "each result written once"
)
_BACKWARD = 2.5


def attention_flops(shape: Shape) -> float:
    """Return the floating-point operations of one call."""
    share = _causal_share(shape) if shape.causal else 1.0
    forward = 4 * shape.batch * shape.heads * shape.seq * shape.kv_seq * shape.head_dim * share
    factor = {"fwd": 1.0, "bwd": _BACKWARD, "fwdbwd": 1 + _BACKWARD}[shape.pass_]
    return forward * factor


def _causal_share(shape: Shape) -> float:
    """Return the share of the scores that a causal mask leaves, by the convention of one half for equal lengths."""
    if shape.seq == shape.kv_seq:
        return 0.5
    short = min(shape.seq, shape.kv_seq)
    seen = short * (short + 1) / 2 + (shape.seq - short) * shape.kv_seq
    return seen / (shape.seq * shape.kv_seq)


def least_bytes(shape: Shape) -> int:
    """Return the least bytes that one call moves to and from memory."""
    query = shape.output_bytes
    inputs = shape.input_bytes
    forward = inputs + query
    backward = inputs + 2 * query + inputs  # read q, k, v, out and its gradient; write the gradients of q, k, v
    return {"fwd": forward, "bwd": backward, "fwdbwd": forward + backward}[shape.pass_]
