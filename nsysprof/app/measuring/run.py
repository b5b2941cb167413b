"""Run the use case `run`: start any program with a policy applied, without changing its code."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from nsysprof.app.measuring.program_request import RunRequest
from nsysprof.app.progress import SILENT, Progress
from nsysprof.attention.policy_file import PolicyFile, read_policy
from nsysprof.capture.user_program.policy_environment import run_with_policy
from nsysprof.errors import NsysprofError, UsageError
from nsysprof.results.policy_use import PolicyUse


def check_run(request: RunRequest) -> PolicyFile:
    """Return the policy. Raises UsageError or PolicyError, before anything is started, for what cannot work."""
    if shutil.which(request.argv[0]) is None:
        raise UsageError(
            f"The program {request.argv[0]} was not found, or cannot be run.",
            "Options of nsysprof come before the program: nsysprof run --policy FILE -- PROGRAM [ARGUMENTS].",
        )
    return read_policy(request.policy)


def run(request: RunRequest, progress: Progress = SILENT) -> RunResult:
    """Run the program in this terminal, and return its exit code and which backends its attention calls got."""
    check_run(request)
    try:
        done = run_with_policy(request.argv, request.policy, stdout_to_stderr=request.stdout_to_stderr)
    except OSError as error:
        raise UsageError(
            f"The program could not be started: {error.strerror}.", "Check that it is executable."
        ) from error
    return RunResult(done.exit_code, done.use, done.processes, None)


@dataclass(frozen=True)
class RunResult:
    """How the program ended, and which backends its attention calls got.

    processes: how many of its processes imported torch and reported on their calls.
    """

    exit_code: int
    use: PolicyUse
    processes: int
    failure: NsysprofError | None
