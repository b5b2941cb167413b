"""Run one of NVIDIA's programs until it ends, and return what it printed."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
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


_PERCENT = re.compile(rb"(\d{1,3}) ?%")
_FIRST_S, _STEP = 3.0, 10
_CHUNK, _KEPT = 1 << 14, 1 << 18


def run_showing(argv: Sequence[str], say: Callable[[str], None], title: str) -> subprocess.CompletedProcess[str]:
    """Run a program without input, as run_tool does, and return what it printed last, without limit of time.

    Raises ToolFailedError when it cannot be started.

    say: called with `title` and the percentage at every tenth of the way, once the program has taken some seconds.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise ToolFailedError(
            f"{argv[0]} cannot be run: {error.strerror}.", "Install it again, or name another program."
        ) from error
    said, shown, began = b"", 0, time.monotonic()
    assert process.stdout is not None
    try:
        with process.stdout as stream:
            while chunk := os.read(stream.fileno(), _CHUNK):
                said = (said + chunk)[-_KEPT:]
                percentages = _PERCENT.findall(chunk)
                done = min(100, int(percentages[-1])) if percentages else 0
                if done >= shown + _STEP and time.monotonic() - began > _FIRST_S:
                    shown = done - done % _STEP
                    say(f"{title}: {shown} %")
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    return subprocess.CompletedProcess(list(argv), code, said.decode("utf-8", "replace"), "")
