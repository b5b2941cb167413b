"""Which attention backend the kernels and operators of one call belong to."""

from __future__ import annotations

import re
from collections.abc import Iterable

# cuDNN's names hold "flash" too, so it is asked about first.
_FUSED = (
    ("cudnn", re.compile(r"cudnn.*(sdpa|fprop|bprop|mha)|sdpa.*cudnn", re.IGNORECASE)),
    ("efficient", re.compile(r"fmha_cutlass|AttentionKernel|AttentionBackwardKernel")),
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
    """flash, efficient or cudnn by its fused kernel; math for products and a softmax; other; None for no kernel.

    `naive` is of the family math: both write the scores out. names: of GPU kernels, or of operators on the CPU.
    """
    seen = list(names)
    if not seen:
        return None
    for family, pattern in _FUSED:
        if any(pattern.search(name) for name in seen):
            return family
    has_both = all(any(pattern.search(name) for name in seen) for pattern in (_MATMUL, _SOFTMAX))
    return "math" if has_both else "other"


def dispatched_operator(names: Iterable[str]) -> str | None:
    """The operator that scaled_dot_product_attention handed the call to, among those of one call."""
    return next((name for name in names if name in _OPERATORS), None)


def operator_family(operator: str | None) -> str | None:
    """The backend that one of torch's inner attention operators stands for."""
    return _OPERATORS.get(operator or "")
