"""Run the passes of a capture under a profiler. Each pass is a tree of processes whose events update the progress."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nsysprof.capture.collect import CaseProgress, result_rows
from nsysprof.capture.manifest import TORCH_TRACE, Manifest, write_manifest, write_results
from nsysprof.capture.measured_process import WORK, run_supervised
from nsysprof.capture.plan import CapturePlan
from nsysprof.capture.sampling.bench_run import BenchRun
from nsysprof.results.checks import RecordingCheck
from nsysprof.workload.job import Job

OnProgress = Callable[[str, CaseProgress], None]


@dataclass
class CaptureRun:
    """A capture while it runs."""

    plan: CapturePlan
    folder: Path
    nsys: Path | None
    ncu: Path | None
    manifest: Manifest
    progress: CaseProgress
    # The untraced samples.
    measured: BenchRun
    on_progress: OnProgress
    result_columns: tuple[str, ...]
    # Returns what a trace lost; None: nothing is checked.
    inspect: Callable[[Path], RecordingCheck] | None = None
    interrupted: bool = False

    def save(self) -> None:
        """Write everything that is known so far."""
        self.measured.save(self.folder)
        write_results(self.folder, self.result_columns, result_rows(self.progress))
        write_manifest(self.folder, self.manifest)


def write_job(
    run: CaptureRun,
    pass_name: str,
    profiler: str,
    skip: tuple[int, ...],
    *,
    calls: int | None = None,
    patience: float = 1.0,
) -> Path:
    """Write the job file of a pass, and return its path.

    calls: how many calls each case's range contains; None takes the plan's number.
    patience: a factor for the plan's timeout.
    """
    plan, work = run.plan, run.folder.resolve() / WORK
    job = Job(
        cases=plan.cases,
        range_keys=plan.range_keys,
        pass_name=pass_name,
        profiler=profiler,
        device=plan.device,
        case_timeout_s=plan.case_timeout_s * patience,
        events_path=str(work / f"{pass_name}-{profiler}.events"),
        stop_path=str(work / "stop"),
        parent_pid=os.getpid(),
        skip=skip,
        warmup_calls=plan.warmup,
        traced_calls=plan.traced_calls if calls is None else calls,
        traced_seconds=plan.traced_seconds if profiler == "nsys" else 0.0,
        torch_trace_path=str(run.folder.resolve() / TORCH_TRACE),
    )
    path = work / f"{pass_name}-{profiler}.json"
    job.write(path)
    return path


def run_profiled_pass(run: CaptureRun, pass_name: str, argv: list[str], log: str, title: str = "") -> int | None:
    """Run one pass to its end and return its exit code. Ctrl-C ends it early and keeps its results.

    argv: the command line, which ends with the job file.
    title: the name under which progress is shown, where it differs from the name of the pass.
    """
    title = title or pass_name
    run.on_progress(title, run.progress)

    def take(events: list[dict[str, Any]]) -> None:
        for event in events:
            run.progress.take(event, pass_name)
        run.on_progress(title, run.progress)
        if any(event["event"] == "done" for event in events):
            run.save()

    ended = run_supervised(title, argv, Job.read(Path(argv[-1])), run.folder / log, take)
    run.interrupted = run.interrupted or ended.interrupted
    run.manifest.steps.append(ended.step)
    return ended.step.exit_code
