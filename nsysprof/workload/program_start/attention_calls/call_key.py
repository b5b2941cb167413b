"""Make a key for each attention call from its arguments, without reading the numbers in tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_PLAIN = (bool, int, float, str)


def autocast_of(torch: Any) -> Callable[[], Any]:
    """Return a function that returns the type to which autocast turns inputs of full precision, or None."""
    is_enabled = torch.is_autocast_enabled
    try:
        get = torch.get_autocast_dtype
        is_enabled("cpu")
    except Exception:  # noqa: BLE001 - before torch 2.4
        return lambda: torch.get_autocast_gpu_dtype() if is_enabled() else None
    is_any = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)

    def cast() -> Any:
        if not is_any():
            return None
        return get("cuda") if is_enabled("cuda") else get("cpu") if is_enabled("cpu") else None

    return cast


def is_plain(torch: Any, query: Any) -> bool:
    """Return whether a tensor is one of numbers, or nested. Others stand for tensors while a program is compiled."""
    if not isinstance(query, torch.Tensor):
        return False
    return bool(query.is_nested) or type(query).__torch_dispatch__ is torch.Tensor.__torch_dispatch__


def key_of(args: Any, kwargs: Any) -> list[Any]:
    """Return a key that distinguishes calls from one line."""
    key: list[Any] = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        shape = getattr(value, "shape", None) if value is not None and value.__class__ not in _PLAIN else None
        if shape is None:
            key.append(value if value.__class__ in _PLAIN or value is None else type(value))
        else:
            key.append(shape)
            key.append(getattr(value, "dtype", None))
    mask = kwargs.get("attn_mask", args[3] if len(args) > 3 else None)
    key.append(getattr(mask, "requires_grad", None))
    return key


def sizes_of(inputs: Any) -> str:
    """Return the sizes and types of tensors as text."""
    return str([(tuple(tensor.shape), str(tensor.dtype)) for tensor in inputs])
