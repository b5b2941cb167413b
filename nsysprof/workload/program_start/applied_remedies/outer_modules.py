"""Tell when a program calls a module with parameters from outside of any module: its model, not a layer or a loss.

It needs only torch, because it runs in the program's own Python. Inside such a call torch's own `__call__` is in force,
so that layers cost nothing and torch.compile reads what it always reads. After the first calls only the classes of the
modules that were seen are watched.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

# After so many calls of one module no other is looked for.
_LOOKED_CALLS = 5


class OuterModules:
    """Calls `on_first` before the first call of each outermost module, and `on_call` after each of its calls."""

    def __init__(self, torch: Any, on_first: Callable[[Any], None], on_call: Callable[[Any, Any], None]) -> None:
        self._torch, self._on_first, self._on_call = torch, on_first, on_call
        self._original = torch.nn.Module.__dict__["__call__"]
        self._held = threading.local()
        self._counts: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._is_looking = False

    def begin(self) -> None:
        """Watch the calls of all modules from now on."""
        self._is_looking = True
        self._put(self._torch.nn.Module)

    def _put(self, owner: Any) -> None:
        original, held, compiler, watch = owner.__dict__.get("__call__"), self._held, self._torch.compiler, self
        run = self._original if original is None else original

        def call(module: Any, *arguments: Any, **named: Any) -> Any:
            if compiler.is_compiling() or held.__dict__.get("is_inside"):
                return run(module, *arguments, **named)
            return watch._outside(run, module, arguments, named)

        owner.__call__ = call

    def _outside(self, run: Any, module: Any, arguments: Any, named: Any) -> Any:
        """Run a call that no other module's call is around of."""
        if not self._is_wanted(module):
            return run(module, *arguments, **named)
        if module not in self._counts:
            self._counts[module] = 0
            self._on_first(module)
        looking, base = self._is_looking, self._torch.nn.Module
        own = base.__dict__["__call__"]
        self._held.is_inside = True
        if looking:
            base.__call__ = self._original
        try:
            output = run(module, *arguments, **named)
        finally:
            self._held.is_inside = False
            if looking:
                base.__call__ = own
        self._counts[module] += 1
        self._on_call(module, output)
        if looking and self._counts[module] >= _LOOKED_CALLS:
            self._settle()
        return output

    def _is_wanted(self, module: Any) -> bool:
        with contextlib.suppress(TypeError):  # a module without a hash or a weak reference does not count
            return module in self._counts or next(module.parameters(), None) is not None
        return False

    def _settle(self) -> None:
        """Watch only the classes of the modules that were seen."""
        if not self._is_looking:
            return
        self._is_looking = False
        self._torch.nn.Module.__call__ = self._original
        for kind in {type(module) for module in self._counts}:
            self._put(kind)
