"""Categorize kernels and operators by what they do, from the names that torch, NVIDIA's libraries and NCCL use."""

from __future__ import annotations

import re
from functools import lru_cache

# The first match wins, because an attention kernel built on CUTLASS has "gemm" in its template arguments.
_PATTERNS = tuple(
    (category, re.compile(pattern, re.IGNORECASE))
    for category, pattern in (
        ("nccl", r"\bnccl"),
        ("attention", r"flash|fmha|attention|sdpa|cudnn_generated_fort_native|AttentionKernel|dot_do_o|convert_dq"),
        ("softmax", r"softmax"),
        # These kernels only pass time: torch.cuda._sleep, and the delay kernel of XLA's tuner.
        ("wait", r"DelayKernel|\bspin(_kernel)?\b|\bsleep(_kernel)?\b|busy_?wait"),
        ("graph", r"^\[CUDA graph"),
        (
            "gemm",
            r"gemm|gemv|cutlass|xmma|wgmma|nvjet|cublas|aten::(add|b)?mm\b|aten::bmm|aten::baddbmm|splitKreduce|"
            r"fusion_dot",
        ),
        ("fft", r"fft|bluestein"),
        ("elementwise", r"masked_fill|where"),
        (
            "reduction",
            r"reduc|norm(?!al)|GammaBeta|aten::(sum|mean|all|any|max|amax)\b|triton_(per|red)_|cub::.*Device\w*Kernel|"
            r"scan_(inner|outer)most|cumsum|embedding_backward|compute_grad_weight|sum_and_scatter|partial(s_per)?_segment|"
            r"topk|sort|xla_fp_comparison|\bresidual\b",
        ),
        (
            "copy",
            r"copy|CatArray|chunk_cat|transpose|memcpy|gather|scatter|indexSelect|index_|concatenate|slice_fusion|"
            r"RepeatBuffer",
        ),
        ("fill", r"fill|memset|Redzone|aten::(ones|zeros|full|scalar_tensor|zero_)\b"),
        (
            "elementwise",
            r"elementwise|triu|tril|aten::(add|sub|mul|div|where|masked_fill|exp|isneginf)|pointwise|"
            r"multi_tensor_apply|triton_poi|^(loop_|wrapped_|input_)?\w*fusion(_\d+)?$|^wrapped_|^cupy_|dropout|distribution_|"
            # Common names of hand-written kernels: BLAS 1, and stencils.
            r"\b[sdchz]?(axpy|axpby|scal)\b|\b(vector_?)?(add|mul|scale|shift)(_?kernel)?\(|stencil|jacobi|laplac",
        ),
    )
)


# The ranks of a job have the same kernels.
@lru_cache(4096)
def categorize(name: str) -> str:
    """Return the category of a demangled kernel name or an operator."""
    head = name if len(name) < 4096 else name[:4096]
    return next((category for category, pattern in _PATTERNS if pattern.search(head)), "other")
