"""Look up the shape of the attention call in which a kernel was launched, from names of ranges or torch's emit_nvtx."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from nsysprof.analysis.ranges.open_range import innermost_codes
from nsysprof.attention.attention_call import MASKS
from nsysprof.attention.range_name import RECORDED_PREFIX, parse_attention_range, parse_range
from nsysprof.attention.shape import Shape
from nsysprof.trace.schema import Int64s

# The sizes of q, k and v: the first three of the operator's inputs.
_SIZES = re.compile(r"\[\[(\d+), (\d+), (\d+), (\d+)\], \[(\d+), (\d+), (\d+), (\d+)\], \[\d+, \d+, \d+, \d+\]")
# Operators with inputs (batch, heads, length, head size), and operators with (batch, length, heads, head size).
_HEADS_FIRST = re.compile(r"aten::_?(?:fused_)?scaled_dot_product_\w*attention|aten::_cudnn_attention_forward")
_LENGTH_FIRST = re.compile(r"aten::_(?:flash|efficient)_attention_forward")
# The template arguments of a flash kernel follow those of its traits. Dropout is not among those of splitkv.
_CAUSAL = re.compile(r"flash_fwd_(?:splitkv_kernel<.*?>>, |kernel<.*?>>, \(bool\)[01], )\(bool\)([01])")

# The sizes of a shape, and what a recorded call names them.
_CALL_SIZES = {
    "batch": "batch", "heads": "heads", "kv_heads": "kv_heads", "seq": "seq_q", "kv_seq": "seq_kv",
    "head_dim": "head_dim",
}  # fmt: skip


@dataclass(frozen=True)
class CallInTrace:
    """What a trace says about one call of attention.

    shape: its shape, written as a forward pass.
    unknown: the fields of the shape that neither the range nor the kernel tells, so that their values mean nothing.
    recorded_pass: the pass ("fwd" or "bwd") if capture --attention recorded the call; None otherwise.
    """

    shape: Shape
    unknown: frozenset[str] = frozenset()
    recorded_pass: str | None = None


def calls_at(ranges: pd.DataFrame, tid: Int64s, time: Int64s) -> list[CallInTrace | None]:
    """Return the attention call that each thread was in at each time.

    ranges: the instances that the attribution made, with `sizes` where emit_nvtx recorded them.
    """
    if len(ranges) == 0:
        return [None] * len(time)
    sizes = ranges["sizes"] if "sizes" in ranges else pd.Series("", index=ranges.index)
    known: dict[str, CallInTrace] = {}
    for name, size in zip(ranges["name"], sizes, strict=True):
        text = f"{name}|{size}"
        if text not in known and (call := _call_of(str(name), str(size))) is not None:
            known[text] = call
    texts = ranges["name"].astype(str) + "|" + sizes.astype(str)
    chosen = texts.isin(list(known)).to_numpy(dtype=bool)
    if not chosen.any():
        return [None] * len(time)
    code, names = innermost_codes(ranges[chosen].assign(name=texts[chosen]), tid, time, fold=False)
    return [known.get(str(name)) for name in names[code]]


def causal_of(kernels: Iterable[str]) -> list[bool | None]:
    """Return whether each kernel applies a causal mask; None where its name does not say."""
    found = (_CAUSAL.search(name) for name in kernels)
    return [None if match is None else match[1] == "1" for match in found]


def _call_of(name: str, sizes: str) -> CallInTrace | None:
    match = _SIZES.match(sizes)
    if match is None:
        return _recorded_call(name) if name.startswith(RECORDED_PREFIX) else _call_of_our_range(name)
    q, k = tuple(map(int, match.groups()[:4])), tuple(map(int, match.groups()[4:]))
    if _LENGTH_FIRST.fullmatch(name):
        q, k = (q[0], q[2], q[1], q[3]), (k[0], k[2], k[1], k[3])
    elif not _HEADS_FIRST.fullmatch(name):
        return None
    shape = Shape(batch=q[0], heads=q[1], kv_heads=k[1], seq=q[2], kv_seq=k[2], head_dim=q[3])
    return CallInTrace(shape, frozenset({"causal", "dtype"}))


def _recorded_call(name: str) -> CallInTrace | None:
    """Return a call of torch's attention that a policy can choose a backend for."""
    call = parse_attention_range(name)
    if call is None or call.function != "sdpa" or call.dropout or call.head_dim_v not in (None, call.head_dim):
        return None
    sizes: dict[str, Any] = {field: getattr(call, name) or 0 for field, name in _CALL_SIZES.items()}
    mask = call.mask or "none"
    if not all(sizes.values()) or mask.partition(":")[0] not in MASKS or call.dtype is None:
        return None
    shape = Shape(**sizes, dtype=call.dtype, causal=bool(call.causal), mask=mask, layout=call.layout or "bhsd")
    return CallInTrace(shape, recorded_pass=call.pass_)


def _call_of_our_range(name: str) -> CallInTrace | None:
    """Return the call of RUN::BACKEND::S4096::B=1::H=8::D=64::..., where all of that stands in the name."""
    parsed = parse_range(name)
    extra = dict(parsed.extra) if parsed is not None else {}
    if parsed is None or not {"B", "H", "D"} <= set(extra):
        return None
    shape = Shape(
        seq=parsed.seq,
        batch=int(extra["B"]),
        heads=int(extra["H"]),
        kv_heads=int(extra.get("KV", 0)),
        head_dim=int(extra["D"]),
        causal=extra.get("causal") == "1",
        dtype=extra.get("dtype", "fp16"),
    )
    return CallInTrace(shape, frozenset({"causal", "dtype"} - set(extra)))
