"""Define the shape of an attention call and its work, batches, and the cases of a grid, which are measured.

FLOPs: q k^T and (scores) v are two matrix products of 2 S_q S_k D each, per head and batch entry. A causal mask halves
them; where the lengths differ it is torch's, from the top left: query i sees the keys up to i. A window counts the
scores that it leaves, other masks all of them, because their content is not known. Backward counts 2.5 times the
forward pass, because it computes the scores again and forms four products (Dao, FlashAttention-2, 2023, section 4.1).
Softmax is not counted. With grouped heads, the heads of q count.

Values may have heads of another size than keys: the second product counts that size. Capped scores and sinks count
nothing, as softmax does not.

Bytes: what must cross the memory bus once if nothing is cached before and no intermediate is written. Forward reads q
and the mask, and the keys and values that any query sees, and writes the output. Backward reads the same, the output
and its gradient, and writes three gradients. An fp8 cache counts one byte a number, and a page table is read too.

A batch is written in the grammar of vLLM's attention benchmarks, with the queries and the context of each sequence:

    8q1s1k            8 sequences that decode: 1 query each, 1,024 keys
    q1ks4k            a chunk of a prefill: 1,024 queries, the last of 4,096 keys
    2q2k_32q1s1k      a mixed batch: 2 prefills of 2,048 and 32 sequences that decode

A group is [COUNT]qQUERIES[k][sKEYS[k]]; k is times 1,024, and the keys are those of the queries too.

Backends are also those that installed packages register as entry points of the group `nsysprof.backends`. A package
names a callable (q, k, v, is_causal) -> out in its pyproject.toml, and the name becomes a backend:

    [project.entry-points."nsysprof.backends"]
    mine = "mypkg.kernels:attention"

Reading the names imports neither the package nor torch. Only the measured process loads the callable.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, fields, force_setattr, replace

from nsysprof.attention.mask import (
    BACKENDS,
    DTYPES,
    KV_DTYPES,
    LEARNED,
    MASK_PATTERN,
    PASSES,
    SERVED,
    Window,
    check_masks,
    hidden_before,
    mask_of_window,
    read_window,
    visible_scores,
)
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import explain_decoding

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


DTYPE_BYTES = {"fp16": 2, "bf16": 2, "fp32": 4, "fp8": 1}
_PAGE_NUMBER_BYTES = 4
# A petabyte: what no machine holds.
_MOST_BYTES = 2**50

Size = Annotated[int, Meta(ge=1, le=10**12)]
Dtype = Annotated[str, Meta(pattern=f"^({'|'.join(DTYPES)})$")]
Pass = Annotated[str, Meta(pattern=f"^({'|'.join(PASSES)})$")]
Mask = Annotated[str, Meta(pattern=MASK_PATTERN)]
_ORDER = "(?=[bhs]*b)(?=[bhs]*h)(?=[bhs]*s)[bhs]{3}d"
KvDtype = Annotated[str, Meta(pattern=f"^({'|'.join(KV_DTYPES)})$")]
Layout = Annotated[str, Meta(pattern=rf"^{_ORDER}\+?(,{_ORDER}\+?,{_ORDER}\+?)?$")]


# Fields that are the same as another one where nothing else is said.
LIKE = {"kv_heads": "heads", "kv_seq": "seq", "head_dim_v": "head_dim"}


class Shape(Struct, frozen=True, order=True, kw_only=True, rename={"pass_": "pass"}):
    """The sizes of q, k and v, and what is computed from them. Cases are compared only when their shapes are equal.

    q is (batch, heads, seq, head_dim), k (batch, kv_heads, kv_seq, head_dim), v (batch, kv_heads, kv_seq, head_dim_v).
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
    # "none", a kind and which of the axes it has ("bool:b11k"), or "window:256:0": nsysprof.attention.shape.
    mask: Mask = "none"
    # The memory layout: the order of the axes, of all or of q, k and v; + where other memory lies between them.
    layout: Layout = "bhsd"
    # 0 when not given, which means as large as the heads of q and k.
    head_dim_v: Annotated[int, Meta(ge=0, le=10**12)] = 0
    # Scores x become softcap * tanh(x / softcap); 0 leaves them as they are.
    softcap: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    # Whether each head of q has a number beside its scores, which takes part in the softmax and has no value.
    sinks: bool = False
    # The data type in which k and v are stored: "same" as q, or "fp8" (e4m3, scale 1).
    kv_dtype: KvDtype = "same"
    # Keys in a page of a paged cache, whose pages lie in any order; 0 for keys that follow each other in memory.
    page_size: Annotated[int, Meta(ge=0, le=10**9)] = 0

    def __post_init__(self) -> None:
        for name, like in LIKE.items():
            if not getattr(self, name):
                force_setattr(self, name, getattr(self, like))

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
    def own_head_dim_v(self) -> int | None:
        """Return head_dim_v where it differs from head_dim, else None, so that a grid of many sizes has one value."""
        return None if self.head_dim_v == self.head_dim else self.head_dim_v

    @property
    def query_bytes(self) -> int:
        """Return the bytes of q."""
        return self.batch * self.heads * self.seq * self.head_dim * DTYPE_BYTES[self.dtype]

    @property
    def kv_bytes(self) -> int:
        """Return the bytes of k and v as they are stored."""
        size = DTYPE_BYTES[self.dtype if self.kv_dtype == "same" else self.kv_dtype]
        return self.batch * self.kv_heads * self.kv_seq * (self.head_dim + self.head_dim_v) * size

    @property
    def input_bytes(self) -> int:
        """Return the bytes of q, k and v together."""
        return self.query_bytes + self.kv_bytes

    @property
    def served_words(self) -> list[str]:
        """Return what of a served model a shape has, as `DV=128`, `cap=50`, `sinks`, `cache=fp8` and `page=16`."""
        words = [f"DV={self.head_dim_v}"] if self.own_head_dim_v is not None else []
        words += [f"cap={self.softcap:g}"] if self.softcap else []
        words += ["sinks"] if self.sinks else []
        words += [f"cache={self.kv_dtype}"] if self.kv_dtype != "same" else []
        return words + ([f"page={self.page_size}"] if self.page_size else [])

    @property
    def is_beyond_torch(self) -> bool:
        """Return whether no call of torch's scaled_dot_product_attention has this shape."""
        return bool(self.softcap or self.sinks or self.page_size or self.kv_dtype != "same")

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
        """Return the bytes of the result, which has the lengths of q and the head size of v."""
        return self.batch * self.heads * self.seq * self.head_dim_v * DTYPE_BYTES[self.dtype]


