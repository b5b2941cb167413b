"""Give models of transformers another attn_implementation, without changing the program.

NSYSPROF_ATTN_IMPLEMENTATION names it. transformers has no variable of its own for this: the value in the program's code
or config is replaced when a model is made, where its class supports that. It needs only the standard library.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

IMPLEMENTATION = "NSYSPROF_ATTN_IMPLEMENTATION"
_MODULE = "transformers.modeling_utils"


class _WatchTransformers:
    """A finder that leaves the search to others, and acts once the module of transformers' models is imported."""

    nsysprof_action = "attn_implementation"
    _is_searching = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name != _MODULE or self._is_searching:
            return None
        self._is_searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_searching = False
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self not in sys.meta_path:
                return
            sys.meta_path.remove(self)
            try:
                wrap_models(module, os.environ[IMPLEMENTATION])
            except Exception as error:  # noqa: BLE001 - the program runs on as it is
                _say(f"not applied ({type(error).__name__}: {error}).")

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def begin() -> None:
    """Act once transformers is imported, unless this waits for it already."""
    waiting = (getattr(finder, "nsysprof_action", "") for finder in sys.meta_path)
    if _MODULE not in sys.modules and _WatchTransformers.nsysprof_action not in waiting:
        sys.meta_path.insert(0, _WatchTransformers())


def wrap_models(module: Any, wanted: str) -> None:
    """Let each model that is made from now on have `wanted` for its attention, where its class supports that."""
    original, named_classes = module.PreTrainedModel.__init__, set()

    def __init__(self: Any, config: Any, *inputs: Any, **named: Any) -> None:
        name, before = type(self).__name__, getattr(config, "_attn_implementation", None)
        if before != wanted:
            supported = wanted == "eager" or getattr(self, f"_supports_{wanted}", True)
            if supported:
                config._attn_implementation = wanted
            if name not in named_classes:
                named_classes.add(name)
                _say(f"{name} has {wanted} in place of {before}." if supported else f"{name} has no {wanted}.")
        original(self, config, *inputs, **named)

    module.PreTrainedModel.__init__ = __init__


def _say(text: str) -> None:
    print(f"nsysprof attn_implementation: {text}", file=sys.stderr)  # noqa: T201
