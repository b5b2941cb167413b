"""Provide the attention of flex, flash_attn and xformers as backends; pyproject.toml registers them.

Each function takes q, k, v of shape (batch, heads, seq, head_dim) and returns a tensor of the same layout. The library
is imported at the first call. Where it is missing or cannot take the inputs, IneligibleError says so; this does not
count as a failure.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import torch

from nsysprof.attention.mask import Window
from nsysprof.attention.shape import Shape, has_learned_mask
from nsysprof.workload.refusal import IneligibleError

Attention = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, bool], torch.Tensor]


def flex(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """Return torch.nn.attention.flex_attention of the inputs, compiled once per shape.

    The causal mask is a block mask, so masked blocks are skipped. Raises IneligibleError for gradients on the CPU,
    which flex_attention does not have.
    """
    window = (None, 0) if is_causal else None
    return _run_flex(q, k, v, _block_mask(q.shape[-2], k.shape[-2], window, 0, str(q.device)))


def flex_with_mask(shape: Shape, mask: torch.Tensor | None, sinks: torch.Tensor | None = None) -> Attention:
    """Return flex with the mask, the cap and the sinks of a shape.

    A causal mask, a window or a bool mask is a block mask, whose hidden blocks are skipped. A cap and a mask of numbers
    change the scores. Sinks scale the result by the share of the softmax that they leave.

    Raises IneligibleError for a mask that needs a gradient.
    """
    if has_learned_mask(shape):
        raise IneligibleError("flex is called without gradients of a mask: give --mask float, or math.")
    if mask is None:
        window, offset = (shape.window, shape.kv_seq - shape.seq) if shape.window else (None, 0)
        change = _change_of(shape, None)

        def windowed(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
            seen = (None, 0) if is_causal else window
            blocks = _block_mask(shape.seq, shape.kv_seq, seen, offset, str(q.device))
            return _run_flex(q, k, v, blocks, change, sinks)

        return windowed
    whole = mask.expand(mask.shape[0], mask.shape[1], shape.seq, shape.kv_seq)
    single = [size == 1 for size in whole.shape[:2]]

    def value(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return whole[0 if single[0] else batch, 0 if single[1] else head, query, key]

    if mask.dtype != torch.bool:
        change = _change_of(shape, value)
        return lambda q, k, v, _: _run_flex(q, k, v, None, change, sinks)
    from torch.nn.attention.flex_attention import create_block_mask

    sizes = [None if is_single else size for is_single, size in zip(single, whole.shape[:2], strict=True)]
    blocks = create_block_mask(value, *sizes, shape.seq, shape.kv_seq, device=str(mask.device))
    change = _change_of(shape, None)
    return lambda q, k, v, _: _run_flex(q, k, v, blocks, change, sinks)


def _change_of(shape: Shape, value: Any) -> Any:
    """Return how the scores are changed: bounded, then added to; None where they stay as they are."""
    cap = shape.softcap
    if not cap:
        return None if value is None else lambda score, *place: score + value(*place)
    if value is None:
        return lambda score, *_: cap * torch.tanh(score / cap)
    return lambda score, *place: cap * torch.tanh(score / cap) + value(*place)


def _run_flex(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    blocks: Any,
    change: Any = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    if q.device.type == "cpu" and q.requires_grad:
        raise IneligibleError("flex_attention computes no gradients on the CPU.")
    if q.device.type == "cpu" and sinks is not None:
        raise IneligibleError("flex_attention has no sums of its softmax on the CPU, which sinks need; naive may run.")
    gqa = q.shape[1] != k.shape[1]
    attend = _compiled_flex(q.shape, k.shape, v.shape, q.dtype, q.requires_grad, sinks is None)
    if sinks is None:
        out: torch.Tensor = attend(q, k, v, change, blocks, enable_gqa=gqa)
        return out
    out, logarithm = attend(q, k, v, change, blocks, enable_gqa=gqa, return_lse=True)
    return out * torch.sigmoid(logarithm - sinks[:, None].float())[..., None].to(out.dtype)


@lru_cache(maxsize=1)
def _compiled_flex(*_shapes_and_dtype: Any) -> Callable[..., torch.Tensor]:
    """Return flex_attention compiled only for these shapes.

    Without the reset, torch would count other shapes as recompilations of one function, and fall back to unfused code
    at the ninth.
    """
    from torch.nn.attention.flex_attention import flex_attention

    torch.compiler.reset()
    compiled: Callable[..., torch.Tensor] = torch.compile(flex_attention, dynamic=False)
    return compiled


@cache
def _block_mask(queries: int, keys: int, window: Window | None, offset: int, device: str) -> Any:
    """Return the block mask of a window; None without one.

    offset: the place of the first query among the keys.
    """
    if window is None:
        return None
    from torch.nn.attention.flex_attention import create_block_mask

    left, right = window

    def is_visible(_batch: Any, _head: Any, query: Any, key: Any) -> Any:
        place = query + offset
        after = key <= place + (keys if right is None else right)
        return after if left is None else after & (key >= place - left)

    return create_block_mask(is_visible, None, None, queries, keys, device=device)


def flash_attn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """Return flash_attn.flash_attn_func of the inputs, whose layout is (batch, seq, heads, head_dim)."""
    library = import_or_refuse("flash_attn", "flash-attn")
    if q.device.type != "cuda" or q.dtype not in (torch.float16, torch.bfloat16):
        raise IneligibleError(f"flash-attn takes fp16 and bf16 on a GPU, not {_words(q)}.")
    out: torch.Tensor = library.flash_attn_func(*(seq_first(t) for t in (q, k, v)), causal=is_causal)
    return seq_first(out)


def xformers(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
    """Return xformers.ops.memory_efficient_attention of the inputs, whose layout is (batch, seq, heads, head_dim).

    Where k and v have fewer heads, they are expanded to (batch, seq, groups, heads per group, head_dim) without a copy.
    """
    library = import_or_refuse("xformers.ops", "xformers")
    query, key, value = (seq_first(t) for t in (q, k, v))
    groups, members = k.shape[1], q.shape[1] // k.shape[1]
    if members > 1:
        query = query.unflatten(2, (groups, members))
        key, value = (t.unsqueeze(3).expand(-1, -1, -1, members, -1) for t in (key, value))
    mask = library.LowerTriangularMask() if is_causal else None
    try:
        out: torch.Tensor = library.memory_efficient_attention(query, key, value, attn_bias=mask)
    except NotImplementedError as error:  # "No operator found for ...", then each operator with its reasons
        raise IneligibleError(" ".join(str(error).split())) from error
    return seq_first(out.flatten(2, 3) if members > 1 else out)


def seq_first(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view with heads and positions exchanged."""
    return tensor.transpose(1, 2)


def _words(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} on {tensor.device.type}"


def import_or_refuse(module: str, package: str, install: str = "") -> Any:
    """Return a library. Raises IneligibleError, which says what to install, where it is missing or does not load."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(module.partition(".")[0])
        text = f"{package} is not installed: {install or f'pip install {package}'}"
        raise IneligibleError(text if missing else f"{package} does not load: {error}") from error
    except (OSError, RuntimeError, AttributeError) as error:  # a library that was built for another torch
        raise IneligibleError(f"{package} does not load: {' '.join(str(error).split())[:200]}") from error
