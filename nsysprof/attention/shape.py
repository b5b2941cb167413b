"""Define the shape of an attention call, which determines its work whichever backend does it, and compute that work.

FLOPs: q k^T and (scores) v are two matrix products of 2 S_q S_k D each, per head and batch entry. A causal mask halves
them; where the lengths differ it is torch's, from the top left: query i sees the keys up to i. A window counts the
scores that it leaves, other masks all of them, because their content is not known. Backward counts 2.5 times the
forward pass, because it computes the scores again and forms four products (Dao, FlashAttention-2, 2023, section 4.1).
Softmax is not counted. With grouped heads, the heads of q count.

Bytes: what must cross the memory bus once if nothing is cached before and no intermediate is written. Forward reads q
and the mask, and the keys and values that any query sees, and writes the output. Backward reads the same, the output
and its gradient, and writes three gradients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import fields, force_setattr, replace

from nsysprof.attention.choices import DTYPES, PASSES
from nsysprof.attention.mask import LEARNED, MASK_PATTERN, Window, hidden_before, read_window, visible_scores

DTYPE_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}

Size = Annotated[int, Meta(ge=1, le=10**12)]
Dtype = Annotated[str, Meta(pattern=f"^({'|'.join(DTYPES)})$")]
Pass = Annotated[str, Meta(pattern=f"^({'|'.join(PASSES)})$")]
Mask = Annotated[str, Meta(pattern=MASK_PATTERN)]
_ORDER = "(?=[bhs]*b)(?=[bhs]*h)(?=[bhs]*s)[bhs]{3}d"
Layout = Annotated[str, Meta(pattern=rf"^{_ORDER}\+?(,{_ORDER}\+?,{_ORDER}\+?)?$")]


class Shape(Struct, frozen=True, order=True, kw_only=True, rename={"pass_": "pass"}):
    """The sizes of q, k and v, and what is computed from them. Cases are compared only when their shapes are equal.

    q is (batch, heads, seq, head_dim); k and v are (batch, kv_heads, kv_seq, head_dim).
    """

    seq: Size
    batch: Size = 1
    heads: Size = 8
    # 0 when not given, which means as many as heads.
    kv_heads: Annotated[int, Meta(ge=0, le=10**12)] = 0
    head_dim: Size = 64
    dtype: Dtype = "fp16"
    causal: bool = True
    pass_: Pass = "fwd"
    # 0 when not given, which means as long as q.
    kv_seq: Annotated[int, Meta(ge=0, le=10**12)] = 0
    # "none", a kind and which of the axes it has ("bool:b11k"), or "window:256:0": nsysprof.attention.mask.
    mask: Mask = "none"
    # The memory layout: the order of the axes, of all or of q, k and v; + where other memory lies between them.
    layout: Layout = "bhsd"

    def __post_init__(self) -> None:
        if not self.kv_heads:
            force_setattr(self, "kv_heads", self.heads)
        if not self.kv_seq:
            force_setattr(self, "kv_seq", self.seq)

    @property
    def shape(self) -> Shape:
        """Return the shape alone, without what a subclass adds. Equal shapes mean equal work."""
        return Shape(**{name: getattr(self, name) for name in Shape.__struct_fields__})

    def key_without_layout(self) -> Shape:
        """Return the key in which a call and a rule must agree. Memory layout and axes of a mask are not part of it."""
        return replace(self.shape, layout="bhsd", mask=self.mask if self.window else self.mask.partition(":")[0])

    @property
    def window(self) -> Window | None:
        """Return how many keys a query sees before and after its own place; None without a window."""
        return read_window(self.mask)

    @property
    def own_kv_heads(self) -> int | None:
        """Return kv_heads where it differs from heads, else None, so that a grid of many heads has one value."""
        return None if self.kv_heads == self.heads else self.kv_heads

    @property
    def own_kv_seq(self) -> int | None:
        """Return kv_seq where it differs from seq, else None, so that a grid of many lengths has one value."""
        return None if self.kv_seq == self.seq else self.kv_seq

    @property
    def input_bytes(self) -> int:
        """Return the bytes of q, k and v together."""
        keys = self.batch * self.kv_heads * self.kv_seq * self.head_dim * DTYPE_BYTES[self.dtype]
        return self.output_bytes + 2 * keys

    @property
    def mask_sizes(self) -> tuple[int, ...] | None:
        """Return the sizes of the mask, 1 along the axes that it does not have; None without a mask."""
        kind, _, axes = self.mask.partition(":")
        if kind == "none":
            return None
        if kind == "window":
            axes = ""
        sizes = (self.batch, self.heads, self.seq, self.kv_seq)
        return tuple(1 if axis == "1" else size for axis, size in zip(axes or "11qk", sizes, strict=True))

    @property
    def mask_bytes(self) -> int:
        """Return the bytes of the mask where it is an input; a window is none, whatever a backend makes of it."""
        sizes = None if self.window else self.mask_sizes
        return 0 if sizes is None else math.prod(sizes) * (1 if self.mask[:4] == "bool" else DTYPE_BYTES[self.dtype])

    @property
    def layouts(self) -> tuple[str, str, str]:
        """Return the order of the axes in memory of q, k and v."""
        parts = self.layout.split(",")
        return (parts[0], parts[0], parts[0]) if len(parts) == 1 else (parts[0], parts[1], parts[2])

    @property
    def output_bytes(self) -> int:
        """Return the bytes of the result, which has the size of q."""
        return self.batch * self.heads * self.seq * self.head_dim * DTYPE_BYTES[self.dtype]


def has_learned_mask(shape: Shape) -> bool:
    """Return whether the mask needs a gradient."""
    return shape.mask.startswith(LEARNED)


# The names that a shape's fields have in files and tables.
SHAPE_COLUMNS = tuple(field.encode_name for field in fields(Shape))


def varied_columns(table: Any) -> list[str]:
    """Return the columns of SHAPE_COLUMNS that a table needs: those in which a case differs from the usual value."""
    plain = {"kv_heads": "heads", "kv_seq": "seq"}
    fixed = {"mask": "none", "layout": "bhsd"}
    chosen = []
    for column in SHAPE_COLUMNS:
        if column not in table:
            continue
        usual = table[plain[column]] if column in plain and plain[column] in table else fixed.get(column)
        if usual is None or bool((table[column] != usual).any()):
            chosen.append(column)
    return chosen


def named_columns(table: Any) -> list[str]:
    """Return the columns that tell the cases of a table apart: their lengths, and what has more than one value."""
    columns = varied_columns(table)
    return [name for name in columns if name in ("seq", "kv_seq") or table[name].nunique(dropna=False) > 1]


# Columns that older files do not have, with the function that makes their value from a cell.
_LATER: dict[str, type] = {"kv_seq": int, "mask": str, "layout": str}


def shape_of_row(row: Mapping[Any, Any]) -> Shape:
    """Return the shape in a row of a table with SHAPE_COLUMNS. Raises ValueError for an invalid cell."""
    return Shape(
        seq=int(row["seq"]),
        batch=int(row["batch"]),
        heads=int(row["heads"]),
        kv_heads=int(row["kv_heads"]),
        head_dim=int(row["head_dim"]),
        dtype=str(row["dtype"]),
        causal=bool(row["causal"]),
        pass_=str(row["pass"]),
        **{name: kind(row[name]) for name, kind in _LATER.items() if name in row},
    )


CONVENTION = (
    "FLOPs: 4 B H S S D forward, halved by a causal mask, backward 2.5 times forward; bytes: each input read once, "
    "each result written once"
)
# The gradient of attention has five products, since it computes the scores again, and the forward pass has two.
BACKWARD_FLOPS = 2.5


def forward_flops(batch: int, heads: int, seq: int, kv_seq: int, head_dim: int, head_dim_v: int) -> int:
    """Return the operations of a forward pass without a mask: products over the sizes of queries and of values."""
    return 2 * batch * heads * seq * kv_seq * (head_dim + head_dim_v)


def attention_flops(shape: Shape) -> float:
    """Return the floating-point operations of one call."""
    share = _seen_share(shape)
    size = shape.head_dim
    forward = forward_flops(shape.batch, shape.heads, shape.seq, shape.kv_seq, size, size) * share
    factor = {"fwd": 1.0, "bwd": BACKWARD_FLOPS, "fwdbwd": 1 + BACKWARD_FLOPS}[shape.pass_]
    return forward * factor


def _seen_share(shape: Shape) -> float:
    """Return the share of the scores that a causal mask or a window leaves, by convention one half for a square."""
    if shape.window:
        return visible_scores(shape.window, shape.seq, shape.kv_seq) / (shape.seq * shape.kv_seq)
    if not shape.causal:
        return 1.0
    if shape.seq == shape.kv_seq:
        return 0.5
    short = min(shape.seq, shape.kv_seq)
    seen = short * (short + 1) / 2 + (shape.seq - short) * shape.kv_seq
    return seen / (shape.seq * shape.kv_seq)


def seen_keys(shape: Shape) -> int:
    """Return how many keys any query sees. A causal mask hides the keys after as many as there are queries."""
    if shape.window:
        return shape.kv_seq - hidden_before(shape.window, shape.seq, shape.kv_seq)
    return min(shape.seq, shape.kv_seq) if shape.causal else shape.kv_seq


def least_bytes(shape: Shape) -> int:
    """Return the least bytes that one call moves to and from memory."""
    query = shape.output_bytes
    read = query + (shape.input_bytes - query) * seen_keys(shape) // shape.kv_seq + shape.mask_bytes
    forward = read + query
    backward = read + 2 * query + shape.input_bytes  # read q, k, v, out and its gradient; write three gradients
    if has_learned_mask(shape):
        backward += shape.mask_bytes
    return {"fwd": forward, "bwd": backward, "fwdbwd": forward + backward}[shape.pass_]
