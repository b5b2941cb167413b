"""Run a plan: the untraced pass, the traced pass, the export; everything finished is on disk at every moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nsysprof.capture.collect import Progress, clock_notes, merged_environment, result_rows
from nsysprof.capture.find_nsys import nsys_version
from nsysprof.capture.folder import LOGS, NSYS_REPORT, WORK, remove_work
from nsysprof.capture.manifest import (
    NSYS_TRACE,
    TORCH_TRACE,
    Manifest,
    Step,
    write_manifest,
    write_results,
    write_samples,
)
from nsysprof.capture.nsys import explain_failure, export_sqlite, profile_argv
from nsysprof.capture.plan import CapturePlan
from nsysprof.environment import collect_gpus, collect_host
from nsysprof.errors import CaptureFailedError, InterruptedCaptureError, ToolFailedError
from nsysprof.job import EventReader, Job
from nsysprof.notes import Note, Severity

_POLL_S = 0.1
_FINISH_S = 120.0  # nsys writing its report after we asked the program to stop

OnProgress = Callable[[str, Progress], None]


@dataclass(frozen=True)
class Captured:
    """A finished capture. `trace` is None when none was asked for, or none could be made."""

    manifest: Manifest
    progress: Progress
    trace: Path | None
    interrupted: bool


@dataclass
class _Run:
    plan: CapturePlan
    folder: Path
    nsys: Path | None
    manifest: Manifest
    progress: Progress
    on_progress: OnProgress
    result_columns: tuple[str, ...]
    interrupted: bool = False

    def save(self) -> None:
        samples = {
            self.plan.range_of(case): outcome.samples
            for case, outcome in zip(self.plan.cases, self.progress.outcomes, strict=True)
            if outcome.samples is not None
        }
        write_samples(self.folder, samples)
        write_results(self.folder, self.result_columns, result_rows(self.progress))
        write_manifest(self.folder, self.manifest)


def run_capture(
    plan: CapturePlan,
    folder: Path,
    *,
    nsys: Path | None,
    fall_back: bool,
    result_columns: tuple[str, ...],
    on_progress: OnProgress,
) -> Captured:
    """Run `plan` into the prepared `folder`.

    fall_back: a failing nsys is replaced by the embedded profiler instead of ending the capture. Raises
    CaptureFailedError when no case could be measured, ToolFailedError when nsys failed; what was finished is on disk.
    """
    progress = Progress(plan)
    manifest = Manifest(
        cases=plan.cases,
        range_keys=plan.range_keys,
        profiler=plan.profiler,
        traced_calls=plan.traced_calls,
        method="",
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    run = _Run(plan, folder, nsys, manifest, progress, on_progress, result_columns)
    host, gpus = collect_host(), collect_gpus()
    try:
        run.save()
        _run_timed(run)
        version = nsys_version(nsys) if nsys is not None and plan.profiler == "nsys" else None
        manifest.environment = merged_environment(host, gpus, progress, version)
        manifest.notes += clock_notes(manifest.environment)
        manifest.method = next((o.samples.method for o in progress.outcomes if o.samples), "")
        run.save()
        trace = None if run.interrupted else _run_traced_or_none(run, fall_back)
        manifest.complete = not run.interrupted
        run.save()
    finally:
        remove_work(folder)
    if not any(outcome.status == "ok" for outcome in progress.outcomes) and not run.interrupted:
        raise CaptureFailedError(_why_nothing(progress), f"Each case's reason is in {folder / 'results.csv'}.")
    return Captured(manifest, progress, trace, run.interrupted)


def _why_nothing(progress: Progress) -> str:
    reasons = {f"{outcome.status}: {outcome.reason}" for outcome in progress.outcomes}
    said = f" All said: {reasons.pop()}" if len(reasons) == 1 else ""
    return f"None of {len(progress.outcomes)} cases could be measured.{said}"


def _run_timed(run: _Run) -> None:
    job = _write_job(run, "timed", run.plan.profiler, skip=())
    _run_pass(run, "timed", _supervisor(job), LOGS + "/timed.log")


def _run_traced_or_none(run: _Run, fall_back: bool) -> Path | None:
    """The trace, or None when there is none or Ctrl-C came between the passes or during the export."""
    try:
        return _run_traced_or_fall_back(run, fall_back)
    except KeyboardInterrupt:
        run.interrupted = True
        return None


def _run_traced_or_fall_back(run: _Run, fall_back: bool) -> Path | None:
    skip = tuple(index for index, outcome in enumerate(run.progress.outcomes) if outcome.status != "ok")
    if run.plan.profiler == "none" or len(skip) == len(run.plan.cases):
        return None
    if run.plan.profiler == "torch":
        return _run_torch(run, skip)
    try:
        return _run_nsys(run, skip)
    except ToolFailedError as error:
        if not fall_back:
            raise
        run.manifest.notes.append(
            Note(
                "nsys-failed",
                Severity.WARNING,
                f"{error.text} The trace was made by torch's own profiler instead.",
                error.next_step,
            )
        )
        run.manifest.profiler = "torch"
        for outcome in run.progress.outcomes:
            outcome.traced, outcome.traced_reason = "not_run", ""
        return _run_torch(run, skip)


def _run_torch(run: _Run, skip: tuple[int, ...]) -> Path | None:
    job = _write_job(run, "traced", "torch", skip)
    _run_pass(run, "traced", _supervisor(job), LOGS + "/traced.log")
    trace = run.folder / TORCH_TRACE
    return trace if trace.exists() else None


def _run_nsys(run: _Run, skip: tuple[int, ...]) -> Path | None:
    assert run.nsys is not None
    job = _write_job(run, "traced", "nsys", skip)
    report = run.folder / NSYS_REPORT
    argv = profile_argv(run.nsys, report.with_suffix(""), _supervisor(job))
    code = _run_pass(run, "traced", argv, LOGS + "/nsys.log")
    if code != 0 or not report.exists():
        raise explain_failure("profile", code, _tail(run.folder / LOGS / "nsys.log"))
    started = time.monotonic_ns()
    sqlite = run.folder / NSYS_TRACE
    argv, code = export_sqlite(run.nsys, report, sqlite, run.folder / LOGS / "export.log")
    run.manifest.steps.append(Step("export", tuple(argv), code, time.monotonic_ns() - started))
    return sqlite


def _supervisor(job: Path) -> list[str]:
    return [sys.executable, "-m", "nsysprof.workload.supervise", str(job)]


def _write_job(run: _Run, pass_name: str, profiler: str, skip: tuple[int, ...]) -> Path:
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
        traced_calls=plan.traced_calls,
        case_timeout_s=plan.case_timeout_s,
        events_path=str(work / f"{pass_name}-{profiler}.events"),
        stop_path=str(work / "stop"),
        torch_trace_path=str(run.folder.resolve() / TORCH_TRACE),
        parent_pid=os.getpid(),
        skip=skip,
        check=plan.check,
    )
    path = work / f"{pass_name}-{profiler}.json"
    job.write(path)
    return path


def _run_pass(run: _Run, pass_name: str, argv: list[str], log: str) -> int | None:
    """Run one pass to its end, feeding its events into the progress; Ctrl-C ends it early and keeps its results."""
    job = Job.read(Path(argv[-1]))
    reader = EventReader(job.events_path)
    started = time.monotonic_ns()
    run.on_progress(pass_name, run.progress)
    with (run.folder / log).open("wb") as stream:
        # A session of its own: Ctrl-C reaches us alone, and we end the pass so that nsys still writes its report.
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _follow(run, pass_name, process, reader)
        except KeyboardInterrupt:
            run.interrupted = True
            Path(job.stop_path).touch()
            finish_or_kill(process)
        _take(run, pass_name, reader)
    code = process.returncode
    run.manifest.steps.append(Step(pass_name, tuple(argv), code, time.monotonic_ns() - started))
    return code


def _follow(run: _Run, pass_name: str, process: subprocess.Popen[bytes], reader: EventReader) -> None:
    while process.poll() is None:
        _take(run, pass_name, reader)
        time.sleep(_POLL_S)


def _take(run: _Run, pass_name: str, reader: EventReader) -> None:
    events = reader.read()
    for event in events:
        run.progress.take(event, pass_name)
    run.on_progress(pass_name, run.progress)
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


def _tail(path: Path, size: int = 65536) -> str:
    data = path.read_bytes()[-size:] if path.exists() else b""
    return data.decode("utf-8", errors="replace")


def interrupted_error(folder: Path, progress: Progress) -> InterruptedCaptureError:
    """The error that tells a user who pressed Ctrl-C what was kept."""
    done = sum(outcome.status != "not_run" for outcome in progress.outcomes)
    return InterruptedCaptureError(
        f"Interrupted: {done} of {len(progress.outcomes)} cases are finished and kept in {folder}.",
        f"nsysprof analyze {folder} reads what is there.",
    )
