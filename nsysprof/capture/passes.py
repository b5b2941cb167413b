"""The passes of a capture: each one process tree, whose events feed the progress and whose results go to disk."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nsysprof.capture.collect import Progress, result_rows
from nsysprof.capture.folder import WORK
from nsysprof.capture.manifest import TORCH_TRACE, Manifest, Step, write_manifest, write_results, write_samples
from nsysprof.capture.plan import CapturePlan
from nsysprof.job import EventReader, Job

_POLL_S = 0.1
_FINISH_S = 120.0  # a profiler writing its report after we asked the program to stop

OnProgress = Callable[[str, Progress], None]


@dataclass
class CaptureRun:
    """A capture while it runs."""

    plan: CapturePlan
    folder: Path
    nsys: Path | None
    ncu: Path | None
    manifest: Manifest
    progress: Progress
    on_progress: OnProgress
    result_columns: tuple[str, ...]
    interrupted: bool = False

    def save(self) -> None:
        """Write everything that is known so far."""
        samples = {
            self.plan.range_of(case): outcome.samples
            for case, outcome in zip(self.plan.cases, self.progress.outcomes, strict=True)
            if outcome.samples is not None
        }
        write_samples(self.folder, samples)
        write_results(self.folder, self.result_columns, result_rows(self.progress))
        write_manifest(self.folder, self.manifest)


def supervisor_argv(job: Path) -> list[str]:
    """The program that measures what the job says."""
    return [sys.executable, "-m", "nsysprof.workload.supervise", str(job)]


def write_job(
    run: CaptureRun,
    pass_name: str,
    profiler: str,
    skip: tuple[int, ...],
    *,
    calls: int | None = None,
    patience: float = 1.0,
) -> Path:
    """The job file of a pass. calls: inside each case's range, else the plan's. patience: times the plan's timeout."""
    plan, work = run.plan, run.folder.resolve() / WORK
    job = Job(
        cases=plan.cases,
        range_keys=plan.range_keys,
        pass_name=pass_name,
        profiler=profiler,
        device=plan.device,
        samples=plan.samples,
        sample_seconds=plan.sample_seconds,
        warmup=plan.warmup,
        traced_calls=plan.traced_calls if calls is None else calls,
        traced_seconds=plan.traced_seconds if profiler == "nsys" else 0.0,
        case_timeout_s=plan.case_timeout_s * patience,
        events_path=str(work / f"{pass_name}-{profiler}.events"),
        stop_path=str(work / "stop"),
        torch_trace_path=str(run.folder.resolve() / TORCH_TRACE),
        parent_pid=os.getpid(),
        skip=skip,
        check=plan.check,
        ceilings=plan.ceilings if pass_name == "timed" else (),
    )
    path = work / f"{pass_name}-{profiler}.json"
    job.write(path)
    return path


def run_pass(run: CaptureRun, pass_name: str, argv: list[str], log: str, title: str = "") -> int | None:
    """Run one pass to its end, feeding its events into the progress; Ctrl-C ends it early and keeps its results.

    title: under which the progress is shown, where that is not the pass' name.
    """
    title = title or pass_name
    job = Job.read(Path(argv[-1]))
    reader = EventReader(job.events_path)
    reader.read()  # what an earlier run of the same pass left
    started = time.monotonic_ns()
    run.on_progress(title, run.progress)
    with (run.folder / log).open("wb") as stream:
        # A session of its own: Ctrl-C reaches us alone, and we end the pass so that nsys still writes its report.
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            while process.poll() is None:
                _take(run, pass_name, title, reader)
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            run.interrupted = True
            Path(job.stop_path).touch()
            finish_or_kill(process)
        _take(run, pass_name, title, reader)
    code = process.returncode
    run.manifest.steps.append(Step(title, tuple(argv), code, time.monotonic_ns() - started))
    return code


def _take(run: CaptureRun, pass_name: str, title: str, reader: EventReader) -> None:
    events = reader.read()
    for event in events:
        run.progress.take(event, pass_name)
    run.on_progress(title, run.progress)
    if any(event["event"] == "done" for event in events):
        run.save()


def finish_or_kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
        process.wait(_FINISH_S)
        return
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def tail(path: Path, size: int = 65536) -> str:
    data = path.read_bytes()[-size:] if path.exists() else b""
    return data.decode("utf-8", errors="replace")
