"""Use the compiled part of the hook where there is one for this Python and this torch; everything works without it.

fast_calls.c is compiled when nsysprof is installed, where there is a compiler. Calls that were seen before then take
a fraction of the time that they take in Python.
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

    original: torch's function. attention: the function of Python around it. calls: the AttentionCalls. is_answered:
    tells whether a class or mode of the program answers a call.
    """
    torch = calls.torch
    exchange = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)  # torch 2.10 and newer
    states = tuple(getattr(torch._C, name, None) for name in ("_is_any_autocast_enabled", _HAS_MODE))
    if compiled is None or exchange is None or None in states:
        return None

    def learn(
        frame: Any, query: Any, key: Any, value: Any, mask: Any, dropout: Any, causal: Any, scale: Any, gqa: Any
    ) -> Any:
        """Return what a call is counted under that is new to FastCalls; False where all of its kind go Python's way."""
        if not calls.is_of_program(frame):
            return False
        named = {"attn_mask": mask, "dropout_p": dropout, "is_causal": causal, "scale": scale, "enable_gqa": gqa}
        return calls.find("sdpa", (query, key, value), named, frame)

    def add_time(spent_ns: int, end_ns: int, _count: int) -> None:
        calls.forward.add(spent_ns, end_ns, calls.all_calls())

    functions = (original, attention, learn, calls.watch_call, add_time, calls.push, calls.pop, *states, is_answered)
    try:
        calls.fast = compiled.FastCalls(*functions, torch.Tensor, exchange)
    except (ValueError, TypeError):  # another version of DLPack
        return None
    calls.fast_function = calls.fast.make_function()
    function: Callable[..., Any] = calls.fast_function
    return function


def hooks_of(push: Any, pop: Any, name: str) -> Any:
    """Return the compiled hooks that open and close a range in the backward pass; None without them."""
    return None if compiled is None else compiled.Hooks(push, pop, name)


def keep_hooks(torch: Any) -> None:
    """Let autograd keep compiled hooks without the handles that could remove them, which take longer than all else."""
    function = torch.autograd.Function
    kept = getattr(function, "_register_hook", None)
    if compiled is None or kept is None:
        return

    def register(hooks: Any, hook: Any) -> Any:
        if hooks.__class__ is not dict:
            return kept(hooks, hook)
        # A handle holds a node's functions weakly, which it cannot do with the plain ones of the compiled part.
        _, handle = kept(None, hook)
        handle.hooks_dict_ref = lambda: hooks
        hooks[handle.id] = hook
        return hooks, handle

    function._register_hook = staticmethod(compiled.make_register(register))


def watch_modules(call: Callable[..., Any], *others: Any) -> None:
    """Let calls of the function that stands for `__call__` of modules run in C where that can be, by far the most."""
    if compiled is not None:
        compiled.watch_modules(call, *others)


def forget_module(number: int) -> None:
    """Tell the compiled part that the number of a module stands for it no more, or that its range has another name."""
    if compiled is not None:
        compiled.forget_module(number)


def show_compiler(dynamo: Any, calls: Any, original: Callable[..., Any]) -> None:
    """Let torch.compile see the original function where a program calls the compiled one.

    dynamo: the module torch._dynamo, which has just been imported.
    """
    function = calls.fast_function

    def see(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    if function is not None:
        dynamo.substitute_in_graph(function, skip_signature_check=True)(see)
