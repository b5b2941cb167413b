"""Adapt attention that is served: varlen of torch, FlashAttention 3 and 4 within torch, FlashInfer, Sage, TE, the hub.

Each adapter is a function (shape, device) -> attention, and attention takes q, k and v as the shape has them in memory
(nsysprof.workload.measuring.case_tensors). It imports its library, makes what a program makes once for many calls (a
page table, lengths, a plan), and returns the function that is measured. Where the library is missing, too old, or
cannot take the shape, IneligibleError says so and what to install.

docs/backends.md says which of them were run; the others are called as their documentation says.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import attention

from nsysprof.attention.backend_limits import INSTALL, why_refused
from nsysprof.attention.shape import Shape, is_hub_backend
from nsysprof.workload.measuring.case_tensors import DTYPES, FP8, page_table
from nsysprof.workload.other_libraries import Attention, import_or_refuse, seq_first
from nsysprof.workload.refusal import IneligibleError

Adapter = Callable[[Shape, str], Attention]
FLASH_IMPLEMENTATIONS = {"flash3": "FA3", "flash4": "FA4"}
_WORKSPACE_BYTES = 128 << 20
# FlashInfer's kernels for a cache in one piece are called for sequences, those for pages for a pool.
_LAYOUT = "NHD"
# The sizes of heads for which SageAttention has kernels.
_SAGE_SIZES = (64, 96, 128)


def adapter_of(backend: str, shape: Shape) -> Adapter | None:
    """Return the adapter of a backend, or None where the backend is called with q, k, v and is_causal alone."""
    if backend == "flash_attn" and shape.window is None and not shape.softcap:
        return None
    if is_hub_backend(backend):
        return lambda shape, device: _hub(backend.removeprefix("hub:"), shape)
    return _ADAPTERS.get(backend)


@contextmanager
def flash_implementation(backend: str) -> Iterator[None]:
    """Let torch's flash backend be FlashAttention 3 or 4 within the block, in this process alone.

    Raises IneligibleError where this torch or the library does not have it.
    """
    name = FLASH_IMPLEMENTATIONS[backend]
    activate: Any = getattr(attention, "activate_flash_attention_impl", None)
    current: Any = getattr(attention, "current_flash_attention_impl", None)
    if activate is None or current is None:
        raise IneligibleError(f"torch {torch.__version__} cannot activate {name}: install {INSTALL[backend]}.")
    try:
        activate(name)
    except (ImportError, RuntimeError, ValueError) as error:
        text = " ".join(str(error).split())[:200]
        raise IneligibleError(f"{name} does not load ({text}): install {INSTALL[backend]}.") from error
    try:
        if current() != name:
            raise IneligibleError(f"torch runs {current() or 'its own flash'} in place of {name}.")
        with attention.sdpa_kernel(attention.SDPBackend.FLASH_ATTENTION):
            yield
    finally:
        attention.restore_flash_attention_impl()


def _need_gpu(library: str, device: str) -> None:
    if device != "cuda":
        raise IneligibleError(f"{library} needs a GPU.")


def _window_of(shape: Shape, backend: str, *, right: bool = True) -> tuple[int, int]:
    """Return the keys before and after its place that a query sees, -1 for all, counted from the last key.

    right: whether the library takes another number than 0 and all after the place of a query.

    Raises IneligibleError where torch's causal mask, which counts from the first key, is another one.
    """
    if shape.causal and shape.seq != shape.kv_seq:
        raise IneligibleError(
            f"{backend} counts a causal mask from the last key, torch's is_causal from the first: give --window -1,0."
        )
    left, after = shape.window or ((None, 0) if shape.causal else (None, None))
    if not right and after not in (0, None):
        raise IneligibleError(f"{backend} hides all keys after the place of a query, or none: give --window LEFT,0.")
    if not right and after is None and left is not None:
        raise IneligibleError(f"{backend} takes a window with a causal mask alone: give --window {left},0.")
    return (-1 if left is None else left, -1 if after is None else after)


def _ends(count: int, length: int, device: str) -> torch.Tensor:
    """Return where each of `count` sequences of a length begins and the last one ends."""
    return torch.arange(0, (count + 1) * length, length, dtype=torch.int32, device=device)


def _packed(tensor: torch.Tensor) -> torch.Tensor:
    """Return (batch, heads, length, size) as (all tokens, heads, size)."""
    return tensor.transpose(1, 2).flatten(0, 1)


def _unpacked(out: torch.Tensor, shape: Shape) -> torch.Tensor:
    """Return (all tokens, heads, size) as (batch, heads, length, size)."""
    return out.unflatten(0, (shape.batch, shape.seq)).transpose(1, 2)


def _varlen(shape: Shape, device: str) -> Attention:
    """Return torch's varlen_attn for sequences of equal lengths, or for pages where this torch reads them."""
    library = import_or_refuse("torch.nn.attention.varlen", "varlen", INSTALL["varlen"])
    takes = inspect.signature(library.varlen_attn).parameters
    _need_gpu("varlen_attn", device)
    left, right = _window_of(shape, "varlen")
    named: dict[str, Any] = {"scale": 1 / math.sqrt(shape.head_dim)} if "scale" in takes else {}
    if "window_size" in takes:
        named["window_size"] = (left, right)
    elif (left, right) in ((-1, 0), (-1, -1)):
        named["is_causal"] = right == 0
    else:
        raise IneligibleError(f"varlen_attn of torch {torch.__version__} takes no windows: install a later torch.")
    if shape.heads != shape.kv_heads and "enable_gqa" in takes:
        named["enable_gqa"] = True
    ends_q, ends_k = (_ends(shape.batch, length, device) for length in (shape.seq, shape.kv_seq))
    if shape.page_size:
        if "block_table" not in takes:
            raise IneligibleError(
                f"varlen_attn of torch {torch.__version__} reads no pages: install torch 2.12 or later."
            )
        named["block_table"] = page_table(shape, device).int()
        named["seqused_k"] = torch.full((shape.batch,), shape.kv_seq, dtype=torch.int32, device=device)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, _: bool) -> torch.Tensor:
        if not shape.page_size:
            k, v = _packed(k), _packed(v)
        ends = None if shape.page_size else ends_k
        out = library.varlen_attn(_packed(q), k, v, ends_q, ends, shape.seq, shape.kv_seq, **named)
        return _unpacked(out, shape)

    return attend


