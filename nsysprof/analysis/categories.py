"""What a kernel or operator is for, by the naming habits of torch, cuBLAS, cuDNN, CUTLASS and NCCL."""

from __future__ import annotations

import re

CATEGORIES = ("attention", "gemm", "softmax", "reduction", "elementwise", "copy", "fill", "nccl", "other")

# First match wins: an attention kernel built on CUTLASS has "gemm" in its template arguments.
_PATTERNS = tuple(
    (category, re.compile(pattern, re.IGNORECASE))
    for category, pattern in (
        ("nccl", r"\bnccl"),
        ("attention", r"flash|fmha|attention|sdpa|cudnn_generated_fort_native|AttentionKernel"),
        ("softmax", r"softmax"),
        ("gemm", r"gemm|gemv|cutlass|xmma|wgmma|nvjet|cublas|aten::(add|b)?mm\b|aten::bmm|aten::baddbmm|splitKreduce"),
        ("elementwise", r"masked_fill|where"),
        ("reduction", r"reduce|norm(?!al)|aten::(sum|mean|all|any|max|amax)\b"),
        ("copy", r"copy|CatArray|transpose|memcpy"),
        ("fill", r"fill|memset|aten::(ones|zeros|full|scalar_tensor|zero_)\b"),
        ("elementwise", r"elementwise|triu|tril|aten::(add|sub|mul|div|where|masked_fill|exp|isneginf)|pointwise"),
    )
)


def categorize(name: str) -> str:
    """The category of a demangled kernel name or an operator."""
    head = name if len(name) < 4096 else name[:4096]
    return next((category for category, pattern in _PATTERNS if pattern.search(head)), "other")
