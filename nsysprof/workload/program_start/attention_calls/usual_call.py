"""Wrap torch's scaled_dot_product_attention in ranges, by the fastest path for calls that were seen before."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

_MOST_FORMS = 20_000


def wrap_sdpa(calls: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does what `original` does, within a range.

    A call whose line, sizes and arguments were seen before is found by one look-up; `calls`, the AttentionCalls of this
    process, describes every other one, also under autocast.
    """
    # The arguments have torch's names, since a tuple and a dict for them cost as much as the look-up of a call. The
    # default of dropout_p is no float, of which the compiler would make an input of the graph.
    torch = calls.torch
    # The compiler takes both for True where it reads them; the first takes a quarter of the other's time.
    compiler: Any = getattr(torch, "compiler", None)
    is_compiling: Any = getattr(compiler, "is_dynamo_compiling", None) or getattr(compiler, "is_compiling", bool)
    has_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
    push, pop, known, full, tensor = calls.push, calls.pop, calls.usual, torch.float32, torch.Tensor
    frame_of, clock = sys._getframe, time.perf_counter_ns

    @functools.wraps(original)
    def attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: Any = False, is_causal: Any = False,
        *, scale: Any = None, **more: Any,
    ) -> Any:  # fmt: skip
        dropout = 0.0 if dropout_p is False else dropout_p
        if is_compiling():  # the compiler sees the original function alone
            return original(query, key, value, attn_mask, dropout, is_causal, **_given(scale=scale), **more)
        calls.count = count = calls.count + 1
        began = clock() if count & 15 == 2 else 0
        frame, form, seen = frame_of(1), None, None
        try:
            dtype = query.dtype
            if dtype is not full or not has_autocast():
                mask = None if attn_mask is None else _key_of_mask(attn_mask)
                rest = (*more.values(),) if more else None
                form = (
                    id(frame.f_code), frame.f_lasti, query.__class__, dtype, query.shape, key.shape, is_causal, mask,
                    dropout, scale, rest,
                )  # fmt: skip
                seen = known.get(form)
        except Exception:  # noqa: BLE001 - other arguments, or tensors without these facts
            form = None
        if seen is None:
            before, args = calls.described, (query, key, value)
            kwargs = {"attn_mask": attn_mask, "dropout_p": dropout, "is_causal": is_causal, "scale": scale, **more}
            seen = _find_first(calls, args, kwargs, frame, form)
            if seen is None:
                return calls.run_unseen(original, args, _given(**kwargs))
            began = began if calls.described == before else 0  # descriptions are counted by themselves
        push(seen.forward_name)
        called = clock() if began else 0
        try:
            if query.__class__ is not tensor:  # a subclass may look at how its arguments are given
                named = _given(attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, scale=scale)
                out = original(query, key, value, **named, **more)
            elif scale is None and not more:
                out = original(query, key, value, attn_mask, dropout, is_causal)
            else:
                out = original(query, key, value, attn_mask, dropout, is_causal, scale=scale, **more)
        finally:
            returned = clock() if began else 0
            pop()
            seen.forward += 1
        node = getattr(out, "grad_fn", None)
        if node is not None:
            calls.watch_backward(seen, node, (query, key, value, attn_mask))
        if began:
            calls.forward.add(called - began + clock() - returned, clock(), calls.count)
        return out

    return attention


def _key_of_mask(mask: Any) -> tuple[Any, ...]:
    return mask.shape, mask.dtype, mask.requires_grad


def _find_first(calls: Any, args: Any, kwargs: Any, frame: Any, form: Any) -> Any:
    """Return what a call is counted under, and keep it by its form where that tells its calls from all others."""
    seen = calls.find("sdpa", args, kwargs, frame, "fwd")
    if seen is not None and form is not None and len(calls.usual) < _MOST_FORMS and calls.is_of_program(frame):
        calls.usual[form] = seen
    return seen


def _given(**arguments: Any) -> dict[str, Any]:
    """Return the arguments that differ from torch's defaults, which are false."""
    return {name: value for name, value in arguments.items() if value is not None and value is not False}
