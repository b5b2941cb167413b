"""Let classes and modes of the program answer a call of attention by `__torch_function__`, as without the hook.

torch names the function to them that was called. They compare it with the one in torch.nn.functional, which is the
hook's; torch's own classes know the original.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .call_form import given

_OTHERS = ("attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")


def answers_of(torch: Any) -> tuple[Callable[..., bool], Callable[..., Any]]:
    """Return what tells whether a class or mode of the program, and not of torch, answers a call, and what asks it.

    The first takes the arguments that may be tensors. The second takes the function that the program knows, the query,
    key and value, torch's other arguments in their order, and by name those that torch has added since.
    """
    handle = torch.overrides.handle_torch_function
    modes = getattr(torch.overrides, "_get_current_function_mode_stack", list)

    def is_answered(*tensors: Any) -> bool:
        return any(_is_of_program(type(each)) for each in (*tensors, *modes()))

    def answer(function: Any, tensors: tuple[Any, ...], others: tuple[Any, ...], more: dict[str, Any]) -> Any:
        named = given(dict(zip(_OTHERS, others, strict=True)))
        return handle(function, (*tensors, others[0]), *tensors, **named, **more)

    return is_answered, answer


def _is_of_program(kind: type) -> bool:
    for each in kind.__mro__:
        if "__torch_function__" in each.__dict__:
            return each.__module__.partition(".")[0] != "torch"
    return False
