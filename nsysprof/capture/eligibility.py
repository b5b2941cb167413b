"""Run the process that asks torch which backends accept a shape, and keep its answers even when it dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from nsysprof.attention.eligibility import EligibilityAnswer, EligibilityJob, EligibilityQuestion, Ran
from nsysprof.errors import MissingToolError, NsysprofError, ToolFailedError
from nsysprof.workload.job import EventReader

_POLL_S = 0.05
_KILL_GRACE_S = 5.0
_STARTUP_S = 300.0  # the time for importing torch, even from a cold network disk (s)
PROBE = (sys.executable, "-m", "nsysprof.workload.probe_eligibility")


@dataclass
class Answers:
    """The answers in the order of the questions, and the torch and GPU that they are about."""

    answers: list[EligibilityAnswer]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def lost(self) -> list[EligibilityAnswer]:
        """Return the questions without an answer, because the process died or hung."""
        return [answer for answer in self.answers if answer.ran.status in ("crashed", "timeout")]


def run_probe(
    questions: Sequence[EligibilityQuestion],
    device: str,
    *,
    timeout_s: float,
    startup_s: float = _STARTUP_S,
    program: Sequence[str] = PROBE,
) -> Answers:
    """Ask torch every question. One that kills or hangs the process stays unknown, and a new process continues.

    Raises MissingToolError when torch or the GPU cannot be used, and ToolFailedError when the process does not reach
    the first question.

    timeout_s: how long one question may take (s).
    startup_s: how long loading torch may take (s).
    """
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as folder:
        job = EligibilityJob(tuple(questions), device, str(Path(folder) / "events"))
        job.write(Path(folder) / "job.json")
        run = _Probe(job, Path(folder), list(program), timeout_s, startup_s)
        while run.pending:
            run.run_probe_process()
        return Answers([run.answered[index] for index in range(len(questions))], run.facts)


class _Probe:
    def __init__(
        self, job: EligibilityJob, folder: Path, program: list[str], timeout_s: float, startup_s: float
    ) -> None:
        self.pending = list(range(len(job.questions)))
        self.answered: dict[int, EligibilityAnswer] = {}
        self.facts: dict[str, Any] = {}
        self._job, self._program = job, program
        self._timeout_s, self._startup_s = timeout_s, startup_s
        self._reader = EventReader(job.events_path)
        self._job_path, self._log = folder / "job.json", folder / "log"
        self._current: int | None = None
        self._deadline = 0.0

    def run_probe_process(self) -> None:
        """Run one process over the pending questions; afterwards there are fewer of them."""
        before = len(self.pending)
        self._current, self._deadline = None, time.monotonic() + self._startup_s
        command = [*self._program, str(self._job_path), ",".join(map(str, self.pending))]
        with self._log.open("wb") as log:
            # It gets its own session, so that Ctrl-C reaches only us. Torch's warnings stay in the log.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                timed_out = self._follow(process)
            finally:
                _end(process)
            self._take()
        if self._current is not None:
            self._lose(self._current, process.returncode, timed_out)
        elif len(self.pending) == before:
            self._give_up(self._start_error(process.returncode, timed_out))

    def _follow(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the process to end; return True when it took too long."""
        while process.poll() is None:
            self._take()
            if time.monotonic() > self._deadline:
                return True
            time.sleep(_POLL_S)
        return False

    def _take(self) -> None:
        for event in self._reader.read():
            kind = event["event"]
            if kind == "unusable":
                self._give_up(_unusable(event["reason"], self._job.device))
            if kind == "environment":
                self.facts = event["facts"]
            elif kind == "start":
                self._current, self._deadline = event["question"], time.monotonic() + self._timeout_s
            elif kind == "done":
                self.answered[event["question"]] = msgspec.convert(event["answer"], EligibilityAnswer)
                self.pending.remove(event["question"])
                self._current, self._deadline = None, time.monotonic() + self._timeout_s

    def _lose(self, index: int, code: int | None, timed_out: bool) -> None:
        backend = self._job.questions[index].backend
        if timed_out:
            ran = Ran("timeout", f"no answer within {self._timeout_s:g} s; the process was ended")
        else:
            ran = Ran("crashed", f"the process {_exit_text(code)}")
        self.answered[index] = EligibilityAnswer(backend, None, ran.reason, ran=ran)
        self.pending.remove(index)

    def _give_up(self, error: NsysprofError) -> None:
        """Raise the error; where there are answers already, mark the pending questions as unknown instead."""
        if not self.answered:
            raise error
        for index in self.pending:
            backend = self._job.questions[index].backend
            self.answered[index] = EligibilityAnswer(backend, None, error.text, ran=Ran("crashed", error.text))
        self.pending.clear()

    def _start_error(self, code: int | None, timed_out: bool) -> ToolFailedError:
        if timed_out:
            return ToolFailedError(
                f"The process that asks torch was not ready within {self._startup_s:g} s.",
                "Check that `python -c 'import torch'` ends.",
            )
        said = _last_line(self._log)
        return ToolFailedError(
            f"The process that asks torch {_exit_text(code)} before its first answer. It said: {said or 'nothing'}",
            "Check that `python -c 'import torch'` works.",
        )


def _unusable(reason: str, device: str) -> MissingToolError:
    reason = reason.rstrip(".")
    if device == "cuda":
        return MissingToolError(f"torch cannot use the GPU: {reason}.", "Use --device cpu, or check torch and driver.")
    return MissingToolError(f"torch cannot be imported: {reason}.", "pip install 'nsysprof[torch]'")


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_KILL_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _exit_text(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    killed = " (the system's answer to a lack of memory)" if name == "SIGKILL" and os.name == "posix" else ""
    return f"died of {name}{killed}"


def _last_line(path: Path) -> str:
    lines = [line.strip() for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")[:300]
