"""Make the tensors of a case: q, k and v with their memory layout, and the mask."""

from __future__ import annotations

from typing import Any

import torch

from nsysprof.attention.mask import Window
from nsysprof.attention.shape import Shape, has_learned_mask

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def draw_inputs(
    shape: Shape, device: str, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return q, k and v with random numbers, in the memory layout of the shape."""
    q, k, v = (
        _draw(sizes, layout, shape, device, generator)
        for sizes, layout in zip(_sizes(shape), shape.layouts, strict=True)
    )
    return q, k, v


def draw_gradient(shape: Shape, device: str, generator: torch.Generator) -> torch.Tensor:
    """Return a random gradient of the result, with the size and the layout of q."""
    return _draw(_sizes(shape)[0], shape.layouts[0].removesuffix("+"), shape, device, generator)


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
    keys = (shape.batch, shape.kv_heads, shape.kv_seq, shape.head_dim)
    return (shape.batch, shape.heads, shape.seq, shape.head_dim), keys, keys


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
