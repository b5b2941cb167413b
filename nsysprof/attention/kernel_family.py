"""Decide which attention backend the kernels and operators of one call belong to."""

from __future__ import annotations

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


def kernel_family(names: Iterable[str]) -> str | None:
    """Return flash, efficient, cudnn or flex for a fused kernel, math for products and a softmax, or other.

    Return None without names. `naive` belongs to math: both write the scores to memory.

    names: GPU kernels, or operators on the CPU.
    """
    seen = list(names)
    if not seen:
        return None
    if any(map(_is_cudnn, seen)):  # its names contain "flash" too, so cuDNN is tried first
        return "cudnn"
    for family, pattern in _FUSED:
        if any(pattern.search(name) for name in seen):
            return family
    has_both = all(any(pattern.search(name) for name in seen) for pattern in (_MATMUL, _SOFTMAX))
    return "math" if has_both else "other"


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
