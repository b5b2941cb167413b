"""Wrap torch's scaled_dot_product_attention in ranges, by the fastest path for calls that were seen before."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any

from .call_form import given, key_of_mask
from .fast_path import wrap_with
from .own_answers import answers_of

# One call in so many is timed, since reading the clock takes longer than much else; of the first calls more. The
# number has no small divisors, so that all layers of a model have their turn.
_EVERY, _EVERY_AT_FIRST, _FIRST = 31, 7, 60


def wrap_sdpa(calls: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does what `original` does, within a range.

    A call is compared with the one that followed the last call before, piece by piece, which takes less time than to
    look it up. Where it differs, `calls.forms` looks for it; `calls` is the AttentionCalls of this process.

    The arguments have torch's names, since a tuple and a dict for them cost as much as all else. By default,
    dropout_p is False, because the compiler would make a float an input of the graph.
    """
    (is_compiling, has_autocast, has_override), (is_answered, answer) = _states_of(calls.torch), answers_of(calls.torch)
    push, pop, tensor, frame_of, clock = calls.push, calls.pop, calls.torch.Tensor, sys._getframe, time.perf_counter_ns
    forms, watch, timed = calls.forms, calls.watch_call, calls.forward

    @functools.wraps(original)
    def attention(
        query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: Any = False, is_causal: Any = False,
        *, scale: Any = None, enable_gqa: Any = None, **more: Any,
    ) -> Any:  # fmt: skip
        if is_compiling():  # the compiler sees the original function alone
            dropout, named = 0.0 if dropout_p is False else dropout_p, given({"scale": scale, "enable_gqa": enable_gqa})
            return original(query, key, value, attn_mask, dropout, is_causal, **named, **more)
        if has_override(query, key, value, attn_mask) and is_answered(query, key, value, attn_mask):
            return answer(public, (query, key, value), (attn_mask, dropout_p, is_causal, scale, enable_gqa), more)
        forms.count = count = forms.count + 1
        began = clock() if count >= forms.due else 0
        frame, last = frame_of(1), forms.last
        form = last.following
        try:
            # Where torch.jit traces, sizes are tensors, and not to be compared: their hash is not that of numbers.
            if (
                form.code is not frame.f_code or form.at != frame.f_lasti or type(query) is not tensor
                or form.dtype is not query.dtype or form.hash != hash(sizes := query.shape) or form.query != sizes
                or form.key != key.shape or form.others != (dropout_p, is_causal, scale, enable_gqa) or more
                or (form.mask is not None if attn_mask is None else form.mask != key_of_mask(attn_mask))
                or (form.is_full and (form.cast is not None or has_autocast()))
            ):  # fmt: skip
                form = None
        except Exception:  # noqa: BLE001 - other arguments, or tensors without these facts
            form = None
        if form is None:
            named = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal, "scale": scale}
            described = calls.described
            form = forms.find(last, frame, query, key, value, named, enable_gqa, more)
            if form is None:
                forms.count -= 1
                more |= given({"enable_gqa": enable_gqa})
                return calls.run(original, "sdpa", (query, key, value), named | more, frame)
            began = began if calls.described == described else 0  # descriptions are counted by themselves
        forms.last = form
        form.forward += 1
        push(form.name)
        called = clock() if began else 0
        try:
            if form.named is None:
                out = original(query, key, value, attn_mask, form.dropout, is_causal)
            else:
                out = original(query, key, value, attn_mask, form.dropout, is_causal, **form.named)
        finally:
            returned = clock() if began else 0
            pop()
        if getattr(out, "requires_grad", False):  # in half of the time that grad_fn takes
            watch(form, out.grad_fn, query, key, value, attn_mask)
        if began:
            forms.due = count + (_EVERY if count > _FIRST else _EVERY_AT_FIRST)
            timed.add(called - began + clock() - returned, clock(), calls.all_calls())
        return out

    public = wrap_with(calls, original, attention, is_answered) or attention
    return public


def _states_of(torch: Any) -> tuple[Any, Any, Any]:
    """Return what tells whether a program is being compiled, autocast is on, and a class or mode may answer a call."""
    compiler: Any = getattr(torch, "compiler", None)
    # The compiler takes both for True where it reads them; the first takes a quarter of the other's time.
    is_compiling = getattr(compiler, "is_dynamo_compiling", None) or getattr(compiler, "is_compiling", bool)
    has_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
    return is_compiling, has_autocast, torch.overrides.has_torch_function_variadic
