"""Run one of NVIDIA's programs until it ends, and return what it printed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nsysprof.errors import ToolFailedError


@dataclass(frozen=True)
class Step:
    """One program that was run."""

    name: str
    argv: tuple[str, ...]
    # None when the program was killed or has not ended.
    exit_code: int | None
    duration_ns: int


def run_tool(
    argv: Sequence[str],
    *,
    timeout_s: float | None = None,
    environment: Mapping[str, str] | None = None,
    is_shielded: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run a program without input and return what it printed. The locale is C, so that numbers have a decimal point.

    Raises ToolFailedError when the program cannot be started or does not end in time.

    timeout_s: how long to wait for its end (s); None waits without limit.
    environment: the program's environment; None for the environment of this process.
    """
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            process_group=0 if is_shielded else None,
            env={**(os.environ if environment is None else environment), "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired as error:
        raise ToolFailedError(
            f"{argv[0]} does not end.", "Check whether another profiler holds the GPU, and run again."
        ) from error
    except OSError as error:
        raise ToolFailedError(
            f"{argv[0]} cannot be run: {error.strerror}.", "Install it again, or name another program."
        ) from error
