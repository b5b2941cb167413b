"""Shape: the work that one call of attention does, whatever backend does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct
from msgspec.structs import fields, force_setattr

from nsysprof.attention.choices import DTYPES, PASSES

DTYPE_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4}

Size = Annotated[int, Meta(ge=1, le=10**12)]
Dtype = Annotated[str, Meta(pattern=f"^({'|'.join(DTYPES)})$")]
Pass = Annotated[str, Meta(pattern=f"^({'|'.join(PASSES)})$")]


class Shape(Struct, frozen=True, order=True, kw_only=True, rename={"pass_": "pass"}):
    """The sizes of q, k and v, and what is computed from them. Cases are compared only when their shapes are equal.

    q is (batch, heads, seq, head_dim); k and v are (batch, kv_heads, seq, head_dim).
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

    def __post_init__(self) -> None:
        if not self.kv_heads:
            force_setattr(self, "kv_heads", self.heads)

    @property
    def shape(self) -> Shape:
        """Return the shape alone, without what a subclass adds. Equal shapes mean equal work."""
        return Shape(**{name: getattr(self, name) for name in Shape.__struct_fields__})

    @property
    def own_kv_heads(self) -> int | None:
        """Return kv_heads where it differs from heads, else None, so that a grid of many heads has one value."""
        return None if self.kv_heads == self.heads else self.kv_heads

    @property
    def input_bytes(self) -> int:
        """Return the bytes of q, k and v together."""
        return self.output_bytes + 2 * self.output_bytes * self.kv_heads // self.heads

    @property
    def output_bytes(self) -> int:
        """Return the bytes of the result, which has the size of q."""
        return self.batch * self.heads * self.seq * self.head_dim * DTYPE_BYTES[self.dtype]


# The names that a shape's fields have in files and tables.
SHAPE_COLUMNS = tuple(field.encode_name for field in fields(Shape))


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
    )
