"""Read from the arguments of an attention call what it computes: sizes, data type, mask, dropout, memory layout.

It needs only the standard library, because it runs in the program's own Python.
"""

from __future__ import annotations

import os
from typing import Any

_SDPA = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
_FLEX = ("query", "key", "value", "score_mod", "block_mask", "scale", "enable_gqa")
_FLASH = ("q", "k", "v", "dropout_p", "softmax_scale", "causal")
_VARLEN = ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", *_FLASH[3:])
_CACHE = ("q", "k_cache", "v_cache", "k", "v", "rotary_cos", "rotary_sin", "cache_seqlens", "cache_batch_idx",
          "cache_leftpad", "block_table", "softmax_scale", "causal")  # fmt: skip
_VLLM_PAGED = ("out", "query", "key_cache", "value_cache", "num_kv_heads", "scale", "block_tables", "seq_lens",
               "block_size", "max_seq_len")  # fmt: skip
_XFORMERS = ("query", "key", "value", "attn_bias", "p", "scale")
_NAMES = {
    "sdpa": _SDPA, "flex_attention": _FLEX, "flash_attn_func": _FLASH, "flash_attn_varlen_func": _VARLEN,
    "flash_attn_with_kvcache": _CACHE, "memory_efficient_attention": _XFORMERS,
    "flash_attn_qkvpacked_func": ("qkv", *_FLASH[3:]), "flash_attn_kvpacked_func": ("q", "kv", *_FLASH[3:]),
    "flash_attn_varlen_qkvpacked_func": ("qkv", "cu_seqlens", "max_seqlen", *_FLASH[3:]),
    "flash_attn_varlen_kvpacked_func": ("q", "kv", *_VARLEN[3:]),
    "varlen_attn": ("query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k"),
    "varlen_attn_out": ("out", "query", "key", "value", "cu_seq_q", "cu_seq_k", "max_q", "max_k"),
    "sageattn": ("q", "k", "v", "tensor_layout", "is_causal", "sm_scale"),
    "sageattn_varlen": ("q", "k", "v", "cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", "is_causal"),
    "unified_attention": ("q", "k", "v", "out", "cu_seqlens_q", "max_seqlen_q", "seqused_k", "max_seqlen_k"),
    "paged_attention_v1": _VLLM_PAGED,
    "paged_attention_v2": (*_VLLM_PAGED[:1], "exp_sum", "max_logits", "tmp_out", *_VLLM_PAGED[1:]),
    "decode_attention_fwd": ("q", "k_buffer", "v_buffer", "o"),
    "extend_attention_fwd": ("q_extend", "k_extend", "v_extend", "o_extend"),
    "single_decode_with_kv_cache": ("q", "k", "v"),
    "single_prefill_with_kv_cache": ("q", "k", "v"),
    "BatchDecodeWithPagedKVCacheWrapper": ("q", "paged_kv_cache"),
    "BatchPrefillWithPagedKVCacheWrapper": ("q", "paged_kv_cache"),
    "BatchPrefillWithRaggedKVCacheWrapper": ("q", "k", "v"),
    "BatchMLAPagedAttentionWrapper": ("q_nope", "q_pe", "ckv_cache", "kpe_cache"),
    "DotProductAttention": ("query_layer", "key_layer", "value_layer"),
    "_native_multi_head_attention": ("query", "key", "value", "embed_dim", "num_head"),
    "_transformer_encoder_layer_fwd": ("src", "embed_dim", "num_heads"),
}  # fmt: skip
# Functions of engines that take the tokens of all sequences one after the other: what their mask is called, and whether
# each sequence has one query. Their lengths are in a plan or in tensors on the GPU, for which nobody waits.
_OF_TOKENS = {
    "paged_attention_v1": ("paged", True), "paged_attention_v2": ("paged", True),
    "decode_attention_fwd": ("paged", True), "extend_attention_fwd": ("varlen", False),
    "BatchDecodeWithPagedKVCacheWrapper": ("paged", True), "BatchPrefillWithPagedKVCacheWrapper": ("paged", False),
    "BatchPrefillWithRaggedKVCacheWrapper": ("varlen", False), "BatchMLAPagedAttentionWrapper": ("paged", False),
    "DotProductAttention": ("layer", False),
}  # fmt: skip
_INPUT_NAMES = (
    ("query", "q", "q_extend", "q_nope", "query_layer"),
    ("key", "k_cache", "key_cache", "k", "k_buffer", "k_extend", "ckv_cache", "key_layer"),
    ("value", "v_cache", "value_cache", "v", "v_buffer", "v_extend", "ckv_cache", "value_layer"),
)
_DTYPES = {"torch.float16": "fp16", "torch.bfloat16": "bf16", "torch.float32": "fp32"}