def _flashinfer(shape: Shape, device: str) -> Attention:
    """Return FlashInfer's batch attention: of a decoded token or a prefill, over pages or over sequences in one piece.

    The plan, which a server makes once a step for all layers, is not part of the measured call.
    """
    library = import_or_refuse("flashinfer", "flashinfer", INSTALL["flashinfer"])
    _need_gpu("FlashInfer", device)
    left, right = _window_of(shape, "flashinfer", right=False)
    is_causal = right == 0
    dtype = DTYPES[shape.dtype]
    named: dict[str, Any] = {
        "window_left": left,
        "logits_soft_cap": shape.softcap or None,
        "sm_scale": 1 / math.sqrt(shape.head_dim),
        "q_data_type": dtype,
        "kv_data_type": dtype if shape.kv_dtype == "same" else FP8,
    }
    workspace = torch.zeros(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
    heads = (shape.heads, shape.kv_heads, shape.head_dim)
    ends_q = _ends(shape.batch, shape.seq, device)
    if not shape.page_size:
        ragged = library.BatchPrefillWithRaggedKVCacheWrapper(workspace, _LAYOUT)
        ends_k = _ends(shape.batch, shape.kv_seq, device)
        ragged.plan(ends_q, ends_k, *heads, head_dim_vo=shape.head_dim_v, causal=is_causal, **named)
        return lambda q, k, v, _: _unpacked(ragged.run(_packed(q), _packed(k), _packed(v)), shape)
    pages = shape.kv_seq // shape.page_size
    table = (
        _ends(shape.batch, pages, device),
        page_table(shape, device).flatten().int(),
        torch.full((shape.batch,), shape.page_size, dtype=torch.int32, device=device),
    )
    if shape.seq == 1 and shape.own_head_dim_v is None:
        is_grouped = shape.heads > shape.kv_heads
        paged = library.BatchDecodeWithPagedKVCacheWrapper(workspace, _LAYOUT, use_tensor_cores=is_grouped)
        paged.plan(*table, *heads, shape.page_size, **named)
    else:
        paged = library.BatchPrefillWithPagedKVCacheWrapper(workspace, _LAYOUT)
        sizes = {"head_dim_vo": shape.head_dim_v} if shape.own_head_dim_v is not None else {}
        paged.plan(ends_q, *table, *heads, shape.page_size, causal=is_causal, **sizes, **named)
    return lambda q, k, v, _: _unpacked(paged.run(_packed(q), (k, v)), shape)


def _sage(shape: Shape, device: str) -> Attention:
    """Return SageAttention, which multiplies q and k in eight bits.

    It takes the mean of the keys off them first, so that they fit eight bits better. Version 1 does so in the caller's
    own tensor, which another call would read; here it is done in a copy, as later versions do.
    """
    library = import_or_refuse("sageattention", "sageattention", INSTALL["sage"])
    _need_gpu("SageAttention", device)
    if shape.causal and shape.seq != shape.kv_seq:
        raise IneligibleError("SageAttention takes a causal mask only for as many queries as keys: leave --kv-seq out.")
    if shape.head_dim not in _SAGE_SIZES:
        sizes = ", ".join(map(str, _SAGE_SIZES))
        raise IneligibleError(f"SageAttention takes heads of {sizes}, not of {shape.head_dim}.")
    named: dict[str, Any] = {"tensor_layout": "HND", "smooth_k": False}

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool) -> torch.Tensor:
        k = k - k.mean(dim=2, keepdim=True)
        out: torch.Tensor = library.sageattn(q, k, v, is_causal=is_causal, **named)
        return out

    return attend


