"""Run the use case `doctor`: check what this machine can do, and how to fix what it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from nsysprof.app.progress import SILENT, Progress
from nsysprof.capture.doctor import run_checks
from nsysprof.results.checks import Check, State


def doctor(progress: Progress = SILENT, *, links: bool = False) -> DoctorResult:
    """Check everything that nsysprof needs on this machine, and return the results.

    links: whether to measure for two seconds what the links between GPUs carry.
    """
    checks = tuple(run_checks(progress.say, links=links))
    return DoctorResult(checks, tuple(check for check in checks if check.state is State.PROBLEM))


@dataclass(frozen=True)
class DoctorResult:
    """Every check, and those that found a problem."""

    checks: tuple[Check, ...]
    problems: tuple[Check, ...]