def facts_of(function: str, args: tuple[Any, ...], kwargs: dict[str, Any], dtype: Any) -> dict[str, Any]:
    """Return what a call computes, by the names that the file of calls has for it; unknown is left out.

    function: the name of the function that was called.
    dtype: of the computation, where autocast changes it; else None.
    """
    given = dict(zip(_NAMES.get(function, ()), args, strict=False)) | kwargs
    if "num_heads" in given or "num_head" in given:
        return _facts_of_layer(given)
    query, key, value = _inputs(given)
    facts: dict[str, Any] = {}
    if function in _OF_TOKENS:
        facts |= _facts_of_tokens(function, given, query, key, value)
    elif not given.keys().isdisjoint(("cu_seqlens_q", "cu_seqlens", "cu_seq_q")):
        facts |= _facts_of_varlen(given, query, key)
    elif getattr(query, "is_nested", False):
        facts |= {"batch": int(query.size(0)), "heads": int(query.size(1)), "kv_heads": int(key.size(1))}
        facts |= {"head_dim": int(query.size(3)), "mask": "nested"}
    else:
        is_like_torch = function in ("sdpa", "flex_attention") or (
            function.startswith("sageattn") and given.get("tensor_layout", "HND") == "HND"
        )
        if function == "single_decode_with_kv_cache":  # one query without an axis of its own
            query = query.unsqueeze(0)
        facts |= _sizes(query, key, value, length_first=not is_like_torch)
        facts["mask"] = _mask_of(given)
        facts["mask_stride"] = _stride_of_mask(given.get("attn_mask"))
    if "k_cache" in given and facts.get("seq_kv") is not None and given.get("cache_seqlens") is not None:
        facts["mask"] = "cache"
    facts["causal"] = _is_causal(given)
    facts["dropout"] = float(given.get("dropout_p", given.get("p", 0.0)) or 0.0)
    name = str(query.dtype if dtype is None else dtype)
    facts["dtype"] = _DTYPES.get(name, name.removeprefix("torch."))
    scale = given.get("scale", given.get("softmax_scale"))
    facts["scale"] = float(scale) if isinstance(scale, (int, float)) else None
    facts["device"] = str(query.device.type)
    return facts


def _is_causal(given: Any) -> bool:
    """Return whether a call says that it is causal, by a flag, a bias, or a window that hides all later keys."""
    window = given.get("window_size")
    is_window = isinstance(window, (tuple, list)) and len(window) == 2 and tuple(window) == (-1, 0)
    return bool(given.get("is_causal", given.get("causal", False))) or is_window or _is_lower(given.get("attn_bias"))


def shorten_path(path: str) -> str:
    """Return a path as it may stand in a range: below the current folder, below a library's folder, or its end."""
    path = path.encode("utf-8", "replace").decode()  # a path that is not UTF-8 has surrogates, which no range can hold
    for folder in ("site-packages" + os.sep, "dist-packages" + os.sep):
        if folder in path:
            return path.rpartition(folder)[2]
    here = os.getcwd() + os.sep  # noqa: PTH109
    return path[len(here) :] if path.startswith(here) else os.path.basename(path)  # noqa: PTH119


def _inputs(given: dict[str, Any]) -> tuple[Any, Any, Any]:
    if "qkv" in given:
        return tuple(given["qkv"].unbind(-3))
    query = next(given[name] for name in _INPUT_NAMES[0] if name in given)
    if "kv" in given:
        key, value = given["kv"].unbind(-3)
        return query, key, value
    if "paged_kv_cache" in given:
        cache = given["paged_kv_cache"]
        return (query, *cache) if isinstance(cache, (tuple, list)) else (query, *cache.unbind(1))
    tensors = [next(given[name] for name in names if name in given) for names in _INPUT_NAMES[1:]]
    return query, tensors[0], tensors[1]


def _sizes(query: Any, key: Any, value: Any, *, length_first: bool) -> dict[str, Any]:
    """Return the sizes of inputs of two to any number of dimensions. Of three, heads are part of the batch."""
    shapes = [tuple(map(int, tensor.shape)) for tensor in (query, key, value)]
    letters = "bhsd"
    if length_first:
        shapes = [s if len(s) < 4 else (*s[:-3], s[-2], s[-3], s[-1]) for s in shapes]
        letters = "bshd"
    (q, k, v), batch = shapes, 1
    for size in q[:-3] if len(q) > 3 else q[:-2]:
        batch *= size
    many = len(q) > 3
    layouts = [_layout_of(tensor, letters) for tensor in (query, key, value)]
    return {
        "batch": batch, "heads": q[-3] if many else 1, "kv_heads": k[-3] if many else 1, "seq_q": q[-2],
        "seq_kv": k[-2], "head_dim": q[-1], "head_dim_v": v[-1],
        "layout": layouts[0] if len(set(layouts)) == 1 else ",".join(layouts),
    }  # fmt: skip


