"""Start a program with a policy applied, without changing its code, and read which backends its calls got."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import DecodeError, json

from nsysprof.capture.user_program.program_hook import hook_path
from nsysprof.results.policy_use import PolicyUse, add_uses

# The same names as in nsysprof.workload.applied_policy.from_environment, which works inside the program.
POLICY, REPORT = "NSYSPROF_POLICY", "NSYSPROF_POLICY_REPORT"
# The same name as in nsysprof.workload.program_start.applied_remedies.watch_program.
REMEDIES = "NSYSPROF_REMEDIES"


@dataclass(frozen=True)
class PolicyRun:
    """How a program with a policy ended.

    exit_code: 128 plus the signal's number where a signal ended it.
    """

    exit_code: int
    use: PolicyUse
    # How many of its processes imported torch.
    processes: int


def policy_environment(policy: Path, environment: Mapping[str, str], report: Path | None = None) -> dict[str, str]:
    """Return the environment variables with which Python programs apply a policy.

    report: the folder for what happened to their calls; None to write nothing.
    """
    variables = {POLICY: str(policy.resolve()), **hook_path(environment)}
    return variables if report is None else {**variables, REPORT: str(report.resolve())}


def run_with_policy(
    argv: Sequence[str], policy: Path | None, remedies: str = "", *, stdout_to_stderr: bool = False
) -> PolicyRun:
    """Run a program in this terminal with a policy or remedies applied. Raises OSError where it cannot be started."""
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as work:
        environment = dict(os.environ)
        if policy is not None:
            environment |= policy_environment(policy, os.environ, Path(work))
        elif remedies:
            environment |= hook_path(environment)
        if remedies:
            environment[REMEDIES] = remedies
        stdout = sys.stderr.fileno() if stdout_to_stderr else None
        with _left_to_the_program() as running:
            process = subprocess.Popen(list(argv), env=environment, stdout=stdout)
            running.append(process)
            code = process.wait()
        uses = read_uses(Path(work))
    return PolicyRun(code if code >= 0 else 128 - code, add_uses(uses), len(uses))


def read_uses(folder: Path) -> list[PolicyUse]:
    """Return what each process of a program wrote into the folder. Damaged files are left out."""
    uses = []
    for path in sorted(folder.glob("policy-*.json")):
        with contextlib.suppress(OSError, DecodeError):
            uses.append(json.decode(path.read_bytes(), type=PolicyUse))
    return uses


@contextlib.contextmanager
def _left_to_the_program() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Ignore Ctrl-C, which the program receives from the terminal too, and pass SIGTERM on to it."""
    running: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: object) -> None:
        for process in running:
            process.send_signal(number)

    before = {signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    before[signal.SIGTERM] = signal.signal(signal.SIGTERM, pass_on)
    try:
        yield running
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
