"""Parse the names of the ranges that `capture --attention` puts around calls. Trace content is untrusted.

    attention::<fwd|bwd>::<function>::B=2::H=32::KV=8::Q=1024::K=1024::D=128::dtype=bf16::causal=1::mask=none::at=FILE:LINE

nsysprof.workload.program_start.attention_calls writes them. Every key is optional; unknown keys make a name another's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

PREFIX = "attention::"
# Functions whose ranges hold more than attention.
LAYERS = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")
_SIZES = {
    "B": "batch", "H": "heads", "KV": "kv_heads", "Q": "seq_q", "K": "seq_kv", "D": "head_dim", "DV": "head_dim_v",
}  # fmt: skip
_SIZE = re.compile(r"[0-9]{1,12}")
_WORD = re.compile(r"[\w:,+]{1,40}")
_FUNCTION = re.compile(r"\w{1,60}")
_MAX_LENGTH = 512


@dataclass(frozen=True)
class AttentionRange:
    """The attention call that the name of a range describes. A field is None where the name does not say it."""

    function: str
    # "fwd" or "bwd".
    pass_: str
    batch: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    seq_q: int | None = None
    seq_kv: int | None = None
    head_dim: int | None = None
    # Where the values' heads have another size.
    head_dim_v: int | None = None
    dtype: str | None = None
    causal: bool | None = None
    # none, bool or float with its axes, nested, varlen, cache, flex or bias.
    mask: str | None = None
    dropout: float = 0.0
    layout: str | None = None
    # FILE:LINE of the program; empty where no line of it called.
    site: str = ""


def parse_attention_range(name: str) -> AttentionRange | None:
    """Return what a name says, or None for any other text."""
    if len(name) > _MAX_LENGTH or not name.startswith(PREFIX):
        return None
    head, _, site = name.partition("::at=")
    parts = head.split("::")
    if len(parts) < 3:
        return None
    _, which, function, *words = parts
    if which not in ("fwd", "bwd") or not _FUNCTION.fullmatch(function):
        return None
    found: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        fact = _fact(key, value)
        if fact is None or fact[0] in found:
            return None
        found[fact[0]] = fact[1]
    return AttentionRange(function, which, site=site, **found)


def _fact(key: str, value: str) -> tuple[str, Any] | None:
    """Return the field and the value of one word; None for one that is not of the grammar."""
    if key in _SIZES:
        return (_SIZES[key], int(value)) if _SIZE.fullmatch(value) else None
    if key == "causal":
        return ("causal", value == "1") if value in ("0", "1") else None
    if key == "p":
        try:
            return ("dropout", float(value)) if 0 <= float(value) <= 1 else None
        except ValueError:
            return None
    return (key, value) if key in ("dtype", "mask", "layout") and _WORD.fullmatch(value) else None
