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
    torch = calls.torch
    # The compiler takes both for True where it reads them; the first takes a quarter of the other's time.
    compiler: Any = getattr(torch, "compiler", None)
    is_compiling: Any = getattr(compiler, "is_dynamo_compiling", None) or getattr(compiler, "is_compiling", bool)
    has_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
    push, pop, known, full = calls.push, calls.pop, calls.usual, torch.float32
    frame_of, clock = sys._getframe, time.perf_counter_ns

    @functools.wraps(original)
    def attention(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # the compiler sees the original function alone
            return original(*args, **kwargs)
        calls.count = count = calls.count + 1
        began = clock() if count & 15 == 2 else 0
        frame, key = frame_of(1), None
        seen: Any = None
        try:
            query, other, _ = args
            dtype = query.dtype
            if dtype is not full or not has_autocast():
                mask = kwargs.get("attn_mask")
                if mask is None:
                    rest: Any = (*kwargs.values(),)
                else:
                    rest = mask.shape, mask.dtype, kwargs.get("dropout_p"), kwargs.get("is_causal"), kwargs.get("scale")
                code = frame.f_code
                key = id(code), frame.f_lasti, query.__class__, query.shape, other.shape, dtype, rest
                seen = known.get(key)
        except Exception:  # noqa: BLE001 - other arguments, or tensors without these facts
            key = None
        if seen is None:
            before = calls.described
            seen = calls.find("sdpa", args, kwargs, frame, "fwd")
            if seen is None:
                return calls.run_unseen(original, args, kwargs)
            if calls.described != before:  # descriptions are counted by themselves
                began = 0
            if key is not None and len(known) < _MOST_FORMS and calls.is_of_program(frame):
                known[key] = seen
        push(seen.forward_name)
        called = clock() if began else 0
        try:
            out = original(*args, **kwargs)
        finally:
            returned = clock() if began else 0
            pop()
            seen.forward += 1
        node = getattr(out, "grad_fn", None)
        if node is not None:
            calls.watch_backward(seen, node, args, kwargs)
        if began:
            calls.forward.add(called - began + clock() - returned, clock(), calls.count)
        return out

    return attention
