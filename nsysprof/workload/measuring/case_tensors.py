"""Make the tensors of a case: q, k and v with their memory layout, the mask, the sinks, and the table of pages.

A paged cache is a pool of pages, (pages, page size, kv heads, head size), in which the pages of a sequence lie in a
random order. `page_table` says which belong to which sequence, and `plain_keys` puts them back in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from nsysprof.attention.eligibility import AttentionCall
from nsysprof.attention.mask import Window
from nsysprof.attention.shape import Shape, has_learned_mask

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}
FP8 = torch.float8_e4m3fn
_PAGE_SEED = 2


def draw_inputs(
    shape: Shape, device: str, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, k and v with random numbers, as the shape has them in memory."""
    q, k, v = (
        _draw(sizes, layout, shape, device, generator)
        for sizes, layout in zip(_sizes(shape), shape.layouts, strict=True)
    )
    return q, store(k, shape), store(v, shape)


def store(tensor: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Return keys or values as a cache holds them: in its data type, and in pages."""
    if shape.page_size:
        pages = tensor.transpose(1, 2).unflatten(1, (-1, shape.page_size)).flatten(0, 1)
        pool = torch.empty_like(pages, memory_format=torch.contiguous_format)
        pool[page_table(shape, str(tensor.device)).flatten()] = pages
        tensor = pool
    return tensor if shape.kv_dtype == "same" else tensor.to(FP8)


def page_table(shape: Shape, device: str) -> torch.Tensor:
    """Return the numbers of the pages of each sequence, of shape (batch, pages of a sequence). They are 64-bit."""
    pages = shape.batch * shape.kv_seq // shape.page_size
    order = torch.randperm(pages, generator=torch.Generator().manual_seed(_PAGE_SEED))
    return order.reshape(shape.batch, -1).to(device)


def plain_keys(
    shape: Shape, k: torch.Tensor, v: torch.Tensor, table: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return stored keys and values in the data type of q, as (batch, kv heads, keys, head size).

    table: of page_table; None without pages.
    """
    if table is not None:
        k, v = (_in_order(pool, table) for pool in (k, v))
    dtype = DTYPES[shape.dtype]
    return k.to(dtype), v.to(dtype)


def _in_order(pool: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    # Torch indexes eight-bit integers on every device, but not fp8.
    is_fp8 = pool.dtype == FP8
    pages = (pool.view(torch.uint8) if is_fp8 else pool)[table].flatten(1, 2).transpose(1, 2)
    return pages.view(FP8) if is_fp8 else pages


def make_sinks(shape: Shape, device: str) -> torch.Tensor | None:
    """Return the sink of each head of q in the data type of q, from -1 to 1; None without sinks."""
    return torch.linspace(-1, 1, shape.heads, device=device, dtype=DTYPES[shape.dtype]) if shape.sinks else None


def draw_gradient(shape: Shape, device: str, generator: torch.Generator) -> torch.Tensor:
    """Return a random gradient of the result, with the layout of q."""
    return _draw(
        (*_sizes(shape)[0][:3], shape.head_dim_v), shape.layouts[0].removesuffix("+"), shape, device, generator
    )


def make_mask(shape: Shape, device: str) -> torch.Tensor | None:
    """Return the mask of a shape, or None. Every query sees at least the first key. A learned mask needs a gradient.

    Along the batch, the sequences end at lengths between half of the keys and all. Along the queries, later keys are
    hidden. A float mask has a slope along the heads.
    """
    sizes = shape.mask_sizes
    if sizes is None:
        return None
    if shape.window is not None:
        return _window_mask(shape.window, shape, device)
    batch, heads, queries, keys = sizes
    key = torch.arange(keys, device=device)
    allowed = torch.ones((batch, 1, queries, keys), dtype=torch.bool, device=device)
    if batch > 1 and keys > 1:
        ends = torch.linspace((keys + 1) // 2, keys, batch, device=device).long()
        allowed = allowed & (key < ends[:, None, None, None])
    if queries > 1 and keys > 1:
        position = torch.arange(queries, device=device)[:, None] + max(0, shape.kv_seq - shape.seq)
        allowed = allowed & (key <= position)
    if shape.mask.startswith("bool"):
        return allowed.expand(sizes).contiguous()
    bias = torch.zeros(sizes, dtype=DTYPES[shape.dtype], device=device)
    if heads > 1:
        slopes = torch.linspace(0.1, 1.0, heads, device=device)[None, :, None, None]
        bias = bias - (slopes * (keys - 1 - key) / max(1, keys)).to(bias.dtype)
    return bias.masked_fill(~allowed, float("-inf")).requires_grad_(has_learned_mask(shape))


def _window_mask(window: Window, shape: Shape, device: str) -> torch.Tensor:
    """Return the mask of a window, of shape (1, 1, queries, keys). The last query stands at the last key."""
    key = torch.arange(shape.kv_seq, device=device)
    place = torch.arange(shape.kv_seq - shape.seq, shape.kv_seq, device=device)[:, None]
    left, right = window
    visible = torch.ones((shape.seq, shape.kv_seq), dtype=torch.bool, device=device)
    if left is not None:
        visible &= key >= place - left
    if right is not None:
        visible &= key <= place + right
    return visible[None, None]


def _sizes(shape: Shape) -> tuple[tuple[int, int, int, int], ...]:
    keys = (shape.batch, shape.kv_heads, shape.kv_seq)
    return (shape.batch, shape.heads, shape.seq, shape.head_dim), (*keys, shape.head_dim), (*keys, shape.head_dim_v)


def _draw(sizes: tuple[int, ...], layout: str, shape: Shape, device: str, generator: torch.Generator) -> torch.Tensor:
    """Return a tensor of (batch, heads, length, head size) whose axes lie in memory as `layout` says."""
    letters = layout.removesuffix("+")
    places = ["bhsd".index(letter) for letter in letters]
    inner: list[int] = [sizes[place] for place in places]
    options: dict[str, Any] = {"generator": generator, "device": device, "dtype": DTYPES[shape.dtype]}
    if layout.endswith("+"):  # as in a projection to q, k and v at once, or a part of a longer cache
        tensor = torch.randn((*inner[:2], 3, *inner[2:]), **options)[:, :, 0]
    else:
        tensor = torch.randn(inner, **options)
    return tensor.permute([letters.index(letter) for letter in "bhsd"])


class NoMemoryError(Exception):
    """The tensors alone do not fit into memory."""


@dataclass(frozen=True)
class AttentionInputs:
    """q, k, v and the mask, with the other arguments of scaled_dot_product_attention."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    causal: bool
    grouped: bool

    @property
    def positional(self) -> tuple[Any, ...]:
        """Return the inputs in the order of torch.backends.cuda.SDPAParams."""
        return self.q, self.k, self.v, self.mask, self.dropout, self.causal, self.grouped


def make_inputs(call: AttentionCall, device: str, *, fill: bool) -> AttentionInputs:
    """Return the tensors of `call`.

    They are real tensors of the full size: torch's checks look at strides too, and expanded or fake tensors differ in
    them. Raises NoMemoryError when they do not fit.

    fill: whether they need content. Without it, their content is undefined and no kernel is launched.
    """
    try:
        q, k, v = (
            _make_empty_or_random(shape, call, device, fill)
            for shape in (
                (call.batch, call.heads, call.seq, call.head_dim),
                (call.batch, call.kv_heads, call.kv_seq, call.head_dim),
                (call.batch, call.kv_heads, call.kv_seq, call.head_dim_v),
            )
        )
        mask = _make_call_mask(call, device, fill)
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise NoMemoryError(f"the inputs do not fit the memory: {str(error).splitlines()[0][:200]}") from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error) or "numel" in str(error) or "overflow" in str(error):
            raise NoMemoryError("the inputs do not fit the memory") from error
        raise
    return AttentionInputs(q, k, v, mask, call.dropout, call.causal, call.heads != call.kv_heads)


def _make_empty_or_random(shape: tuple[int, ...], call: AttentionCall, device: str, fill: bool) -> torch.Tensor:
    make = torch.randn if fill else torch.empty
    tensor: torch.Tensor = make(shape, device=device, dtype=DTYPES[call.dtype])
    return tensor.requires_grad_(call.pass_ == "bwd")


def _make_call_mask(call: AttentionCall, device: str, fill: bool) -> torch.Tensor | None:
    """Return a lower triangle, in which every row sees at least one key."""
    if call.mask == "none":
        return None
    if fill and call.window is not None:
        return make_mask(call, device)
    if not fill:
        dtype = torch.bool if call.mask == "bool" or call.window else DTYPES[call.dtype]
        mask = torch.empty(call.seq, call.kv_seq, dtype=dtype, device=device)
        return mask.requires_grad_(has_learned_mask(call))
    allowed = torch.ones(call.seq, call.kv_seq, dtype=torch.bool, device=device).tril()
    if call.mask == "bool":
        return allowed
    bias = torch.zeros(call.seq, call.kv_seq, dtype=DTYPES[call.dtype], device=device)
    return bias.masked_fill(~allowed, float("-inf")).requires_grad_(has_learned_mask(call))
