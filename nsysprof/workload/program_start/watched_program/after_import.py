"""Act when a program imports a library: before the first one that uses the GPU, or after one of a given name.

It needs only the standard library, because it runs in the program's own Python.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Libraries that use the GPU from Python; a process without any of them is a launcher or a helper.
_OF_GPU = ("torch", "cupy", "jax", "cuda", "numba.cuda", "tensorflow", "pycuda")


class _ImportWatch:
    """A finder that leaves the search to others, and acts at the imports of some libraries.

    A program may only ask whether there is a torch, as transformers does. Such a search does not import it.
    """

    def __init__(self) -> None:
        # The actions by their names: those before a library of the GPU, and those after each library.
        self.before: dict[str, Callable[[], Any]] = {}
        self.after: dict[str, dict[str, Callable[[Any], Any]]] = {}
        # What each thread leaves to others now.
        self._searching: set[tuple[str, int]] = set()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name in _OF_GPU:
            actions, self.before = self.before, {}
            for action, act in actions.items():
                attempt(act, f"the program's {action} are not recorded")
        search = name, threading.get_ident()
        if name not in self.after or search in self._searching:
            return None
        self._searching.add(search)
        try:
            spec: ModuleSpec | None = importlib.util.find_spec(name)
        finally:
            self._searching.discard(search)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for action, act in self.after.pop(name, {}).items():
                attempt(lambda act=act: act(module), f"the program's {action} are not recorded")  # type: ignore[misc]

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


WATCH = _ImportWatch()


def before_gpu_library(action: str, act: Callable[[], Any]) -> None:
    """Call `act` once the program wants a library that uses the GPU, before it is imported. action: what it records."""
    WATCH.before.setdefault(action, act)
    _watch()


def after_import(name: str, action: str, act: Callable[[Any], Any]) -> None:
    """Call `act` with a library once it is imported. An action that waits already does not wait twice.

    action: what it records, in the plural; it names the action.
    """
    if name not in sys.modules:
        WATCH.after.setdefault(name, {}).setdefault(action, act)
        _watch()


def _watch() -> None:
    if WATCH not in sys.meta_path:
        sys.meta_path.insert(0, WATCH)


def attempt(action: Callable[[], Any], what_fails: str) -> bool:
    """Run an action, and return whether it went well; print its exception, so that the program goes on."""
    try:
        action()
    except Exception as error:  # noqa: BLE001 - the program must run on, whatever its libraries look like
        print(f"nsysprof: {what_fails}: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        return False
    return True
