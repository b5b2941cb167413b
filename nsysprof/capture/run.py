"""Run a plan: the untraced pass, the traced pass, the export; everything finished is on disk at every moment."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from nsysprof.capture.collect import Progress, clock_notes, merged_environment
from nsysprof.capture.count import NO_COUNTERS, run_counted
from nsysprof.capture.find_ncu import ncu_version
from nsysprof.capture.find_nsys import nsys_version
from nsysprof.capture.folder import LOGS, NSYS_REPORT, remove_work
from nsysprof.capture.manifest import NSYS_TRACE, TORCH_TRACE, Manifest, Step
from nsysprof.capture.ncu import probe_counters
from nsysprof.capture.nsys import (
    explain_failure,
    export_sqlite,
    gpu_metrics_options,
    import_again,
    profile_argv,
    recording_of,
)
from nsysprof.capture.passes import CaptureRun, OnProgress, run_pass, supervisor_argv, tail, write_job
from nsysprof.capture.plan import CapturePlan
from nsysprof.environment import collect_gpus, collect_host
from nsysprof.errors import CaptureFailedError, InterruptedCaptureError, ToolFailedError
from nsysprof.notes import Note, Severity


@dataclass(frozen=True)
class Captured:
    """A finished capture. `trace` is None when none was asked for, or none could be made."""

    manifest: Manifest
    progress: Progress
    trace: Path | None
    interrupted: bool


def run_capture(
    plan: CapturePlan,
    folder: Path,
    *,
    nsys: Path | None,
    ncu: Path | None = None,
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
    run = CaptureRun(plan, folder, nsys, ncu, manifest, progress, on_progress, result_columns)
    host, gpus = collect_host(), collect_gpus()
    try:
        run.save()
        can_count = _can_count(run)
        _run_timed(run)
        version = nsys_version(nsys) if nsys is not None and plan.profiler == "nsys" else None
        manifest.environment = merged_environment(host, gpus, progress, version)
        if ncu is not None and plan.counting is not None:
            manifest.environment["ncu_version"] = ncu_version(ncu)
        manifest.notes += clock_notes(manifest.environment)
        manifest.method = next((o.samples.method for o in progress.outcomes if o.samples), "")
        run.save()
        trace = None if run.interrupted else _run_traced_or_none(run, fall_back)
        if can_count and not run.interrupted:
            _run_counted(run, min((gpu["memory_bytes"] for gpu in gpus), default=None))
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


def _run_timed(run: CaptureRun) -> None:
    job = write_job(run, "timed", run.plan.profiler, skip=())
    run_pass(run, "timed", supervisor_argv(job), LOGS + "/timed.log")


def _run_traced_or_none(run: CaptureRun, fall_back: bool) -> Path | None:
    """The trace, or None when there is none or Ctrl-C came between the passes or during the export."""
    try:
        return _run_traced_or_fall_back(run, fall_back)
    except KeyboardInterrupt:
        run.interrupted = True
        return None


def _run_traced_or_fall_back(run: CaptureRun, fall_back: bool) -> Path | None:
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


def _run_torch(run: CaptureRun, skip: tuple[int, ...]) -> Path | None:
    job = write_job(run, "traced", "torch", skip)
    run_pass(run, "traced", supervisor_argv(job), LOGS + "/traced.log")
    trace = run.folder / TORCH_TRACE
    return trace if trace.exists() else None


def _run_nsys(run: CaptureRun, skip: tuple[int, ...]) -> Path | None:
    assert run.nsys is not None
    report = run.folder / NSYS_REPORT
    options, why = gpu_metrics_options(run.nsys, run.plan.gpu_metrics_hz) if run.plan.gpu_metrics_hz else ((), "")
    code = _profile(run, skip, options, report)
    if options and (code != 0 or not report.exists()) and not run.interrupted:
        why = explain_failure("profile", code, tail(run.folder / LOGS / "nsys.log")).text
        for outcome in run.progress.outcomes:
            outcome.traced, outcome.traced_reason = "not_run", ""
        code = _profile(run, skip, (), report)
    if why:
        run.manifest.notes.append(_unsampled(why))
    if code != 0 or not report.exists():
        raise explain_failure("profile", code, tail(run.folder / LOGS / "nsys.log"))
    started = time.monotonic_ns()
    sqlite = run.folder / NSYS_TRACE
    argv, code = export_sqlite(run.nsys, report, sqlite, run.folder / LOGS / "export.log")
    run.manifest.steps.append(Step("export", tuple(argv), code, time.monotonic_ns() - started))
    return sqlite


def _profile(run: CaptureRun, skip: tuple[int, ...], options: tuple[str, ...], report: Path) -> int | None:
    assert run.nsys is not None
    job = write_job(run, "traced", "nsys", skip)
    argv = profile_argv(run.nsys, report.with_suffix(""), supervisor_argv(job), options)
    recording_of(report).unlink(missing_ok=True)
    code = run_pass(run, "traced", argv, LOGS + "/nsys.log")
    imported = import_again(run.nsys, report, run.folder / LOGS / "nsys.log")
    if imported is None:
        return code
    run.manifest.steps.append(imported)
    return imported.exit_code


def _unsampled(why: str) -> Note:
    text = f"DRAM traffic was not sampled (--gpu-metrics): {why}"
    return Note("gpu-metrics-failed", Severity.WARNING, text, "nsysprof doctor says what is missing.")


def _run_counted(run: CaptureRun, memory_bytes: int | None) -> None:
    try:
        run_counted(run, memory_bytes)
    except KeyboardInterrupt:  # while a report was being read
        run.interrupted = True


def _can_count(run: CaptureRun) -> bool:
    """Whether ncu reads counters here, found with one tiny kernel before the sweep; a note where it does not."""
    if run.plan.counting is None or run.ncu is None:
        return False
    problem = probe_counters(run.ncu)
    if problem is not None:
        text = f"No hardware counters: {problem[0]}. The capture went on without them."
        run.manifest.notes.append(Note(NO_COUNTERS, Severity.WARNING, text, problem[1]))
    return problem is None


def interrupted_error(folder: Path, progress: Progress) -> InterruptedCaptureError:
    """The error that tells a user who pressed Ctrl-C what was kept."""
    done = sum(outcome.status != "not_run" for outcome in progress.outcomes)
    return InterruptedCaptureError(
        f"Interrupted: {done} of {len(progress.outcomes)} cases are finished and kept in {folder}.",
        f"nsysprof analyze {folder} reads what is there.",
    )
