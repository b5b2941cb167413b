"""Decide which attention backend the kernels and operators of one call belong to."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

# Not fprop and bprop alone: convolutions have them too.
_CUDNN_PARTS = ("sdpa", "mha", "flash")
_FUSED = (
    ("efficient", re.compile(r"fmha_cutlass|AttentionKernel|AttentionBackwardKernel")),
    ("flex", re.compile(r"flex_attention|flex_decoding")),
    ("flash", re.compile(r"pytorch_flash|flash_(fwd|bwd)|\bflash::")),
)
_OPERATORS = {
    "aten::_scaled_dot_product_flash_attention": "flash",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "flash",
    "aten::_scaled_dot_product_efficient_attention": "efficient",
    "aten::_scaled_dot_product_cudnn_attention": "cudnn",
    "aten::_scaled_dot_product_attention_math": "math",
}
_MATMUL = re.compile(r"gemm|gemv|nvjet|xmma|cutlass|splitK|dot_kernel|\b(bmm|matmul)\b", re.IGNORECASE)
_SOFTMAX = re.compile(r"softmax", re.IGNORECASE)
# What a name shows that belongs to a part of unfused attention.
_PRODUCT, _WEIGHTS = "product", "weights"


def kernel_family(names: Iterable[str]) -> str | None:
    """Return flash, efficient, cudnn or flex for a fused kernel, math for products and a softmax, or other.

    Return None without names. `naive` belongs to math: both write the scores to memory.

    names: GPU kernels, or operators on the CPU.
    """
    seen = list(names)
    if not seen:
        return None
    marks = frozenset().union(*map(_marks_of, seen))
    families = ("cudnn", *(family for family, _ in _FUSED))  # names of cuDNN contain "flash" too, so it is tried first
    fused = next((family for family in families if family in marks), None)
    return fused or ("math" if marks >= {_PRODUCT, _WEIGHTS} else "other")


@functools.lru_cache(1 << 14)  # a kernel runs in many ranges
def _marks_of(name: str) -> frozenset[str]:
    """Return the families of fused kernels, and the parts of unfused attention, that a name belongs to."""
    patterns = (*_FUSED, (_PRODUCT, _MATMUL), (_WEIGHTS, _SOFTMAX))
    marks = {mark for mark, pattern in patterns if pattern.search(name)}
    return frozenset(marks | {"cudnn"} if _is_cudnn(name) else marks)


def _is_cudnn(name: str) -> bool:
    """Return whether cuDNN names a part of attention. Two searches find it; one pattern would try every pair."""
    text = name.lower()
    first = text.find("cudnn")
    if first < 0:
        return False
    return any(part in text[first + len("cudnn") :] for part in _CUDNN_PARTS) or "sdpa" in text[: text.rfind("cudnn")]


def dispatched_operator(names: Iterable[str]) -> str | None:
    """Return the operator of one call that scaled_dot_product_attention dispatched to."""
    return next((name for name in names if name in _OPERATORS), None)


def operator_family(operator: str | None) -> str | None:
    """Return the backend to which one of torch's inner attention operators belongs."""
    return _OPERATORS.get(operator or "")
