"""AttentionCall: one call of attention with everything that torch's checks look at; what `explain` asks about."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nsysprof.case import BACKENDS, DTYPE_BYTES, DTYPES, check_sizes
from nsysprof.errors import UsageError

MASKS = ("none", "bool", "float")
CALL_PASSES = ("fwd", "bwd")


@dataclass(frozen=True)
class AttentionCall:
    """q is (batch, heads, seq, head_dim), k and v are (batch, kv_heads, kv_seq, head_dim).

    mask: the attn_mask given, none, bool or float (in the inputs' dtype). pass_: bwd makes the inputs require
    gradients.
    """

    seq: int
    kv_seq: int
    batch: int = 1
    heads: int = 8
    kv_heads: int = 8
    head_dim: int = 64
    dtype: str = "fp16"
    causal: bool = True
    mask: str = "none"
    dropout: float = 0.0
    pass_: str = "fwd"

    @property
    def tensor_bytes(self) -> int:
        """Bytes of q, k, v and the output."""
        elements = 2 * self.heads * self.seq + 2 * self.kv_heads * self.kv_seq
        return self.batch * elements * self.head_dim * DTYPE_BYTES[self.dtype]

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        data["pass"] = data.pop("pass_")
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> AttentionCall:
        fields = dict(data)
        fields["pass_"] = fields.pop("pass")
        return AttentionCall(**fields)


def expand_calls(
    *,
    seqs: Sequence[int],
    kv_seqs: Sequence[int],
    batches: Sequence[int],
    heads: Sequence[int],
    kv_heads: Sequence[int],
    head_dims: Sequence[int],
    dtypes: Sequence[str],
    causal: bool | None,
    mask: str,
    dropout: float,
    passes: Sequence[str],
) -> list[AttentionCall]:
    """Every combination, in the order given and without repeats.

    kv_seqs and kv_heads: empty for the same as seqs and heads. causal: None is causal unless there is a mask, since
    torch takes only one of the two. Raises UsageError for what makes no sense.
    """
    for name, sizes in (("seq", seqs), ("batch", batches), ("heads", heads), ("head-dim", head_dims)):
        check_sizes(name, sizes)
    for name, sizes in (("kv-seq", kv_seqs), ("kv-heads", kv_heads)):
        check_sizes(name, sizes or [1])
    _check_names("dtype", dtypes, DTYPES)
    _check_names("pass", passes, CALL_PASSES)
    _check_names("mask", [mask], MASKS)
    if not 0 <= dropout < 1:
        raise UsageError(f"--dropout {dropout:g} is not a probability.", "Give 0 or more, and less than 1.")
    if causal and mask != "none":
        raise UsageError("--causal and --mask exclude each other in torch.", "Leave one of them out.")
    settled = mask == "none" if causal is None else causal
    cells = itertools.product(batches, heads, kv_heads or [0], head_dims, dtypes, passes, seqs, kv_seqs or [0])
    calls = [
        AttentionCall(s, ks or s, b, h, kh or h, d, t, settled, mask, dropout, p) for b, h, kh, d, t, p, s, ks in cells
    ]
    for call in calls:
        if call.heads % call.kv_heads:
            raise UsageError(
                f"--heads {call.heads} cannot be shared among --kv-heads {call.kv_heads}.",
                "The heads of k and v must divide the heads of q.",
            )
    return list(dict.fromkeys(calls))


def expand_backends(names: Sequence[str]) -> list[str]:
    """Backends without repeats; `all` stands for every one. Raises UsageError for an unknown name."""
    wanted = [name for given in names for name in (BACKENDS if given == "all" else (given,))]
    _check_names("backend", wanted, BACKENDS, also="all")
    return list(dict.fromkeys(wanted))


def _check_names(what: str, names: Sequence[str], known: Sequence[str], also: str = "") -> None:
    choices = ", ".join([*known, also] if also else known)
    if not names:
        raise UsageError(f"--{what} names nothing.", f"Give one or more of {choices}.")
    for name in names:
        if name not in known:
            raise UsageError(f"Unknown {what} '{name}'.", f"Known: {choices}.")
