"""Run one measured process with its children until they end. Capture, bench and tune all use this."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysprof.nsight.run_tool import Step
from nsysprof.workload.job import EventReader, Job

WORK, LOGS = ".work", "logs"
_POLL_S = 0.1
_FINISH_S = 120.0  # how long a profiler may take to write its report after we asked the program to stop (s)

# A function that is called with the events since the last call, often none.
Take = Callable[[list[dict[str, Any]]], None]


@dataclass(frozen=True)
class ProcessEnd:
    """How a measured process ended."""

    step: Step
    # Whether Ctrl-C ended it early. Results from before that are kept.
    interrupted: bool


@dataclass(frozen=True)
class Setting:
    """Where measured processes run: which Python, and which environment variables in addition to ours."""

    python: str = sys.executable
    variables: tuple[tuple[str, str], ...] = ()

    def environment(self) -> dict[str, str]:
        """Return every environment variable of the process."""
        return {**os.environ, **dict(self.variables)}


HERE: Setting = Setting()


def supervisor_argv(job: Path, python: str = sys.executable) -> list[str]:
    """Return the command line of the process that measures as the job file says."""
    return [python, "-m", "nsysprof.workload.supervise", str(job)]


def run_supervised(
    name: str,
    argv: Sequence[str],
    job: Job,
    log: Path,
    take: Take,
    *,
    deadline: float = float("inf"),
    environment: dict[str, str] | None = None,
) -> ProcessEnd:
    """Run a process that follows `job`, pass its events on, and return how it ended.

    name: the name of the step in the manifest.
    argv: the supervisor, alone or under a profiler.
    deadline: the time.monotonic() at which the process is asked to end with the results that it has.
    environment: every environment variable of the process; None for ours.
    """
    reader = EventReader(job.events_path)
    reader.read()  # skips what an earlier run of the same pass has written
    started, interrupted = time.monotonic_ns(), False
    with log.open("wb") as stream:
        # It gets its own session, so that Ctrl-C reaches only us. We then end the pass in a way that keeps the report.
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
        try:
            while process.poll() is None:
                take(reader.read())
                if time.monotonic() > deadline:
                    Path(job.stop_path).touch()
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            interrupted = True
            Path(job.stop_path).touch()
            _finish_or_kill(process)
        take(reader.read())
    step = Step(name, tuple(argv), process.returncode, time.monotonic_ns() - started)
    return ProcessEnd(step, interrupted)


def tail(path: Path, size: int = 65536) -> str:
    """Return the end of a log; "" where there is none."""
    data = path.read_bytes()[-size:] if path.exists() else b""
    return data.decode("utf-8", errors="replace")


def _finish_or_kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
        process.wait(_FINISH_S)
        return
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