def has_learned_mask(shape: Shape) -> bool:
    """Return whether the mask needs a gradient."""
    return shape.mask.startswith(LEARNED)


# The names that a shape's fields have in files and tables.
SHAPE_COLUMNS = tuple(field.encode_name for field in fields(Shape))


def varied_columns(table: Any) -> list[str]:
    """Return the columns of SHAPE_COLUMNS that a table needs: those in which a case differs from the usual value."""
    chosen = []
    for column in SHAPE_COLUMNS:
        if column not in table:
            continue
        usual = table[LIKE[column]] if column in LIKE and LIKE[column] in table else USUAL.get(column)
        if usual is None or bool((table[column] != usual).any()):
            chosen.append(column)
    return chosen


def named_columns(table: Any) -> list[str]:
    """Return the columns that tell the cases of a table apart: their lengths, and what has more than one value."""
    columns = varied_columns(table)
    return [name for name in columns if name in ("seq", "kv_seq") or table[name].nunique(dropna=False) > 1]


# What columns hold of most shapes.
USUAL: dict[str, Any] = {
    "mask": "none", "layout": "bhsd", "softcap": 0.0, "sinks": False, "kv_dtype": "same", "page_size": 0,
}  # fmt: skip
_LATER = ("kv_seq", "head_dim_v", *USUAL)


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
        **{name: type(USUAL.get(name, 0))(row[name]) for name in _LATER if name in row},
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
    sizes = shape.head_dim, shape.head_dim_v
    forward = forward_flops(shape.batch, shape.heads, shape.seq, shape.kv_seq, *sizes) * share
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
    read = shape.query_bytes + shape.kv_bytes * seen_keys(shape) // shape.kv_seq + shape.mask_bytes
    if shape.page_size:
        read += shape.batch * -(-seen_keys(shape) // shape.page_size) * _PAGE_NUMBER_BYTES
    forward = read + shape.output_bytes
    backward = read + 2 * shape.output_bytes + shape.input_bytes  # out and its gradient; write three gradients
    if has_learned_mask(shape):
        backward += shape.mask_bytes
    return {"fwd": forward, "bwd": backward, "fwdbwd": forward + backward}[shape.pass_]


_SIZE = r"([1-9][0-9]{0,8})(k?)"
_GROUP = re.compile(rf"([1-9][0-9]{{0,8}})?q{_SIZE}(?:s{_SIZE})?")
_EXAMPLES = "8q1s1k decodes 8 sequences of 1,024 keys, q1ks4k is a chunk of a prefill, 2q2k_32q1s1k a mixed batch"
# What people write instead, and what it should be.
_SLIPS = (
    (r"\s+", ""),
    (r"[+;/|-]", "_"),
    (r"(?<=\d)[x*](?=q)", ""),
    (r"ctx|kv", "s"),
    (r"(?<=\d)(k?)b(?=$|_|s)", r"\1"),
    (r"(^|_)(\d*)s(\d+k?)(?=$|_)", r"\1\2q1s\3"),
    (r"q(?=s)", "q1"),
    (r"(^|_)(\d+k?)(?=$|_)", r"\1q\2"),
    (r"_+", "_"),
    (r"^_|_$", ""),
)


class BatchGroup(NamedTuple):
    """Sequences of equal lengths in a batch."""

    sequences: int
    queries: int
    # All keys that a sequence has, with those of its queries.
    keys: int


def parse_batch_specs(specs: Sequence[str]) -> list[BatchGroup]:
    """Return the groups of all batches without repeats. Raises UsageError for a spec that is not of the grammar."""
    return list(dict.fromkeys(_parse_group(part, spec) for spec in specs for part in spec.split("_")))


def _parse_group(part: str, spec: str) -> BatchGroup:
    match = _GROUP.fullmatch(part)
    if match is None:
        near = _nearest(spec)
        hint = f"Did you mean {near}? " if near else ""
        what = f"'{part}' in '{spec}'" if part != spec else f"'{spec}'"
        raise UsageError(
            f"--batch-spec: {what} is not [COUNT]qQUERIES[k][sKEYS[k]].",
            f"{hint}{_EXAMPLES[0].upper()}{_EXAMPLES[1:]}.",
        )
    count, queries, many_queries, keys, many_keys = match.groups()
    length = int(queries) * (1024 if many_queries else 1)
    context = length if keys is None else int(keys) * (1024 if many_keys else 1)
    if context < length:
        raise UsageError(
            f"--batch-spec {part}: {context:,} keys are fewer than the {length:,} queries, whose keys are among them.",
            f"Did you mean {count or ''}q{queries}{many_queries}s{queries}{many_queries}, or "
            f"{count or ''}q{keys}{many_keys}s{queries}{many_queries}?",
        )
    return BatchGroup(int(count or 1), length, context)


def _nearest(spec: str) -> str:
    """Return what was probably meant, or "" where no usual slip explains it."""
    text = spec.lower()
    for slip, right in _SLIPS:
        text = re.sub(slip, right, text)
    return text if all(_GROUP.fullmatch(part) for part in text.split("_")) else ""


# One of our names, a plug-in's name, the user's own `module:function`, or `hub:OWNER/NAME`, as far as a range name can
# contain it.
BACKEND_PATTERN = r"^([A-Za-z_][\w.]*(:[A-Za-z_]\w*)?|hub:[\w.-]{1,96}/[\w.-]{1,96})$"


class Case(Shape, frozen=True, order=True):
    """A shape and the backend that computes it."""

    backend: Annotated[str, Meta(pattern=BACKEND_PATTERN, max_length=300)]


def case_of_row(row: Mapping[Any, Any]) -> Case:
    """Return the case in a row of a table with `backend` and SHAPE_COLUMNS."""
    return make_case(str(row["backend"]), shape_of_row(row))


def row_of_case(case: Case) -> dict[str, Any]:
    """Return a case as a row of a table: `backend` and SHAPE_COLUMNS."""
    return dict(msgspec.to_builtins(case))


def check_case_row(row: Mapping[Any, Any]) -> None:
    """Raise ValueError, which names the column, when a row of a file does not describe a case."""
    flags = {name: {"True": True, "False": False}.get(str(row[name])) for name in ("causal", "sinks")}
    try:
        msgspec.convert({**row, **flags}, Case)
    except msgspec.ValidationError as failed:
        raise ValueError(explain_decoding(failed)) from failed


def make_case(backend: str, shape: Shape) -> Case:
    """Return the case of a backend on a shape."""
    return Case(backend, **asdict(shape))


class Served(NamedTuple):
    """What the attention of a served model has beside plain sizes: the fields of Shape by these names."""

    # 0 for as large as the heads of q.
    head_dim_v: int = 0
    softcap: float = 0.0
    sinks: bool = False
    kv_dtype: str = "same"
    page_size: int = 0


PLAIN = Served()


def check_served(shape: Shape) -> None:
    """Raise UsageError for a shape that contradicts itself or that no memory holds."""
    if not math.isfinite(shape.softcap) or shape.softcap < 0:
        raise UsageError(f"--softcap {shape.softcap:g} is not a bound of scores.", "Give a number above 0, such as 50.")
    if shape.page_size < 0 or (shape.page_size and shape.kv_seq % shape.page_size):
        size = abs(shape.page_size)
        near = [size // math.gcd(size, shape.kv_seq), -(-shape.kv_seq // size) * size]
        divisor = max(page for page in range(1, size + 1) if shape.kv_seq % page == 0) if size < 1 << 20 else near[0]
        raise UsageError(
            f"--page-size {shape.page_size} does not divide the {shape.kv_seq:,} keys of a sequence.",
            f"Give --page-size {divisor}, or --kv-seq {near[1]}: pages are measured when they are full.",
        )
    inference = [("--kv-dtype fp8", shape.kv_dtype != "same"), ("--page-size", bool(shape.page_size))]
    for option, given in inference:
        if given and shape.pass_ != "fwd":
            raise UsageError(
                f"{option} is for a cache, which has no gradients, and --pass is {shape.pass_}.",
                f"Give --pass fwd, or leave {option.split(maxsplit=1)[0]} out.",
            )
    if shape.input_bytes > _MOST_BYTES:
        raise UsageError(
            f"q, k and v of --seq {shape.seq}, --kv-seq {shape.kv_seq} and --batch {shape.batch} have "
            f"{shape.input_bytes:.3g} bytes, more than any memory holds.",
            f"Give lengths and batches {shape.input_bytes / _MOST_BYTES:.2g} times smaller, or less.",
        )


def expand_grid(
    backends: Sequence[str],
    seqs: Sequence[int],
    batches: Sequence[int] = (1,),
    heads: Sequence[int] = (8,),
    head_dims: Sequence[int] = (64,),
    dtypes: Sequence[str] = ("fp16",),
    causals: Sequence[bool] = (),
    passes: Sequence[str] = ("fwd",),
    kv_heads: Sequence[int] = (),
    kv_seqs: Sequence[int] = (),
    masks: Sequence[str] = ("none",),
    window: Window | None = None,
    served: Served = PLAIN,
) -> list[Case]:
    """Return every combination, in the order given and without repeats. The backend changes slowest.

    Raises UsageError for an empty list, an unknown name, a size below one, heads that kv_heads does not divide, or a
    shape that none of the backends takes.

    causals: empty for a causal mask where there is no other.
    kv_heads, kv_seqs: empty for as many as heads and as long as seq.
    window: the keys before and after its place that a query sees, each None for all; None for no window.
    """
    check_names("backend", backends, known_backends())
    check_names("dtype", dtypes, DTYPES)
    check_names("pass", passes, PASSES)
    for name, sizes in (("seq", seqs), ("batch", batches), ("heads", heads), ("head-dim", head_dims)):
        check_sizes(name, sizes)
    check_sizes("kv-seq", kv_seqs or [1])
    head_pairs = [(h, kv) for h in heads for kv in _key_heads(h, kv_heads)]
    settled = _settle_masks(causals, masks, window)
    cells = itertools.product(backends, batches, head_pairs, head_dims, dtypes, settled, passes, seqs, kv_seqs or [0])
    extra = served._asdict()
    cases = (
        Case(
            b, seq=s, batch=n, heads=h, kv_heads=kv, head_dim=d, dtype=t, pass_=p, kv_seq=ks, mask=m, causal=c, **extra
        )
        for b, n, (h, kv), d, t, mask, p, s, ks in cells
        for m, c in [mask if window is None else mask_of_window(window, s, ks or s)]
    )
    unique = list(dict.fromkeys(cases))
    for shape in dict.fromkeys(case.shape for case in unique):
        check_served(shape)
    return unique


def _settle_masks(causals: Sequence[bool], masks: Sequence[str], window: Window | None) -> list[tuple[str, bool]]:
    """Return each mask and whether it is causal. Raises UsageError for two of them at once."""
    check_masks(tuple(masks))
    others = [mask for mask in masks if mask != "none"]
    if window is not None and others:
        raise UsageError(
            f"--window and --mask {others[0]} exclude each other: a window is a mask of its own.",
            "Leave one of them out; --window 256,0 is a causal window.",
        )
    if True in causals and (window is not None or others):
        near = (
            "--window LEFT,0 is a causal window" if window is not None else "a bool mask may hide what is_causal hides"
        )
        raise UsageError(
            f"--causal and {'--window' if window is not None else '--mask'} exclude each other in torch.",
            f"Leave --causal out; {near}.",
        )
    return [(mask, causal) for mask in masks for causal in causals or [mask == "none"]]


def _key_heads(heads: int, kv_heads: Sequence[int]) -> Sequence[int]:
    if not kv_heads:
        return [heads]
    check_sizes("kv-heads", kv_heads)
    for count in kv_heads:
        if heads % count:
            raise UsageError(
                f"--kv-heads {count} does not divide --heads {heads}.",
                "Each head of k and v serves the same number of heads of q: give a divisor of every --heads.",
            )
    return kv_heads


def known_backends() -> tuple[str, ...]:
    """Return torch's backends and those adapted here, then those that installed packages register under other names."""
    own = (*BACKENDS, *SERVED)
    return (*own, *(name for name in registered_backends() if name not in own))


_CALLABLE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def is_callable_backend(name: str) -> bool:
    """Return whether a backend's name is a `module:function` of the user's own."""
    return _CALLABLE.fullmatch(name) is not None


_HUB = re.compile(r"hub:[\w.-]{1,96}/[\w.-]{1,96}")


def is_hub_backend(name: str) -> bool:
    """Return whether a backend's name is `hub:OWNER/NAME`, a kernel of a hub that the package kernels loads."""
    return _HUB.fullmatch(name) is not None


def check_names(what: str, names: Sequence[str], known: Sequence[str]) -> None:
    """Raise UsageError when there is no name, or an unknown one. The error suggests a known name that is close."""
    if not names:
        raise UsageError(f"--{what} is empty.", f"Give one or more of {', '.join(known)}.")
    for name in names:
        if what == "backend" and name.startswith("hub:") and not is_hub_backend(name):
            raise UsageError(f"{name} is not a kernel of a hub.", "Give hub:OWNER/NAME.")
        if name not in known and not (what == "backend" and (is_callable_backend(name) or is_hub_backend(name))):
            close = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            more = ", hub:OWNER/NAME, or module:function of your own" if what == "backend" else ""
            raise UsageError(f"Unknown {what} '{name}'.{hint}", f"Known: {', '.join(known)}{more}.")


def check_sizes(name: str, sizes: Sequence[int]) -> None:
    """Raise UsageError when there is no size at all, or one below one."""
    if not sizes:
        raise UsageError(f"--{name} is empty.", "Give one or more positive integers, separated by commas.")
    for size in sizes:
        if size < 1:
            raise UsageError(f"--{name} {size} is not a valid size.", "Give positive integers.")


GROUP = "nsysprof.backends"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # what a range name can contain


@cache
def _points(_path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of the packages on this sys.path. They are cached: a command asks a dozen times."""
    from importlib.metadata import entry_points  # only here: it loads a parser of e-mail

    return tuple(entry_points(group=GROUP))


def registered_backends() -> dict[str, EntryPoint]:
    """Return every registered backend by name, sorted.

    A name that a range name cannot contain is left out. Where two packages register the same name, the first on
    sys.path counts, as in an import.
    """
    points_by_name: dict[str, EntryPoint] = {}
    for point in _points(tuple(sys.path)):
        if _NAME.fullmatch(point.name):
            points_by_name.setdefault(point.name, point)
    return dict(sorted(points_by_name.items()))
