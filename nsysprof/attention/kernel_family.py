"""Decide which attention backend the kernels and operators of one call belong to."""

from __future__ import annotations

from collections.abc import Iterable

from nsysprof.kernels.names import kind_of

_OPERATORS = {
    "aten::_scaled_dot_product_flash_attention": "flash",
    "aten::_scaled_dot_product_flash_attention_for_cpu": "flash",
    "aten::_scaled_dot_product_efficient_attention": "efficient",
    "aten::_scaled_dot_product_cudnn_attention": "cudnn",
    "aten::_scaled_dot_product_attention_math": "math",
}


def kernel_family(names: Iterable[str]) -> str | None:
    """Return the backend of a fused kernel, such as flash or cudnn; math for products and a softmax; else other.

    Return None without names. `naive` belongs to math: both write the scores to memory.

    names: GPU kernels, or operators on the CPU.
    """
    kinds = [kind_of(name) for name in names]
    if not kinds:
        return None
    backends = sorted({kind.backend for kind in kinds if kind.backend})
    if backends:
        return "cudnn" if "cudnn" in backends else backends[0]
    is_math = {"gemm", "softmax"} <= {kind.category for kind in kinds}
    return "math" if is_math else "other"


# Torch's own backends, of which the first counts where kernels of several belong to one call.
_TORCH = ("flash", "efficient", "cudnn", "flex")


def backends_by_name(names: Iterable[str]) -> tuple[tuple[str, ...], list[int]]:
    """Return all backends that these kernels belong to, torch's first and math last, and the place of each kernel's.

    The place is -1 for a kernel that does not tell its backend.
    """
    families = [kernel_family([name]) or "" for name in names]
    others = sorted({*families} - {*_TORCH, "math", "other", ""})
    backends = (*_TORCH, *others, "math")
    places = {backend: place for place, backend in enumerate(backends)}
    return backends, [places.get(family, -1) for family in families]


def dispatched_operator(names: Iterable[str]) -> str | None:
    """Return the operator of one call that scaled_dot_product_attention dispatched to."""
    return next((name for name in names if name in _OPERATORS), None)


def operator_family(operator: str | None) -> str | None:
    """Return the backend to which one of torch's inner attention operators belongs."""
    return _OPERATORS.get(operator or "")
