"""Use the compiled part of the hook where there is one for this Python and this torch; everything works without it.

fast_calls.c is compiled when nsysprof is installed, where there is a compiler. Calls of a program then take a quarter
of the time that they take in usual_call.py, and hooks of its backward pass half of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from . import fast_calls as compiled
except ImportError:  # not compiled, or for another Python
    compiled = None  # type: ignore[assignment]

_HAS_MODE = "_is_torch_function_mode_enabled"


def nvtx_functions() -> tuple[Any, Any] | None:
    """Return functions that open and close a range of NVTX; None without the compiled part."""
    return None if compiled is None else (compiled.push, compiled.pop)


def silent_functions() -> tuple[Any, Any]:
    """Return what stands for these functions where no range is wanted."""
    if compiled is None:
        return (lambda name: None), (lambda: None)
    return compiled.open_nothing, compiled.close_nothing


def wrap_with(
    calls: Any, original: Callable[..., Any], attention: Callable[..., Any], is_answered: Callable[..., bool]
) -> Callable[..., Any] | None:
    """Return a compiled function that calls `attention` for calls it does not know; None where it cannot be used.

    original: torch's function. attention: the function of usual_call.py around it. calls: the AttentionCalls.
    is_answered: as own_answers.py makes it.
    """
    torch = calls.torch
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)  # torch 2.10 and newer
    states = tuple(getattr(torch._C, name, None) for name in ("_is_any_autocast_enabled", _HAS_MODE))
    if compiled is None or exchange is None or None in states:
        return None
    forms = calls.forms

    def learn(
        frame: Any, query: Any, key: Any, value: Any, mask: Any, dropout: Any, causal: Any, scale: Any, gqa: Any
    ) -> Any:
        """Return the form of a call that is new to FastCalls; False where all of its kind go the usual way."""
        if not calls.is_of_program(frame):
            return False
        named = {"attn_mask": mask, "dropout_p": dropout, "is_causal": causal, "scale": scale}
        form = forms.find(forms.last, frame, query, key, value, named, gqa, {})
        if form is not None:
            forms.last = form
        return form

    def add_time(spent_ns: int, end_ns: int, _count: int) -> None:
        calls.forward.add(spent_ns, end_ns, calls.all_calls())

    functions = (original, attention, learn, calls.watch_call, add_time, calls.push, calls.pop, *states, is_answered)
    try:
        calls.fast = compiled.FastCalls(*functions, torch.Tensor, exchange)
    except (ValueError, TypeError):  # another version of DLPack
        return None
    calls.fast_function = calls.fast.make_function()
    made: Callable[..., Any] = calls.fast_function
    return made


def hooks_of(push: Any, pop: Any, name: str) -> Any:
    """Return the compiled hooks that open and close a range in the backward pass; None without them."""
    return None if compiled is None else compiled.Hooks(push, pop, name)


def register_with(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """Return what registers compiled hooks without a handle, and others as `otherwise` does."""
    return otherwise if compiled is None else compiled.make_register(otherwise)


def show_compiler(dynamo: Any, calls: Any, original: Callable[..., Any]) -> None:
    """Let torch.compile see the original function where a program calls the compiled one.

    dynamo: the module torch._dynamo, which has just been imported.
    """
    function = calls.fast_function

    def see(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    if function is not None:
        dynamo.substitute_in_graph(function, skip_signature_check=True)(see)
