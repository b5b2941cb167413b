"""How much work a case is by formula: floating-point operations, and the least bytes that it must move.

FLOPs: q k^T and (scores) v are two matrix products of 2 S_q S_k D each per head and batch entry; a causal mask halves
them; backward is 2.5 times the forward, as it recomputes the scores and forms four products (Dao, FlashAttention-2,
2023, section 4.1). Softmax is not counted. With grouped heads, the query's heads count.

Bytes: what has to cross the memory bus once if nothing is kept from elsewhere and no intermediate is written: forward
reads q, k, v and writes the output; backward reads q, k, v, the output and its gradient and writes three gradients.
"""

from __future__ import annotations

from nsysprof.case import DTYPE_BYTES, Case

CONVENTION = (
    "FLOPs: 4 B H S S D forward, halved by a causal mask, backward 2.5 times forward; bytes: each input read once, "
    "each result written once"
)
_BACKWARD = 2.5


def attention_flops(case: Case) -> float:
    """Floating-point operations of one call."""
    forward = 4 * case.batch * case.heads * case.seq * case.seq * case.head_dim * (0.5 if case.causal else 1.0)
    factor = {"fwd": 1.0, "bwd": _BACKWARD, "fwdbwd": 1 + _BACKWARD}[case.pass_]
    return forward * factor


def least_bytes(case: Case) -> int:
    """The least bytes that one call moves to and from memory."""
    query = case.batch * case.heads * case.seq * case.head_dim * DTYPE_BYTES[case.dtype]
    inputs = case.input_bytes
    forward = inputs + query
    backward = inputs + 2 * query + inputs  # read q, k, v, out and its gradient; write the gradients of q, k, v
    return {"fwd": forward, "bwd": backward, "fwdbwd": forward + backward}[case.pass_]
