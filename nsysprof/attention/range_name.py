"""Format and parse names of NVTX ranges by strict grammars. Trace content is untrusted, so nothing is evaluated.

A case of a grid, where each key appears at most once, and only where the grid varies that dimension (the keys are B, H,
KV, D, dtype, causal, pass, K, mask, layout, DV, cap, sinks, cache and page; K and DV also where any keys are longer or
shorter than their queries, and where any heads of v have another size):

    RUN::<backend>::S<seq>[::<key>=<value>]...

A call that `capture --attention` recorded, written by nsysprof.workload.program_start.attention_calls. Every key is
optional; unknown keys make a name another's:

    attention::<fwd|bwd>::<function>::B=2::H=32::KV=8::Q=1024::K=1024::D=128::dtype=bf16::causal=1::mask=none::at=FILE:LINE
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from nsysprof.attention.mask import DTYPES, KV_DTYPES, PASSES
from nsysprof.attention.shape import BACKEND_PATTERN, Case

_BACKEND = re.compile(BACKEND_PATTERN)
_SIZE = re.compile(r"[1-9][0-9]{0,11}")
_KEYS: dict[str, str] = {
    "B": "batch",
    "H": "heads",
    "KV": "own_kv_heads",
    "D": "head_dim",
    "dtype": "dtype",
    "causal": "causal",
    "pass": "pass_",
    "K": "own_kv_seq",
    "mask": "mask",
    "layout": "layout",
    "DV": "own_head_dim_v",
    "cap": "softcap",
    "sinks": "sinks",
    "cache": "kv_dtype",
    "page": "page_size",
}
# The fields whose keys have None where they are like another field, and which are then named in no case or in all.
_OWN = {"KV": "kv_heads", "K": "kv_seq", "DV": "head_dim_v"}
_FLAGS = ("causal", "sinks")
_CHOICES = {"dtype": DTYPES, "pass": PASSES, "cache": KV_DTYPES}
_NUMBER = re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?")
_WORDS = {"mask": re.compile(r"[a-z0-9:]{1,34}"), "layout": re.compile(r"[bhsd+,]{1,20}")}
_MAX_LENGTH = 512
# One of the keys, in a file.
RangeKey = Annotated[str, Meta(pattern=f"^({'|'.join(_KEYS)})$")]

# XLA: `Thunk:#name=jit(step)/jvp()/dot_general,hlo_op=command_buffer_1,unique_hlo_op_id=3#`.
_XLA = re.compile(r"(\w+):#(.*)#$", re.DOTALL)
_FIELD = re.compile(r"(?:^|,)(hlo_module|hlo_op|name|module)=([^,]+)")
# The label is the first of these fields that a range has.
_TELLING = ("hlo_op", "hlo_module", "name", "module")


@dataclass(frozen=True)
class ParsedRange:
    """What a range name says."""

    backend: str
    seq: int
    # The varied dimensions, with their keys in the name.
    extra: tuple[tuple[str, str], ...] = ()

    @property
    def variant(self) -> str:
        """Return the varied dimensions as text, empty for the plain grid."""
        return " ".join(f"{key}={value}" for key, value in self.extra)


def varied_keys(cases: Iterable[Case]) -> tuple[str, ...]:
    """Return the keys of the dimensions, other than backend and seq, that take more than one value over the grid."""
    cells = list(cases)
    values = {key: {getattr(cell, field) for cell in cells} for key, field in _KEYS.items()}
    return tuple(key for key, of_key in values.items() if len(of_key) > 1 or (key in ("K", "DV") and of_key - {None}))


def format_range(case: Case, keys: Iterable[str] = ()) -> str:
    """Return the NVTX name of a case, with the dimensions in `keys`."""
    parts = ["RUN", case.backend, f"S{case.seq}"]
    for key in keys:
        value = getattr(case, _OWN.get(key, _KEYS[key]))
        value = int(value) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else value
        parts.append(f"{key}={value}")
    return "::".join(parts)


def parse_range(name: str) -> ParsedRange | None:
    """Return the parts of one of our range names, or None for any other text."""
    if len(name) > _MAX_LENGTH or not name.startswith("RUN::"):
        return None
    head, *rest = name.split("::")[1:] or [""]
    if _BACKEND.fullmatch(head) is None or not rest or rest[0][:1] != "S" or not _SIZE.fullmatch(rest[0][1:]):
        return None
    extra: dict[str, str] = {}
    for part in rest[1:]:
        key, _, value = part.partition("=")
        if key not in _KEYS or key in extra or not _is_value(key, value):
            return None
        extra[key] = value
    return ParsedRange(head, int(rest[0][1:]), tuple(extra.items()))


def _is_value(key: str, value: str) -> bool:
    if key in _CHOICES:
        return value in _CHOICES[key]
    if key in _WORDS:
        return _WORDS[key].fullmatch(value) is not None
    if key in _FLAGS:
        return value in ("0", "1")
    if key in ("cap", "page"):
        return _NUMBER.fullmatch(value) is not None
    return _SIZE.fullmatch(value) is not None


RECORDED_PREFIX = "attention::"
# Functions whose ranges hold more than attention.
LAYERS = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")
_RECORDED_SIZES = {
    "B": "batch", "H": "heads", "KV": "kv_heads", "Q": "seq_q", "K": "seq_kv", "D": "head_dim", "DV": "head_dim_v",
}  # fmt: skip
_RECORDED_SIZE = re.compile(r"[0-9]{1,12}")
_RECORDED_WORD = re.compile(r"[\w:,+]{1,40}")
_RECORDED_FUNCTION = re.compile(r"\w{1,60}")
_LONGEST_RECORDED = 512


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
    if len(name) > _LONGEST_RECORDED or not name.startswith(RECORDED_PREFIX):
        return None
    head, _, site = name.partition("::at=")
    parts = head.split("::")
    if len(parts) < 3:
        return None
    _, which, function, *words = parts
    if which not in ("fwd", "bwd") or not _RECORDED_FUNCTION.fullmatch(function):
        return None
    facts: dict[str, Any] = {}
    for word in words:
        key, _, value = word.partition("=")
        fact = _fact(key, value)
        if fact is None or fact[0] in facts:
            return None
        facts[fact[0]] = fact[1]
    return AttentionRange(function, which, site=site, **facts)


def _fact(key: str, value: str) -> tuple[str, Any] | None:
    """Return the field and the value of one word; None for one that is not of the grammar."""
    if key in _RECORDED_SIZES:
        return (_RECORDED_SIZES[key], int(value)) if _RECORDED_SIZE.fullmatch(value) else None
    if key == "causal":
        return ("causal", value == "1") if value in ("0", "1") else None
    if key == "p":
        try:
            return ("dropout", float(value)) if 0 <= float(value) <= 1 else None
        except ValueError:
            return None
    return (key, value) if key in ("dtype", "mask", "layout") and _RECORDED_WORD.fullmatch(value) else None


def range_label(name: str) -> str:
    """Return the name of a range, or the kind and the subject of one that XLA annotated (`Thunk command_buffer_1`)."""
    match = _XLA.match(name)
    if match is None:
        return name
    fields = dict(_FIELD.findall(match[2]))
    telling = next((fields[key] for key in _TELLING if key in fields), None)
    return name if telling is None else f"{match[1]} {telling}"
