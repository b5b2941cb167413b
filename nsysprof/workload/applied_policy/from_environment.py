"""Apply the policy in NSYSPROF_POLICY as soon as a program has imported torch.

Nothing here ends the program or prints a traceback. Problems are reported once on standard error, and calls are left to
torch. At the end of a process, what happened to its calls is written into the folder NSYSPROF_POLICY_REPORT.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import torch
from msgspec import json as encoder

from nsysprof.attention.policy_file import read_policy
from nsysprof.errors import NsysprofError
from nsysprof.results.policy_use import PolicyUse
from nsysprof.workload.applied_policy.apply_policy import AppliedPolicy, begin_policy, machine_differences

POLICY = "NSYSPROF_POLICY"
REPORT = "NSYSPROF_POLICY_REPORT"


def install(path: str) -> None:
    """Apply a policy for the rest of this process, in which torch was just imported."""
    reasons: list[str] = []

    def say(text: str) -> None:
        reasons.append(text)
        _print(text)

    try:
        file = read_policy(Path(path))
    except NsysprofError as error:
        say(f"{error.text} Every call is left to torch.")
        _report_at_end(lambda: PolicyUse(reasons=tuple(reasons)))
        return
    applied = AppliedPolicy(file, say)
    _report_at_end(lambda: _use_of(applied, reasons))
    differences = machine_differences(file, with_gpu=False)
    if differences:
        say(_refusal(differences))
        return
    begin_policy(applied)
    if file.device == "cuda":
        # The GPU is checked once the program itself initialises CUDA: before that, it may still fork.
        torch.cuda._lazy_call(lambda: _check_gpu(applied, say))


def _check_gpu(applied: Any, say: Any) -> None:
    try:
        differences = machine_differences(applied.file)
    except Exception as error:  # noqa: BLE001
        differences = [f"the GPU cannot be asked ({error})"]
    if differences:
        # Without rules, every call is torch's; a function that was compiled before this has run no rule yet.
        applied.retire()
        say(_refusal(differences))


def _refusal(differences: list[str]) -> str:
    return f"The policy does not hold here: {'; '.join(differences)}. Every call is left to torch. Tune again here."


def _use_of(applied: Any, reasons: list[str]) -> PolicyUse:
    errors: dict[str, float | None] = {}
    for check in applied.checks:
        for name, error in check.errors.items():
            errors[name] = max(errors.get(name) or 0.0, error)
    return PolicyUse(applied.calls, applied.left, applied.compiled, errors, tuple(reasons))


def _report_at_end(use: Any) -> None:
    process = os.getpid()

    def write() -> None:
        folder = os.environ.get(REPORT)
        if folder and os.getpid() == process:  # not in a fork
            with contextlib.suppress(OSError):
                path = Path(folder) / f"policy-{process}.json"
                scratch = path.with_suffix(".part")
                scratch.write_bytes(encoder.encode(use()))
                scratch.replace(path)

    atexit.register(write)


def _print(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"nsysprof policy: {text} This is said once.\n")
        sys.stderr.flush()
