"""Follow a call of attention into its backward pass, along the nodes of autograd's graph."""

from __future__ import annotations

import time
from typing import Any

_MOST_NODES = 64
_TURNS = 200
_clock = time.perf_counter_ns


def measure_hooks(torch: Any) -> int:
    """Return what two empty functions on a node of autograd's graph add to its backward pass (ns)."""
    least = [1 << 60, 1 << 60]
    with torch.enable_grad():
        start = torch.ones(1, requires_grad=True)
        for turn in range(_TURNS):
            result = start * 2.0
            began = _clock()
            if turn % 2:
                result.grad_fn.register_prehook(lambda gradients: None)
                result.grad_fn.register_hook(lambda results, gradients: None)
            torch.autograd.grad(result, start)
            least[turn % 2] = min(least[turn % 2], _clock() - began)
    return max(0, least[1] - least[0])


def path_to_last(node: Any, inputs: list[Any]) -> tuple[int, ...]:
    """Return the way from a result's node to the node of the same call that runs last in the backward pass.

    A call of a fused backend is one node, with more where inputs are cast or padded; other calls are many.
    """
    stops = [found for each in inputs if (found := getattr(each, "grad_fn", None)) is not None]
    paths: dict[Any, tuple[int, ...]] = {node: ()}
    queue = [node]
    while queue and len(paths) < _MOST_NODES:
        current = queue.pop(0)
        for place, (following, _) in enumerate(current.next_functions):
            if following is None or following in paths or following in stops:
                continue
            if following.name() == "torch::autograd::AccumulateGrad":
                continue
            paths[following] = (*paths[current], place)
            queue.append(following)
    return paths[min(paths, key=lambda each: each._sequence_nr())]
