"""Count the steps of a program: those of the first optimizer that takes one, or calls of its outermost module.

A second optimizer (of a GAN) belongs to the steps of the first. The module that counts is the first to be called a
second time from outside any module: the model of a loop that generates, but not an encoder that runs once before it.
It needs only torch, because it runs in the program's own Python.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

_RUNS = ("forward", "__call__")


class FirstOptimizer:
    """Calls `ended` after each step of the first optimizer."""

    def __init__(self, ended: Callable[[], Any]) -> None:
        self._ended = ended
        self._number: int | None = None

    @property
    def is_known(self) -> bool:
        """Return whether an optimizer took a step."""
        return self._number is not None

    def watch(self) -> bool:
        """Follow the program's optimizers from now on. Return whether this torch tells of their steps."""
        try:
            from torch.optim.optimizer import register_optimizer_step_post_hook
        except ImportError:  # torch before 2.0
            return False
        register_optimizer_step_post_hook(lambda optimizer, _arguments, _named: self.take(optimizer))
        return True

    def take(self, optimizer: Any) -> None:
        """Note a step of an optimizer."""
        if self._number is None:
            self._number = id(optimizer)
        if id(optimizer) == self._number:
            self._ended()

    def forget(self) -> None:
        """Follow the next optimizer that takes a step, in a fork of the process."""
        self._number = None


class ModuleCalls:
    """Calls `ended` with the number of steps that have ended, whenever one has: when the module is called again."""

    def __init__(self, torch: Any, ended: Callable[[int], None]) -> None:
        self._torch, self._ended = torch, ended
        # What was replaced: the class, the name of the function, torch's or the program's own, and ours.
        self._replaced: list[tuple[Any, str, Any, Any]] = []
        self._is_on = False
        self._lock = threading.Lock()
        self._held = threading.local()
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._watched: Callable[[], Any] | None = None
        self._calls = 0

    @property
    def watched(self) -> Any:
        """Return the module whose calls count; None where there is none yet, or no more."""
        return None if self._watched is None else self._watched()

    def begin(self) -> None:
        """Watch the calls of all modules from now on."""
        self._is_on = True
        self._watch(self._torch.nn.Module, "__call__")

    def end(self) -> None:
        """Watch no more calls. What others have put in the place of our functions meanwhile stays, such as torch.fx."""
        self._is_on = False
        for owner, name, original, own in self._replaced:
            if owner.__dict__.get(name) is own:
                setattr(owner, name, original)
        self._replaced = []

    def _watch(self, owner: Any, name: str) -> None:
        original, held, compiler = owner.__dict__[name], self._held, self._torch.compiler

        def call(module: Any, *arguments: Any, **named: Any) -> Any:
            # Where torch.compile reads this function, only the call of the original is left of it.
            if compiler.is_compiling() or held.__dict__.get("is_inside") or not self._is_on:
                return original(module, *arguments, **named)
            held.is_inside = True
            try:
                with contextlib.suppress(TypeError):  # a module without a hash or a weak reference does not count
                    self._note(module)
                return original(module, *arguments, **named)
            finally:
                held.is_inside = False

        setattr(owner, name, call)
        self._replaced.append((owner, name, original, call))

    def _note(self, module: Any) -> None:
        with self._lock:
            if self._watched is None:
                outer = self._outer(module)
                if outer is not None:  # its calls are seen from the next one on
                    self._watch_class(type(outer))
                    return
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

    def _outer(self, module: Any) -> Any:
        """Return the outermost other module that runs on this thread; None where there is none.

        It was called past torch's `__call__`: by a `__call__` of its own class, as vLLM has, or by its `forward`.
        """
        outer, frame = None, sys._getframe(3)
        while frame is not None:
            if frame.f_code.co_name in _RUNS:
                caller = frame.f_locals.get("self")
                if caller is not module and isinstance(caller, self._torch.nn.Module):
                    outer = caller
            frame = frame.f_back  # type: ignore[assignment]
        return outer

    def _watch_class(self, kind: type) -> None:
        for name in ("__call__", "forward"):
            for owner in kind.__mro__:
                if owner is self._torch.nn.Module:
                    break
                if name in owner.__dict__:
                    if (owner, name) not in [replaced[:2] for replaced in self._replaced]:
                        self._watch(owner, name)
                    return
