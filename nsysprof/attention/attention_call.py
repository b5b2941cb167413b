"""Define AttentionCall: one call of attention with everything that torch's checks look at. `explain` uses it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from nsysprof.attention.case import check_names, check_sizes, known_backends
from nsysprof.attention.choices import BACKENDS, DTYPES
from nsysprof.attention.mask import MASKS, Window, mask_of_window
from nsysprof.attention.shape import DTYPE_BYTES, Shape, Size
from nsysprof.errors import UsageError

CALL_PASSES = ("fwd", "bwd")


class AttentionCall(Shape, frozen=True, order=True, kw_only=True):
    """One call of attention: a shape, and the other arguments that torch's checks look at.

    k and v are (batch, kv_heads, kv_seq, head_dim).
    """

    kv_seq: Size
    # The kind of attn_mask: none, bool, float (in the dtype of the inputs), or learned (which needs a gradient),
    # or a window.
    mask: str = "none"
    dropout: float = 0.0

    @property
    def tensor_bytes(self) -> int:
        """Return the bytes of q, k, v and the output."""
        elements = 2 * self.heads * self.seq + 2 * self.kv_heads * self.kv_seq
        return self.batch * elements * self.head_dim * DTYPE_BYTES[self.dtype]


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
    window: Window | None = None,
) -> list[AttentionCall]:
    """Return every combination, in the order given and without repeats.

    Raises UsageError for values that contradict each other or make no sense.

    kv_seqs, kv_heads: empty for the same as seqs and heads.
    causal: None for causal unless there is a mask, because torch takes only one of the two.
    """
    for name, sizes in (("seq", seqs), ("batch", batches), ("heads", heads), ("head-dim", head_dims)):
        check_sizes(name, sizes)
    for name, sizes in (("kv-seq", kv_seqs), ("kv-heads", kv_heads)):
        check_sizes(name, sizes or [1])
    check_names("dtype", dtypes, DTYPES)
    check_names("pass", passes, CALL_PASSES)
    check_names("mask", [mask], MASKS)
    if not 0 <= dropout < 1:
        raise UsageError(f"--dropout {dropout:g} is not a valid probability.", "Give 0 or more, and less than 1.")
    if window is not None and (mask != "none" or causal):
        raise UsageError(
            f"--window and {'--causal' if causal else '--mask'} exclude each other.",
            "Leave one of them out; --window 256,0 is a causal window.",
        )
    if causal and mask != "none":
        raise UsageError("--causal and --mask exclude each other in torch.", "Leave one of them out.")
    settled = mask == "none" if causal is None else causal
    cells = itertools.product(batches, heads, kv_heads or [0], head_dims, dtypes, passes, seqs, kv_seqs or [0])
    calls = [
        AttentionCall(
            seq=s,
            kv_seq=ks or s,
            batch=b,
            heads=h,
            kv_heads=kh or h,
            head_dim=d,
            dtype=t,
            causal=c,
            mask=m,
            dropout=dropout,
            pass_=p,
        )
        for b, h, kh, d, t, p, s, ks in cells
        for m, c in [(mask, settled) if window is None else mask_of_window(window, s, ks or s)]
    ]
    for call in calls:
        if call.heads % call.kv_heads:
            raise UsageError(
                f"--heads {call.heads} cannot be shared among --kv-heads {call.kv_heads}.",
                "The heads of k and v must divide the heads of q.",
            )
    return list(dict.fromkeys(calls))


def expand_backends(names: Sequence[str]) -> list[str]:
    """Return the backends without repeats. Raises UsageError for an unknown name.

    `all` means torch's own backends and naive. Backends that packages register must be named.
    """
    wanted = [name for given in names for name in (BACKENDS if given == "all" else (given,))]
    check_names("backend", wanted, (*known_backends(), "all"))
    return list(dict.fromkeys(wanted))
