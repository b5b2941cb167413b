"""Apply the policy that NSYSPROF_POLICY names in a program that has just imported torch."""

from __future__ import annotations

import os
import sys
from types import ModuleType

POLICY = "NSYSPROF_POLICY"


def begin(_torch: ModuleType) -> None:
    """Put the policy in force."""
    try:
        from nsysprof.workload.applied_policy.from_environment import install

        install(os.environ[POLICY])
    except Exception as error:  # noqa: BLE001
        text = f"nsysprof policy: not applied ({type(error).__name__}: {error}); every call is left to torch."
        print(f"{text} This Python needs nsysprof: pip install nsysprof.", file=sys.stderr)  # noqa: T201