def _layout_of(tensor: Any, letters: str) -> str:
    """Return the order of a tensor's dimensions in memory, with + where there is other memory between them."""
    if tensor.dim() != 4:
        return "bhsd"
    if tensor.is_contiguous():  # quickly told, for programs whose lengths change in each step
        return letters
    strides, sizes = [int(stride) for stride in tensor.stride()], [int(size) for size in tensor.shape]
    # Where a size is one, its stride says nothing: it stays where it would be without a transposition.
    order = sorted(range(4), key=lambda at: (-strides[at] if sizes[at] > 1 else 0, at))
    real = [at for at in order if sizes[at] > 1]
    dense, expected = True, 1
    for at in reversed(real):
        dense &= strides[at] == expected
        expected *= sizes[at]
    if real == sorted(real):
        text = letters
    else:
        slots = iter(real)
        places = list(range(4))
        moved = [at for at in places if at in real]
        for place in moved:
            places[place] = next(slots)
        text = "".join(letters[at] for at in places)
    return text if dense else f"{text}+"


def _mask_of(given: Any) -> str:
    """Return the kind of the mask, and which of the axes batch, head, query and key it has at full size.

    Flash and cuDNN take no mask that needs a gradient, even where gradients are off.
    """
    if given.get("score_mod") is not None or given.get("block_mask") is not None:
        return "flex"
    mask: Any = given.get("attn_mask", given.get("attn_bias"))
    if mask is None or _is_lower(mask):
        return "none"
    if not hasattr(mask, "shape"):
        return "bias"
    sizes = [1, 1, 1, 1, *mask.shape][-4:]
    axes = "".join(letter if int(size) != 1 else "1" for letter, size in zip("bhqk", sizes, strict=True))
    kind = "learned" if getattr(mask, "requires_grad", False) else "float"
    return f"{'bool' if str(mask.dtype) == 'torch.bool' else kind}:{axes}"


def _stride_of_mask(mask: Any) -> int | None:
    """Return how far apart the keys of a mask lie in memory (elements); None where that is of no importance.

    On a GPU, the fused backends take no mask for which this is not 1.
    """
    if mask is None or not getattr(mask, "shape", ()) or int(mask.shape[-1]) == 1:
        return None
    return int(mask.stride(-1))


def _is_lower(bias: Any) -> bool:
    return type(bias).__name__.startswith("LowerTriangularMask")


def _facts_of_varlen(given: Any, query: Any, key: Any) -> dict[str, Any]:
    """Return the sizes of sequences that lie one after the other; the lengths are the longest of them."""
    ends: Any = given.get("cu_seqlens_q", given.get("cu_seqlens", given.get("cu_seq_q")))
    longest_q = given.get("max_seqlen_q", given.get("max_seqlen", given.get("max_q")))
    longest_k = given.get("max_seqlen_k", given.get("max_k", longest_q))
    facts: dict[str, Any] = {"batch": int(ends.shape[0]) - 1, "heads": int(query.shape[-2]), "mask": "varlen"}
    facts |= {"kv_heads": int(key.shape[-2]), "head_dim": int(query.shape[-1])}
    # A tensor on the GPU is not waited for.
    lengths = {"seq_q": longest_q, "seq_kv": longest_k}
    return facts | {name: length for name, length in lengths.items() if isinstance(length, int)}


def _facts_of_tokens(function: str, given: Any, query: Any, key: Any, value: Any) -> dict[str, Any]:
    """Return what is known of tokens that lie one after the other: heads and their sizes, of decoding also the batch.

    The heads of a cache are unknown where its axes may stand in another order.
    """
    mask, is_decode = _OF_TOKENS[function]
    facts: dict[str, Any] = {"heads": int(query.shape[-2]), "head_dim": int(query.shape[-1]), "mask": mask}
    if "num_kv_heads" in given:
        facts["kv_heads"] = int(given["num_kv_heads"])
    elif mask != "paged" or function == "decode_attention_fwd":
        facts |= {"kv_heads": int(key.shape[-2]), "head_dim_v": int(value.shape[-1])}
    if is_decode:
        facts |= {"batch": int(query.shape[0]), "seq_q": 1}
    return facts


def _facts_of_layer(given: Any) -> dict[str, Any]:
    """Return the sizes of torch's fused layers, whose input is (batch, length, features)."""
    query: Any = given.get("query", given.get("src"))
    key = given.get("key", query)
    heads = int(given.get("num_head", given.get("num_heads", 1)))
    name = str(query.dtype)
    facts = {"batch": None, "heads": heads, "kv_heads": heads, "head_dim": int(given["embed_dim"]) // heads,
             "dtype": _DTYPES.get(name, name), "device": str(query.device.type)}  # fmt: skip
    if getattr(query, "is_nested", False):
        return facts | {"batch": int(query.size(0)), "mask": "nested"}
    return facts | {"batch": int(query.shape[0]), "seq_q": int(query.shape[1]), "seq_kv": int(key.shape[1])}
