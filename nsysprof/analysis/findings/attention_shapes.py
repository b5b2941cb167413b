"""Look up the shape of the attention call that a thread was in, from our ranges' names or torch's emit_nvtx."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from nsysprof.analysis.ranges.open_range import innermost_codes
from nsysprof.attention.attention_range import PREFIX, parse_attention_range
from nsysprof.attention.range_name import parse_range
from nsysprof.trace.schema import Int64s

# The sizes of q, k and v: the first three of the operator's inputs.
_SIZES = re.compile(r"\[\[(\d+), (\d+), (\d+), (\d+)\], \[(\d+), (\d+), (\d+), (\d+)\], \[\d+, \d+, \d+, \d+\]")
# Operators with (batch, heads, length, head size), and those with (batch, length, heads, head size).
_HEADS_FIRST = re.compile(r"aten::_?(?:fused_)?scaled_dot_product_\w*attention|aten::_cudnn_attention_forward")
_LENGTH_FIRST = re.compile(r"aten::_(?:flash|efficient)_attention_forward")
# The flash kernels' own arguments follow those of their traits; whether splitkv has dropout is not among them.
_CAUSAL = re.compile(r"flash_fwd_(?:splitkv_kernel<.*?>>, |kernel<.*?>>, \(bool\)[01], )\(bool\)([01])")

_CALL_SIZES = ("batch", "heads", "kv_heads", "seq_q", "seq_kv", "head_dim")
_MASKS = ("none", "bool", "float")


@dataclass(frozen=True)
class CallShape:
    """The sizes of one call."""

    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    head_dim: int
    # None where neither the range nor the kernel says it.
    causal: bool | None = None
    dtype: str | None = None
    # What capture --attention recorded of a call: the pass ("fwd" or "bwd"), mask and order in memory.
    pass_: str | None = None
    mask: str = "none"
    layout: str = "bhsd"


def shapes_at(ranges: pd.DataFrame, tid: Int64s, time: Int64s) -> list[CallShape | None]:
    """Return the shape of the attention call that each thread was in at each time.

    ranges: the instances that attribution works with; they have `sizes` where emit_nvtx recorded any.
    """
    if len(ranges) == 0:
        return [None] * len(time)
    sizes = ranges["sizes"] if "sizes" in ranges else pd.Series("", index=ranges.index)
    known: dict[str, CallShape] = {}
    for name, size in zip(ranges["name"], sizes, strict=True):
        text = f"{name}|{size}"
        if text not in known and (shape := _shape_of(str(name), str(size))) is not None:
            known[text] = shape
    texts = ranges["name"].astype(str) + "|" + sizes.astype(str)
    chosen = texts.isin(list(known)).to_numpy(dtype=bool)
    if not chosen.any():
        return [None] * len(time)
    code, names = innermost_codes(ranges[chosen].assign(name=texts[chosen]), tid, time, fold=False)
    return [known.get(str(name)) for name in names[code]]


def causal_of(kernels: Iterable[str]) -> list[bool | None]:
    """Return whether each kernel masks what comes later; None where its name does not say it."""
    found = (_CAUSAL.search(name) for name in kernels)
    return [None if match is None else match[1] == "1" for match in found]


def _shape_of(name: str, sizes: str) -> CallShape | None:
    match = _SIZES.match(sizes)
    if match is None:
        return _shape_of_recorded_call(name) if name.startswith(PREFIX) else _shape_of_our_range(name)
    q, k = tuple(map(int, match.groups()[:4])), tuple(map(int, match.groups()[4:]))
    if _LENGTH_FIRST.fullmatch(name):
        q, k = (q[0], q[2], q[1], q[3]), (k[0], k[2], k[1], k[3])
    elif not _HEADS_FIRST.fullmatch(name):
        return None
    return CallShape(q[0], q[1], k[1], q[2], k[2], q[3])


def _shape_of_recorded_call(name: str) -> CallShape | None:
    """Return the shape of a call of torch's attention that a policy can choose a backend for."""
    call = parse_attention_range(name)
    if call is None or call.function != "sdpa" or call.dropout or call.head_dim_v not in (None, call.head_dim):
        return None
    batch, heads, kv_heads, seq_q, seq_kv, head_dim = (getattr(call, name) or 0 for name in _CALL_SIZES)
    mask = call.mask or "none"
    if not all((batch, heads, kv_heads, seq_q, seq_kv, head_dim)) or mask.partition(":")[0] not in _MASKS:
        return None
    return CallShape(
        batch, heads, kv_heads, seq_q, seq_kv, head_dim, bool(call.causal), call.dtype, call.pass_, mask,
        call.layout or "bhsd",
    )  # fmt: skip


def _shape_of_our_range(name: str) -> CallShape | None:
    """Return the shape of RUN::BACKEND::S4096::B=1::H=8::D=64::..., where all of that stands in the name."""
    parsed = parse_range(name)
    extra = dict(parsed.extra) if parsed is not None else {}
    if parsed is None or not {"B", "H", "D"} <= set(extra):
        return None
    heads = int(extra["H"])
    return CallShape(
        batch=int(extra["B"]),
        heads=heads,
        kv_heads=int(extra.get("KV", heads)),
        seq_q=parsed.seq,
        seq_kv=parsed.seq,
        head_dim=int(extra["D"]),
        causal=extra["causal"] == "1" if "causal" in extra else None,
        dtype=extra.get("dtype"),
    )
