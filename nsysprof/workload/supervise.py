"""Keep one worker running over the grid, replace it if a case kills it, and sample the clocks.

Run as `python -m nsysprof.workload.supervise JOB.json`. In the traced pass it runs under the profiler, so that all
workers are in one trace. It does not import torch, so it neither holds GPU memory nor disturbs the timing.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from nsysprof.attention.shape import Case
from nsysprof.environment import read_clocks
from nsysprof.files.plain_file import VERSION
from nsysprof.workload.job import REPLACE_ME, TIMED, TRACED, EventReader, Job, append_event
from nsysprof.workload.recording.nvtx_ranges import annotate

_POLL_S = 0.05
_CLOCKS_EVERY_S = 0.1  # the interval for checks (s); a block of samples takes milliseconds
_KILL_GRACE_S = 5.0
_STARTUP_S = 300.0  # the time for importing torch, even from a cold network disk (s)


def main(arguments: list[str]) -> int:
    job_path = Path(arguments[0])
    job = Job.read(job_path)
    if job.pass_name == TRACED and job.profiler == "nsys":
        _announce()
    pending = [index for index in range(len(job.cases)) if index not in job.skip]
    reader = EventReader(job.events_path)
    reader.read()  # skips earlier lines: ncu runs the whole program again for each pass of its application replay
    clocks = _ClockSampler(job)
    failed: set[Case] = set()
    while pending and not job.is_stopped():
        pending = _run_worker(job_path, job, pending, reader, clocks, failed)
        for index in [index for index in pending if job.cases[index] in failed]:
            # Another block of a case that failed would fail too, or end another worker.
            append_event(job.events_path, "done", case=index, status="skipped", reason="")
            pending.remove(index)
        reader.read()  # skips our own lines
    return 0


def _announce() -> None:
    """Put a short range that names this tool at the start of the trace."""
    with annotate(f"nsysprof {VERSION}"):
        time.sleep(0.001)


class _ClockSampler:
    """Samples the clocks of the worker's GPU in a timed pass, from this process so that no call waits for NVML."""

    def __init__(self, job: Job) -> None:
        self._events_path = job.events_path
        self._is_wanted = job.pass_name == TIMED
        self._uuid: str | None = None
        self._next = 0.0

    def notice(self, event: dict[str, Any]) -> None:
        if event["event"] == "environment":
            self._uuid = event["facts"].get("gpu_uuid")

    def sample(self, case: int | None) -> None:
        if self._is_wanted and self._uuid and time.monotonic() >= self._next:
            self._next = time.monotonic() + _CLOCKS_EVERY_S
            clocks = read_clocks(self._uuid)
            if clocks is not None:
                append_event(self._events_path, "clocks", case=case, time_ns=time.time_ns(), **clocks)


def _run_worker(
    job_path: Path, job: Job, pending: list[int], reader: EventReader, clocks: _ClockSampler, failed: set[Case]
) -> list[int]:
    """Run one worker until it ends, hangs or is told to stop; return the cases left to do, and add to `failed`."""
    indices = ",".join(map(str, pending))
    command = [sys.executable, "-W", "ignore", "-m", "nsysprof.workload.worker", str(job_path), indices]
    worker = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    left = list(pending)
    current: int | None = None
    deadline = time.monotonic() + _STARTUP_S
    verdict: tuple[str, str] | None = None
    while True:
        code = worker.poll()
        for event in reader.read():
            clocks.notice(event)
            if event["event"] == "start":
                current, deadline = event["case"], time.monotonic() + job.case_timeout_s
            elif event["event"] == "done":
                left.remove(event["case"])
                if event["status"] != "ok":
                    failed.add(job.cases[event["case"]])
                current, deadline = None, time.monotonic() + _STARTUP_S
        if code is not None:
            break
        if job.is_stopped():
            _end(worker)
            return left
        if time.monotonic() > deadline:
            limit = job.case_timeout_s if current is not None else _STARTUP_S
            verdict = ("timeout", f"no result within {limit:g} s; the process was ended")
            _end(worker)
            continue
        clocks.sample(current)
        time.sleep(_POLL_S)
    if code in (0, REPLACE_ME) and current is None:
        return left if code == REPLACE_ME else []
    status, reason = verdict or ("crashed", _exit_text(code))
    # A worker that dies before its first case would die again, so give up. Otherwise only the current case is lost.
    lost = list(left) if current is None and left == pending else ([current] if current is not None else [])
    for index in lost:
        append_event(job.events_path, "done", case=index, status=status, reason=reason)
        failed.add(job.cases[index])
        left.remove(index)
    reader.read()  # skips our own lines
    return left


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(_KILL_GRACE_S)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def _exit_text(code: int) -> str:
    if code < 0:
        try:
            name = signal.Signals(-code).name
            killed = ", which is the system's answer to a lack of memory" if name == "SIGKILL" else ""
            return f"the process died of {name}{killed}"
        except ValueError:
            return f"the process died of signal {-code}"
    return f"the process ended with exit code {code}; its last words are in the capture's logs"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