def _te(shape: Shape, device: str) -> Attention:
    """Return DotProductAttention of Transformer Engine, which chooses among its own backends."""
    library = import_or_refuse("transformer_engine.pytorch", "transformer_engine", INSTALL["te"])
    _need_gpu("Transformer Engine", device)
    left, right = _window_of(shape, "te", right=False)
    sizes = shape.head_dim if shape.own_head_dim_v is None else (shape.head_dim, shape.head_dim_v)
    layer = library.DotProductAttention(
        shape.heads,
        sizes,
        num_gqa_groups=shape.kv_heads,
        attention_dropout=0.0,
        qkv_format="bshd",
        attn_mask_type="no_mask" if right == -1 else "causal" if shape.causal else "causal_bottom_right",
        window_size=(left, right),
    )

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, _: bool) -> torch.Tensor:
        out: torch.Tensor = layer(*(seq_first(tensor).contiguous() for tensor in (q, k, v)))
        return seq_first(out.unflatten(-1, (shape.heads, shape.head_dim_v)))

    return attend


def _hub(repository: str, shape: Shape) -> Attention:
    """Return flash_attn_func of a kernel of the hub, as kernels-community/flash-attn2 and flash-attn3 have it."""
    library = import_or_refuse("kernels", "kernels", INSTALL["hub"])
    try:
        module = library.get_kernel(repository)
    except Exception as error:  # the hub, the network or the build of the kernel may fail in any way
        text = " ".join(str(error).split())[:200]
        raise IneligibleError(f"{repository} cannot be loaded from the hub: {type(error).__name__}: {text}") from error
    function = getattr(module, "flash_attn_func", None)
    if function is None:
        raise IneligibleError(f"{repository} has no flash_attn_func; kernels-community/flash-attn2 has one.")
    return flash_function(function, shape, f"hub:{repository}")


def flash_function(function: Any, shape: Shape, backend: str) -> Attention:
    """Return a flash_attn_func for the window and the cap of a shape. Its layout is (batch, length, heads, size)."""
    left, right = _window_of(shape, backend)
    takes = _parameters(function)
    named: dict[str, Any] = {"causal": right == 0}
    if shape.window is not None:
        named["window_size"] = (left, right)
    if shape.softcap:
        named["softcap"] = shape.softcap
    lacking = [name for name in named if takes is not None and name not in takes]
    if lacking:
        raise IneligibleError(f"flash_attn_func of {backend} has no {lacking[0]}.")

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, _: bool) -> torch.Tensor:
        out = function(*(seq_first(tensor) for tensor in (q, k, v)), **named)
        return seq_first(out[0] if isinstance(out, tuple) else out)

    return attend


def _parameters(function: Any) -> Any:
    """Return the names of a function's parameters, or None where it takes any or hides them."""
    try:
        takes = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    return None if any(each.kind is each.VAR_KEYWORD for each in takes.values()) else takes


def flash_library(backend: str, shape: Shape, device: str) -> Attention | None:
    """Return flash_attn_func of FlashAttention 3 or 4 itself; None for another backend. Raises IneligibleError."""
    module = {"flash3": "flash_attn_interface", "flash4": "flash_attn.cute"}.get(backend)
    if module is None:
        return None
    refused = why_refused(backend, shape)
    if refused:
        raise IneligibleError(refused)
    library = import_or_refuse(module, backend, INSTALL[backend])
    _need_gpu(backend, device)
    return flash_function(library.flash_attn_func, shape, backend)


def _flash_attn(shape: Shape, device: str) -> Attention:
    """Return flash_attn_func of flash-attn."""
    library = import_or_refuse("flash_attn", "flash-attn", INSTALL["flash_attn"])
    if device != "cuda" or shape.dtype == "fp32":
        raise IneligibleError(f"flash-attn takes fp16 and bf16 on a GPU, not {shape.dtype} on {device}.")
    return flash_function(library.flash_attn_func, shape, "flash_attn")


_ADAPTERS: dict[str, Adapter] = {
    "varlen": _varlen,
    "flashinfer": _flashinfer,
    "sage": _sage,
    "te": _te,
    "flash_attn": _flash_attn,
}
