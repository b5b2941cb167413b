"""Act when a program imports torch: apply a policy, or watch its steps. sitecustomize calls this when Python starts.

Only the standard library is imported before torch is.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

POLICY = "NSYSPROF_POLICY"


class _WatchTorch:
    """A finder that leaves the search to others, and acts once torch has been imported.

    A program may only ask whether there is a torch, as transformers does. Such a search does not import it.
    """

    def __init__(self, nsysprof_action: str, act: Callable[[ModuleType], None]) -> None:
        self.nsysprof_action = nsysprof_action
        self._act = act
        # The threads whose search is left to others now.
        self._searching: set[int] = set()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        thread = threading.get_ident()
        if name != "torch" or thread in self._searching:
            return None
        self._searching.add(thread)
        try:
            spec: ModuleSpec | None = importlib.util.find_spec(name)
        finally:
            self._searching.discard(thread)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._act(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def after_torch(action: str, act: Callable[[ModuleType], None]) -> None:
    """Call `act` with torch once it is imported, unless an action of this name waits already.

    action: its name; the folder may stand twice on PYTHONPATH.
    """
    waiting = (getattr(finder, "nsysprof_action", "") for finder in sys.meta_path)
    if "torch" not in sys.modules and action not in waiting:
        sys.meta_path.insert(0, _WatchTorch(action, act))


def begin() -> None:
    """Put the policy in force once torch is imported."""
    after_torch("policy", _install)


def _install(_torch: ModuleType) -> None:
    try:
        from nsysprof.workload.applied_policy.from_environment import install

        install(os.environ[POLICY])
    except Exception as error:  # noqa: BLE001
        text = f"nsysprof policy: not applied ({type(error).__name__}: {error}); every call is left to torch."
        print(f"{text} This Python needs nsysprof: pip install nsysprof.", file=sys.stderr)  # noqa: T201
