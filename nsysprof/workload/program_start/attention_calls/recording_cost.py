"""Measure what recording a call costs beyond what the call can time itself: being called, and autograd's part."""

from __future__ import annotations

import time
from typing import Any

_TURNS = 60
_CALLS = 16
# A program's caches are colder than those of a loop; beyond this, something else was in the way.
MOST_SLOWER = 6.0
_clock = time.perf_counter_ns


def cost_of_recording(calls: Any, *, is_training: bool = False) -> tuple[float, int]:
    """Return what recording a call takes in a loop (ns), and how much of that the call can time of itself.

    calls: an AttentionCalls without calls and ranges. is_training: whether they have a backward pass, which then counts
    too.
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
    timed = calls.forward.least_ns()
    return max(float(timed), (least[1] - least[0]) / _CALLS), timed
