"""Run the plan of a capture: the untraced pass, the traced pass, the export. Finished parts are always on disk."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nsysprof.capture.collect import NOT_RUN, CaseProgress, result_rows, write_counters
from nsysprof.capture.environment import clock_notes, merge_environment
from nsysprof.capture.folder import NSYS_REPORT, remove_work
from nsysprof.capture.manifest import NSYS_TRACE, TORCH_TRACE, Manifest, write_manifest, write_results
from nsysprof.capture.measured_process import LOGS, WORK, run_supervised, supervisor_argv, tail
from nsysprof.capture.plan import CapturePlan
from nsysprof.capture.sampling.bench import run_bench_process
from nsysprof.capture.sampling.bench_run import BenchRun, new_run
from nsysprof.capture.self_check.record_again import MOST_ATTEMPTS, KeptRecording, recovered_note
from nsysprof.capture.self_check.reduction import reductions
from nsysprof.environment import collect_gpus, collect_host
from nsysprof.errors import CaptureFailedError, InterruptedCaptureError, NsysprofError, ToolFailedError, TraceError
from nsysprof.notes import Note, make_note
from nsysprof.nsight.ncu import count_argv, count_kernels, explain_counters, probe_counters, read_report
from nsysprof.nsight.nsys import (
    explain_profile_failure,
    gpu_metrics_options,
    import_again,
    knows_software_trace,
    merge_options,
    profile_argv,
    recording_of,
    run_export,
)
from nsysprof.nsight.run_tool import tool_version
from nsysprof.results.checks import MissingSource, RecordingCheck, comparable_hash
from nsysprof.results.kernel_counters import CountedKernel, Run
from nsysprof.results.samples import OK
from nsysprof.workload.job import COUNTED, TIMED, TRACED, Job

# Kernel replay saves the memory that a kernel may write, and needs as much again.
_LARGEST_SHARE = 0.45
_PATIENCE = 4.0  # a multiple of the timeout of an untraced case
OnProgress = Callable[[str, CaseProgress], None]


@dataclass(frozen=True)
class Captured:
    """A finished capture."""

    manifest: Manifest
    progress: CaseProgress
    # The trace; None when none was requested, or when it could not be made.
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
    inspect: Callable[[Path], RecordingCheck] | None = None,
) -> Captured:
    """Run `plan` into the prepared `folder`, and return the finished capture.

    Raises CaptureFailedError when no case could be measured, and ToolFailedError when nsys failed. What was finished
    until then is on disk.

    fall_back: whether torch's profiler takes over when nsys fails, instead of an error.
    result_columns: the columns of results.csv.
    on_progress: called with the pass and the results of all cases so far.
    inspect: returns what a trace lost, so that it is made again with less; None: nothing is checked.
    """
    progress = CaseProgress(plan)
    manifest = Manifest(
        cases=plan.cases,
        range_keys=plan.range_keys,
        profiler=plan.profiler,
        traced_calls=plan.traced_calls,
        method="",
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    measured = new_run(plan.untraced, "capture")
    run = CaptureRun(plan, folder, nsys, ncu, manifest, progress, measured, on_progress, result_columns, inspect)
    try:
        run.save()
        can_count = _can_count(run)
        _run_timed(run)
        manifest.environment = _environment(run)
        manifest.notes += clock_notes(manifest.environment)
        manifest.method = plan.method if any(outcome.status == OK for outcome in progress.outcomes) else ""
        run.save()
        trace = None if run.interrupted else _run_traced_or_none(run, fall_back)
        if can_count and not run.interrupted:
            _run_counted(run, min((gpu["memory_bytes"] for gpu in collect_gpus()), default=None))
        manifest.complete = measured.complete = not run.interrupted
        run.save()
    finally:
        remove_work(folder)
    if not any(outcome.status == OK for outcome in progress.outcomes) and not run.interrupted:
        raise CaptureFailedError(_why_nothing(progress), f"The reason for each case is in {folder / 'results.csv'}.")
    return Captured(manifest, progress, trace, run.interrupted)


def _why_nothing(progress: CaseProgress) -> str:
    reasons = {f"{outcome.status}: {outcome.reason}" for outcome in progress.outcomes}
    said = f" All said: {reasons.pop()}" if len(reasons) == 1 else ""
    return f"None of {len(progress.outcomes)} cases could be measured.{said}"


def _run_timed(run: CaptureRun) -> None:
    """Take the untraced samples by a bench of one process, in the order of the grid."""

    def on_block(measured: BenchRun, _left: int, current: int | None) -> None:
        finished = {block.cell: block for block in measured.blocks}
        is_new = len(finished) > sum(outcome.block is not None for outcome in run.progress.outcomes)
        for cell, block in finished.items():
            run.progress.outcomes[cell].block = block
        run.progress.current = current
        run.on_progress(TIMED, run.progress)
        if is_new:
            run.save()

    ended = run_bench_process(run.measured, run.folder, 0, list(range(len(run.plan.cases))), 0, on_block)
    if ended is not None:
        run.interrupted = ended.interrupted
        run.manifest.steps.append(ended.step)


def _environment(run: CaptureRun) -> dict[str, Any]:
    """Return the machine that was measured, with the versions of the tools that trace and count."""
    measured, plan = run.measured, run.plan
    environment = measured.environment
    if "os" not in environment:  # the measured process ended before it could report its environment
        environment = {**merge_environment({}, collect_host(), collect_gpus()), **environment}
    if run.nsys is not None and plan.profiler == "nsys":
        environment = {**environment, "nsys_version": tool_version(run.nsys)}
    if run.ncu is not None and plan.counting is not None:
        environment = {**environment, "ncu_version": tool_version(run.ncu)}
    if measured.ceilings:
        environment = {**environment, "ceilings": measured.ceilings}
    return {**environment, "comparable_hash": comparable_hash(environment)}


def _run_traced_or_none(run: CaptureRun, fall_back: bool) -> Path | None:
    """Return the trace, or None when there is none or Ctrl-C came between the passes or during the export."""
    try:
        return _run_traced_or_fall_back(run, fall_back)
    except KeyboardInterrupt:
        run.interrupted = True
        return None


def _run_traced_or_fall_back(run: CaptureRun, fall_back: bool) -> Path | None:
    skip = tuple(index for index, outcome in enumerate(run.progress.outcomes) if outcome.status != OK)
    if run.plan.profiler == "none" or len(skip) == len(run.plan.cases):
        return None
    if run.plan.profiler == "torch":
        return _run_torch(run, skip)
    try:
        return _run_nsys(run, skip)
    except ToolFailedError as error:
        if not fall_back:
            raise
        note = make_note("nsys-failed", problem=error.text, next_step=error.next_step)
        run.manifest.add_missing(MissingSource.NSYS, note)
        run.manifest.profiler = "torch"
        for outcome in run.progress.outcomes:
            outcome.traced, outcome.traced_reason = NOT_RUN, ""
        return _run_torch(run, skip)


def _run_torch(run: CaptureRun, skip: tuple[int, ...]) -> Path | None:
    job = write_job(run, TRACED, "torch", skip)
    run_profiled_pass(run, TRACED, supervisor_argv(job), f"{LOGS}/traced.log")
    trace = run.folder / TORCH_TRACE
    return trace if trace.exists() else None


def _run_nsys(run: CaptureRun, skip: tuple[int, ...]) -> Path | None:
    assert run.nsys is not None
    report = run.folder / NSYS_REPORT
    options, why = gpu_metrics_options(run.nsys, run.plan.gpu_metrics_hz) if run.plan.gpu_metrics_hz else ((), "")
    code = _profile(run, skip, options, report)
    if options and (code != 0 or not report.exists()) and not run.interrupted:
        why = explain_profile_failure(code, tail(run.folder / LOGS / "nsys.log")).text
        for outcome in run.progress.outcomes:
            outcome.traced, outcome.traced_reason = NOT_RUN, ""
        code = _profile(run, skip, (), report)
    if why:
        run.manifest.add_missing(MissingSource.DRAM_SAMPLES, _unsampled(why))
    sqlite = _export(run, code, report)
    if run.inspect is not None and not run.interrupted:
        _trace_with_less(run, skip, options, run.inspect(sqlite))
    return sqlite


def _export(run: CaptureRun, code: int | None, report: Path) -> Path:
    """Return the trace of a recording that ended with this exit code. Raises ToolFailedError where there is none."""
    assert run.nsys is not None
    if code != 0 or not report.exists():
        raise explain_profile_failure(code, tail(run.folder / LOGS / "nsys.log"))
    sqlite = run.folder / NSYS_TRACE
    step, failure = run_export(run.nsys, report, sqlite, log=run.folder / LOGS / "export.log")
    run.manifest.steps.append(step)
    if failure is not None:
        raise failure
    return sqlite


def _trace_with_less(run: CaptureRun, skip: tuple[int, ...], options: tuple[str, ...], first: RecordingCheck) -> None:
    """Trace again with fewer options where the trace lost data, until nothing is lost.

    The first trace stays where all of them lost data.
    """
    assert run.nsys is not None
    assert run.inspect is not None
    environment, kept = run.manifest.environment, KeptRecording(run.folder, run.folder, "nsys.*")
    ways = reductions(
        merge_options(options),
        first.lost,
        nsys=environment.get("nsys_version"),
        driver=environment.get("driver_version"),
        knows_software_trace=bool(first.lost) and knows_software_trace(run.nsys),
    )[:MOST_ATTEMPTS]
    for way in ways:
        before = [(outcome.traced, outcome.traced_reason) for outcome in run.progress.outcomes]
        for outcome in run.progress.outcomes:
            outcome.traced, outcome.traced_reason = NOT_RUN, ""
        kept.put_aside()
        report = run.folder / NSYS_REPORT
        used = tuple(option for option in options if not way.drops_metrics or not option.startswith("--gpu-metrics"))
        try:
            check = run.inspect(_export(run, _profile(run, skip, (*used, *way.options), report), report))
        except NsysprofError:
            check = None
        if check is not None and not check.lost and not run.interrupted:
            kept.forget()
            run.manifest.notes.append(recovered_note(way, first.remarks.losses[0]))
            if way.drops_metrics:
                why = "the recording lost data while counters were sampled"
                run.manifest.add_missing(MissingSource.DRAM_SAMPLES, _unsampled(why))
            return
        kept.put_back()
        for outcome, (traced, reason) in zip(run.progress.outcomes, before, strict=True):
            outcome.traced, outcome.traced_reason = traced, reason
        if run.interrupted:
            return
    if ways:
        run.manifest.notes.append(make_note("still-lost", times=1 + len(ways)))


def _profile(run: CaptureRun, skip: tuple[int, ...], options: tuple[str, ...], report: Path) -> int | None:
    assert run.nsys is not None
    job = write_job(run, TRACED, "nsys", skip)
    argv = profile_argv(run.nsys, report.with_suffix(""), supervisor_argv(job), options)
    recording_of(report).unlink(missing_ok=True)
    code = run_profiled_pass(run, TRACED, argv, f"{LOGS}/nsys.log")
    imported = import_again(run.nsys, report, run.folder / LOGS / "nsys.log")
    if imported is None:
        return code
    run.manifest.steps.append(imported)
    return imported.exit_code


def _unsampled(why: str) -> Note:
    return make_note("gpu-metrics-failed", problem=why)


def _run_counted(run: CaptureRun, memory_bytes: int | None) -> None:
    try:
        run_counted(run, memory_bytes)
    except KeyboardInterrupt:  # Ctrl-C came while a report was being read
        run.interrupted = True


def _can_count(run: CaptureRun) -> bool:
    """Return whether ncu can read counters here, tested with a tiny kernel. Add a note where it cannot."""
    if run.plan.counting is None or run.ncu is None:
        return False
    problem = probe_counters(run.ncu)
    if problem is not None:
        note = make_note("no-counters", problem=problem[0], next_step=problem[1])
        run.manifest.add_missing(MissingSource.COUNTERS, note)
    return problem is None


def interrupted_error(folder: Path, progress: CaseProgress, *, has_trace: bool) -> InterruptedCaptureError:
    """Return the error that tells a user who pressed Ctrl-C what was kept.

    has_trace: whether the folder contains a trace, without which analyze has nothing to read.
    """
    done = sum(outcome.status != NOT_RUN for outcome in progress.outcomes)
    return InterruptedCaptureError(
        f"Interrupted: {done} of {len(progress.outcomes)} cases are finished and kept in {folder}.",
        f"nsysprof analyze {folder} reads what is there."
        if has_trace
        else f"{folder / 'results.csv'} has them; nothing was traced yet.",
    )


@dataclass(frozen=True)
class _Group:
    """Cases that one run of ncu counts."""

    cases: tuple[int, ...]
    replay: str = "kernel"
    # The most launches to count; None where all cases are known to be small enough.
    most: int | None = None


def run_counted(run: CaptureRun, memory_bytes: int | None) -> None:
    """Count every case that could be measured, and write counters.csv. A note says what could not be counted."""
    assert run.plan.counting is not None
    wanted = [index for index, outcome in enumerate(run.progress.outcomes) if outcome.status == "ok"]
    counted: list[CountedKernel] = []
    launches = _count_traffic(run, wanted, counted)
    for group in _groups(run, wanted, launches, memory_bytes):
        if run.interrupted:
            break
        counted += _count(run, Run.DETAIL, group)
        write_counters(run.folder, counted)
    reached = {kernel.range for kernel in counted}
    for index in wanted:
        name, outcome = run.plan.range_of(run.plan.cases[index]), run.progress.outcomes[index]
        if name not in reached and outcome.counted not in ("ok", "not_run"):
            run.manifest.notes.append(
                make_note("not-counted", range=name, status=outcome.counted, reason=outcome.counted_reason)
            )


def _count_traffic(run: CaptureRun, wanted: list[int], counted: list[CountedKernel]) -> dict[int, int]:
    """Return the launches of one call by case, and add the kernels of completely counted cases to `counted`.

    ncu limits the launches of all cases together. A case that uses up the limit for others ends the run; then the
    others are tried again.
    """
    assert run.plan.counting is not None
    limit, launches = run.plan.counting.kernels, dict[int, int]()
    left = list(wanted)
    while left and not run.interrupted:
        most = limit * len(left) + 1
        kernels = _count(run, Run.TRAFFIC, _Group(tuple(left), most=most))
        names = {run.plan.range_of(run.plan.cases[index]): index for index in left}
        by_case = Counter(names[kernel.range] for kernel in kernels)
        cut = list(by_case)[-1] if len(kernels) == most else None
        counted += [kernel for kernel in kernels if names[kernel.range] != cut]
        write_counters(run.folder, counted)
        launches |= {index: count for index, count in by_case.items() if index != cut}
        if cut is None:
            break
        left = left[left.index(cut) :]
        if by_case[cut] > limit:
            launches[cut] = by_case[cut]  # this is a lower bound
            run.manifest.notes.append(_too_many(run, cut))
            left = left[1:]
    return launches


def _too_many(run: CaptureRun, index: int) -> Note:
    assert run.plan.counting is not None
    name = run.plan.range_of(run.plan.cases[index])
    return make_note("counted-in-part", range=name, most=run.plan.counting.kernels)


def _groups(run: CaptureRun, wanted: list[int], launches: dict[int, int], memory_bytes: int | None) -> Iterator[_Group]:
    """Yield groups of cases: together where possible, alone where replay or number of kernels need special treatment.

    A case that the traffic run did not reach would fail again. Where it reached none, the detail run may still work.
    """
    assert run.plan.counting is not None
    limit = run.plan.counting.kernels
    if not launches:
        yield _Group(tuple(wanted), most=limit * len(wanted))
        return
    alike: list[int] = []
    for index in (index for index in wanted if index in launches):
        replay = _replay(run, index, memory_bytes)
        most = limit if launches[index] > limit else None
        if replay == "kernel" and most is None:
            alike.append(index)
        else:
            yield _Group((index,), replay, most)
    if alike:
        yield _Group(tuple(alike))


def _replay(run: CaptureRun, index: int, memory_bytes: int | None) -> str:
    assert run.plan.counting is not None
    if run.plan.counting.replay != "auto":
        return run.plan.counting.replay
    block = run.progress.outcomes[index].block
    peak = None if block is None else block.peak_reserved_bytes
    return "application" if peak and memory_bytes and peak > _LARGEST_SHARE * memory_bytes else "kernel"


def _count(run: CaptureRun, kind: Run, group: _Group) -> list[CountedKernel]:
    """Run one ncu over a group and return its launches. Launches from before a failure are kept."""
    plan, folder = run.plan, run.folder
    assert run.ncu is not None and plan.counting is not None
    skip = tuple(index for index in range(len(plan.cases)) if index not in group.cases)
    job = write_job(run, COUNTED, "ncu", skip, calls=1, patience=_PATIENCE)
    report, log = _free_name(folder, kind), f"{LOGS}/{_free_name(folder, kind).stem}.log"
    argv = count_argv(
        run.ncu, report, kind, supervisor_argv(job),
        more_metrics=plan.counting.metrics, sections=plan.counting.sections, replay=group.replay, most=group.most,
    )  # fmt: skip
    for index in group.cases:
        run.progress.outcomes[index].counted = NOT_RUN
    code = run_profiled_pass(run, COUNTED, argv, log, title=kind.value)
    ranges = [plan.range_of(plan.cases[index]) for index in group.cases]
    try:
        if not report.exists():
            why, fix = explain_counters(tail(folder / log))
            raise TraceError(f"ncu wrote no report ({why}, exit code {code}).", fix)
        pages = [read_report(run.ncu, report, names) for names in ("demangled", "mangled")]
    except TraceError as error:
        run.manifest.add_missing(MissingSource.COUNTERS, _nothing_of(kind, error))
        return []
    if any(page.refused for page in pages):
        run.manifest.notes.append(_refused(pages[0].refused))
    return count_kernels(kind, pages[0].kernels, pages[1].kernels, ranges, plan.counting.metrics)


def _free_name(folder: Path, kind: Run) -> Path:
    """Return a free path: ncu.ncu-rep for detail, ncu-traffic.ncu-rep for traffic, with a number where needed."""
    stem = "ncu" if kind is Run.DETAIL else "ncu-traffic"
    names = [stem, *(f"{stem}-{number}" for number in range(2, 10_000))]
    return next(folder / f"{name}.ncu-rep" for name in names if not (folder / f"{name}.ncu-rep").exists())


def _nothing_of(kind: Run, error: TraceError) -> Note:
    what = "DRAM bytes by counter" if kind is Run.TRAFFIC else "counters of single kernels"
    return make_note("no-counters", "of-a-run", what=what, problem=error.text, next_step=error.next_step)


def _refused(refused: dict[str, int]) -> Note:
    names = ", ".join(list(refused)[:5])
    return make_note("ambiguous-numbers", names=names)


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
