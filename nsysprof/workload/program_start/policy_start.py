"""Put a policy in force when a program imports torch. Python calls `begin` at the start of the program.

An installed nsysprof does it by the line in nsysprof_policy.pth, where NSYSPROF_POLICY is set; `nsysprof run` does it
by sitecustomize. Nothing but the standard library is imported before torch is.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

POLICY = "NSYSPROF_POLICY"


class _WatchTorch:
    """A finder that leaves the search to others, and acts once torch has been imported."""

    nsysprof_policy = True

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec: ModuleSpec | None = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _install()

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def begin() -> None:
    """Wait for torch, unless this process waits already: both ways to start may be there."""
    if "torch" in sys.modules or any(getattr(finder, "nsysprof_policy", False) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _WatchTorch())


def _install() -> None:
    try:
        from nsysprof.workload.applied_policy.from_environment import install

        install(os.environ[POLICY])
    except Exception as error:  # noqa: BLE001
        text = f"nsysprof policy: not applied ({type(error).__name__}: {error}); every call is left to torch."
        print(f"{text} This Python needs nsysprof: pip install nsysprof.", file=sys.stderr)  # noqa: T201
