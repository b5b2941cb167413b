"""Follow a call of attention into its backward pass, along the nodes of autograd's graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .fast_path import register_with

_MOST_NODES = 64


class NodeHooks:
    """Functions that autograd calls before and after one node, registered without the handle that could remove them.

    torch makes such a handle for each registration, which takes longer than all else that a call is watched with.
    """

    def __init__(self, torch: Any) -> None:
        # By their address, and kept so that no other function gets it.
        self._own: dict[int, Any] = {}
        function = torch.autograd.Function
        kept = getattr(function, "_register_hook", None)
        if kept is None:  # another torch: handles are made
            return
        own = self._own

        def register(hooks: Any, hook: Any) -> Any:
            place = id(hook)
            if place in own:
                if hooks is None:
                    return {place: hook}, None
                hooks[place] = hook
                return hooks, None
            if hooks.__class__ is not dict:
                return kept(hooks, hook)
            # A handle holds a node's functions weakly, which it cannot do with the plain ones of here.
            _, handle = kept(None, hook)
            handle.hooks_dict_ref = lambda: hooks
            hooks[handle.id] = hook
            return hooks, handle

        function._register_hook = staticmethod(register_with(register))

    def keep(self, *hooks: Any) -> None:
        """Let these functions be registered without handles from now on."""
        self._own.update((id(hook), hook) for hook in hooks)


def path_to_last(node: Any, inputs: Sequence[Any]) -> tuple[int, ...]:
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
