"""Run the use case `run`: start any program with a policy or remedies applied, without changing its code."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from nsysprof.app.measuring.program_request import RunRequest
from nsysprof.app.optimizing.remedies import read_remedies
from nsysprof.app.progress import SILENT, Progress
from nsysprof.attention.policy_file import PolicyFile, read_policy
from nsysprof.capture.user_program.policy_environment import run_with_policy
from nsysprof.errors import NsysprofError, UsageError
from nsysprof.results.policy_use import PolicyUse


def check_run(request: RunRequest) -> PolicyFile | None:
    """Return the policy; None for none. Raises UsageError or PolicyError, before anything is started."""
    if shutil.which(request.argv[0]) is None:
        raise UsageError(
            f"The program {request.argv[0]} was not found, or cannot be run.",
            "Options of nsysprof come before the program: nsysprof run --policy FILE -- PROGRAM [ARGUMENTS].",
        )
    if request.policy is None and not request.remedies:
        raise UsageError("There is nothing to run the program with.", "Give --policy FILE, or --remedies NAMES.")
    switches = {remedy.switch.partition("=")[0] for remedy in read_remedies().values() if remedy.switch}
    unknown = [name for name in request.remedies.split(",") if name and name.partition("=")[0] not in switches]
    if unknown:
        raise UsageError(f"There is no remedy {', '.join(unknown)}.", f"There are {', '.join(sorted(switches))}.")
    return None if request.policy is None else read_policy(request.policy)


def run(request: RunRequest, progress: Progress = SILENT) -> RunResult:
    """Run the program in this terminal, and return its exit code and which backends its attention calls got."""
    check_run(request)
    try:
        done = run_with_policy(
            request.argv, request.policy, request.remedies, stdout_to_stderr=request.stdout_to_stderr
        )
    except OSError as error:
        raise UsageError(
            f"The program could not be started: {error.strerror}.", "Check that it is executable."
        ) from error
    return RunResult(done.exit_code, done.use, done.processes, None, has_policy=request.policy is not None)


@dataclass(frozen=True)
class RunResult:
    """How the program ended, and which backends its attention calls got.

    has_policy: whether it had one; without one nothing is known of its calls.
    processes: how many of its processes imported torch and reported on their calls.
    """

    exit_code: int
    use: PolicyUse
    processes: int
    failure: NsysprofError | None
    has_policy: bool = True
