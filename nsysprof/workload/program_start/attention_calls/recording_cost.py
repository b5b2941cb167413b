"""Measure what recording a call costs beyond what the call can time itself: being called, and autograd's part."""

from __future__ import annotations

import time
from typing import Any

_TURNS = 60
_CALLS = 16
# A program's caches are colder than those of a loop; beyond this, something else was in the way.
_MOST_SLOWER = 4.0
_clock = time.perf_counter_ns


def cost_of_recording(calls: Any, mean_ns: float, *, is_training: bool = False) -> float:
    """Return what a call takes that it does not time (ns), as much slower than in a loop as what it does time.

    calls: an AttentionCalls without calls and ranges. mean_ns: what the program's calls timed of themselves.
    is_training: whether they have a backward pass, which then counts too.
    """
    torch = calls.torch
    with torch.set_grad_enabled(is_training):
        tensor = torch.ones(1, 1, 1, 1, requires_grad=is_training)

        def original(query: Any, *_others: Any) -> Any:
            return query * 1.0

        wrapped, least = calls.wrap_function(original, "sdpa"), [1 << 60, 1 << 60]
        for turn in range(_TURNS):
            run = wrapped if turn % 2 else original
            began = _clock()
            for _ in range(_CALLS):
                result = run(tensor, tensor, tensor)
                if is_training:
                    result.backward(tensor)
            least[turn % 2] = min(least[turn % 2], _clock() - began)
    whole, timed = (least[1] - least[0]) / _CALLS, calls.forward.least_ns()
    slower = min(max(mean_ns / max(1, timed), 1.0), _MOST_SLOWER)
    return float(slower * max(0.0, whole - timed))
