"""Count the calls of a program's outermost module: the steps of a program without an optimizer.

The module that counts is the first to be called a second time from outside any module: the model of a loop that
generates, but not an encoder that runs once before it. It needs only torch, because it runs in the program's Python.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from typing import Any


class ModuleCalls:
    """Calls `ended` with the number of steps that have ended, whenever one has: when the module is called again."""

    def __init__(self, torch: Any, ended: Callable[[int], None]) -> None:
        self._torch, self._ended = torch, ended
        self._original: Any = None
        self._own: Any = None
        self._lock = threading.Lock()
        self._held = threading.local()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._watched: Callable[[], Any] | None = None
        self._calls = 0

    def begin(self) -> None:
        """Watch the calls of all modules from now on."""
        self._original = original = self._torch.nn.Module.__call__
        held, compiler = self._held, self._torch.compiler

        def call(module: Any, *arguments: Any, **named: Any) -> Any:
            # Where torch.compile reads this function, only the call of the original is left of it.
            if compiler.is_compiling() or held.__dict__.get("is_inside") or self._own is None:
                return original(module, *arguments, **named)
            held.is_inside = True
            try:
                with contextlib.suppress(TypeError):  # a module without a hash or a weak reference does not count
                    self._note(module)
                return original(module, *arguments, **named)
            finally:
                held.is_inside = False

        self._own = self._torch.nn.Module.__call__ = call

    def end(self) -> None:
        """Watch no more calls. What others have put in the place of `begin` meanwhile stays, such as torch.fx."""
        own, self._own = self._own, None
        if self._torch.nn.Module.__call__ is own:
            self._torch.nn.Module.__call__ = self._original

    def _note(self, module: Any) -> None:
        with self._lock:
            if self._watched is None:
                if module not in self._seen:
                    self._seen.add(module)
                    return
                self._watched, self._calls = weakref.ref(module), 1
                self._seen.clear()
            elif self._watched() is not module:
                return
            self._calls += 1
            steps = self._calls - 1
        self._ended(steps)
