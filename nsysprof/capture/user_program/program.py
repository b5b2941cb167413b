"""Capture a program of the user's: one trace, or one per rank, in a folder with everything that belongs to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from nsysprof.capture.folder import NSYS_REPORT, remove_work
from nsysprof.capture.machine import collect_machine
from nsysprof.capture.manifest import NSYS_TRACE, Program, program_manifest
from nsysprof.capture.measured_process import LOGS, WORK
from nsysprof.capture.rank import RankIdentity
from nsysprof.capture.self_check.again import (
    may_run_again,
    record_with_less,
    suspect_note,
)
from nsysprof.capture.self_check.hook_fault import record_without_hook
from nsysprof.capture.self_check.ranges_alone import RANGES_ALONE, record_ranges_alone
from nsysprof.capture.self_check.reduction import reductions
from nsysprof.capture.self_check.settle import settle_options
from nsysprof.capture.self_check.size_watch import StopReason
from nsysprof.capture.self_check.watch import GpuWatch
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.program_run import CapturedProgram, Compare, Inspect, ProgramRun
from nsysprof.capture.user_program.rank_launch import VARIABLE, RankJob, write_launcher
from nsysprof.capture.user_program.rank_record import (
    RankRecord,
    claim_rank,
    has_all_ranks,
    logs_of,
    report_of,
    trace_of,
    with_files,
    write_record,
)
from nsysprof.capture.user_program.record_program import (
    Say,
    Watchers,
    disk_full_error,
    program_environment,
    record_program,
    unsampled,
)
from nsysprof.capture.user_program.streamed import Ended, Streams, run_streamed
from nsysprof.errors import NsysprofError, ToolFailedError
from nsysprof.files.folder_exchange import remove_path
from nsysprof.notes import Loss, Note, make_note, split_losses
from nsysprof.nsight.nsys import gpu_metrics_options, knows_software_trace, merge_options, run_export
from nsysprof.nsight.run_tool import Step
from nsysprof.results.checks.recording_check import NOT_WATCHED, RecordingCheck, WatchedGpu
from nsysprof.results.missing_source import MissingSource
from nsysprof.units import format_bytes

_LITTLE_SPACE = 2 << 30
_FINISH_S = 120.0  # how long nsys may write the report of a worker that the launcher killed
_POLL_S = 0.5
_BY_SIGNAL = 128  # a program that was killed explains what is missing


def run_program_capture(
    plan: ProgramPlan,
    folder: Path,
    *,
    nsys: Path,
    identity: RankIdentity | None,
    watchers: Watchers,
    say: Say,
    inspect: Inspect,
    compare: Compare = lambda _trace, _plain: (),
) -> CapturedProgram:
    """Run the plan's program into the prepared `folder`. Everything finished is on disk at every moment.

    compare: says what recording cost, by the trace and that with the ranges alone.
    """
    manifest = program_manifest(plan.argv)
    run = ProgramRun(plan, folder, nsys, identity, watchers, say, inspect, manifest)
    try:
        manifest.environment = collect_machine(nsys)
        manifest.notes += _space_notes(folder)
        settled, notes = settle_options(
            nsys, manifest.environment, say, may_try=plan.probe and identity is None and not plan.per_rank
        )
        run.plan = replace(run.plan, settled=settled)
        manifest.notes += notes
        _settle_metrics(run)
        if identity is None or identity.rank == 0:
            run.save()
        if run.plan.per_rank:
            captured = _run_launcher(run)
        elif identity is not None:
            captured = _run_rank(run, identity)
        else:
            captured = _run_alone(run)
            if captured.traces and not run.plan.keep_report:
                (folder / NSYS_REPORT).unlink(missing_ok=True)
            if run.plan.measure_cost and record_ranges_alone(run, captured):
                manifest.notes += compare(folder / NSYS_TRACE, folder / RANGES_ALONE)
        if identity is not None and not _sums_up(run, identity, captured):
            return captured
        return replace(captured, manifest=run.save())
    finally:
        _remove_own_work(run)


def _sums_up(run: ProgramRun, identity: RankIdentity, captured: CapturedProgram) -> bool:
    """Return whether this process writes the manifest: the first rank, the last, and any that failed do."""
    if identity.rank == 0 or captured.failure is not None or captured.ended.exit_code != 0:
        return True
    return has_all_ranks(run.folder, identity, run.plan)


def _run_alone(run: ProgramRun) -> CapturedProgram:
    """Record the program into one trace, and again with less where that lost data and the program may run again."""
    notes = list(run.manifest.notes)
    captured = record_without_hook(run, _record_alone(run), notes, _record_alone)
    if captured.check is None or not captured.check.lost:
        return captured
    version, driver = run.manifest.environment.get("nsys_version"), run.manifest.environment.get("driver_version")
    used = merge_options((*run.plan.profile_options, *run.metrics))
    ways = reductions(
        used,
        captured.check.lost,
        nsys=version,
        driver=driver,
        knows_software_trace=knows_software_trace(run.nsys),
    )
    if not ways or (captured.ended.exit_code or 0) > _BY_SIGNAL:
        return captured
    if not may_run_again(run.plan, captured.ended):
        run.manifest.notes.append(suspect_note(ways[0], run.plan, run.folder))
        return captured
    return record_with_less(run, captured, ways, notes, _record_alone)


def _record_alone(run: ProgramRun) -> CapturedProgram:
    logs = run.folder / LOGS
    report = run.folder / NSYS_REPORT
    watch = GpuWatch(run.nsys)
    with watch:
        recorded = record_program(
            run.plan,
            run.nsys,
            report,
            (logs / "stdout.log", logs / "stderr.log", logs / "nsys.log"),
            run.watchers,
            metrics=run.metrics,
            environment=program_environment() | watch.environment,
            say=run.say,
        )
    watched = watch.seen(is_whole=run.plan.is_whole and recorded.ended.interrupted is None and recorded.stopped is None)
    run.manifest.steps += recorded.steps
    run.manifest.notes += recorded.notes
    run.manifest.missing += recorded.missing
    run.manifest.program = Program(run.plan.argv, recorded.ended.exit_code)
    run.save()
    failure: NsysprofError | None = recorded.failure
    traces: tuple[Path, ...] = ()
    check: RecordingCheck | None = None
    if report.is_file():
        trace = run.folder / NSYS_TRACE
        step, failure, check = _export(run, report, trace, logs / "export.log", watched)
        run.manifest.steps.append(step)
        run.manifest.notes += check.remarks.notes
        traces = () if failure else (trace,)
    run.manifest.complete = failure is None and recorded.ended.interrupted is None
    if recorded.stopped is StopReason.DISK and failure is None:
        failure = disk_full_error()
    losses = () if check is None else check.remarks.losses
    return CapturedProgram(run.manifest, recorded.ended, traces, failure, losses, check)


def _run_rank(run: ProgramRun, identity: RankIdentity) -> CapturedProgram:
    """Record and export this rank, and write the manifest with all ranks that are there by now."""
    streams = logs_of(run.folder, identity.rank)
    if not run.plan.is_recorded(identity.rank):
        ended = run_streamed(
            list(run.plan.argv), Streams(*streams, run.watchers.stdout, run.watchers.stderr), dict(os.environ)
        )
        return CapturedProgram(run.manifest, ended, (), None)
    record = claim_rank(run.folder, identity, run.job, run.starter)
    recorded = record_program(
        run.plan,
        run.nsys,
        report_of(run.folder, identity.rank),
        streams,
        run.watchers,
        metrics=run.metrics if identity.is_first_of_host else (),
        environment=program_environment(),
        say=run.say,
    )
    record = replace(record, trace=replace(record.trace, exit_code=recorded.ended.exit_code))
    record = replace(record, recorded=True, steps=recorded.steps, notes=recorded.notes, missing=recorded.missing)
    write_record(run.folder, with_files(run.folder, record))
    failure, traces, losses = _finish_records(run, [record], recorded.ended)
    run.manifest.complete = recorded.ended.interrupted is None
    return CapturedProgram(run.manifest, recorded.ended, traces, recorded.failure or failure, losses)


def _run_launcher(run: ProgramRun) -> CapturedProgram:
    """Run torch's launcher, or a program that starts it. Each of its workers runs under an nsys of its own."""
    plan, logs, work = run.plan, run.folder / LOGS, run.folder / WORK
    python = os.environ.get(VARIABLE)
    job = RankJob(str(run.folder.resolve()), run.job, run.starter, str(run.nsys.absolute()), plan, run.metrics, python)
    launcher = write_launcher(job, work)
    name = f"node{run.starter:05d}." if run.identity else ""
    streams = Streams(
        logs / f"{name}stdout.log", logs / f"{name}stderr.log", logs / f"{name}nsys.log", run.watchers.stdout,
        run.watchers.stderr,
    )  # fmt: skip
    ended = run_streamed(list(plan.argv), streams, {**program_environment(), VARIABLE: str(launcher)}, say=run.say)
    run.manifest.steps.append(Step("launcher", ended.argv, ended.exit_code, ended.duration_ns))
    run.manifest.program = Program(plan.argv, ended.exit_code)
    run.save()
    mine = [record for record in run.records if record.starter == run.starter]
    for record in mine:
        if not record.recorded:
            _await_report(report_of(run.folder, record.trace.rank))
    failure, traces, losses = _finish_records(run, mine, ended)
    run.manifest.complete = ended.interrupted is None
    if not mine and not ended.refused and ended.interrupted is None:
        failure = ToolFailedError(
            "The program started no worker through torch's launcher, so nothing was recorded.",
            "Leave out --per-rank for one trace of all, or start nsysprof once per rank: LAUNCHER nsysprof capture "
            "--out FOLDER -- PROGRAM.",
        )
    return CapturedProgram(run.manifest, ended, traces, failure, losses)


def _finish_records(
    run: ProgramRun, records: list[RankRecord], ended: Ended
) -> tuple[NsysprofError | None, tuple[Path, ...], tuple[Loss, ...]]:
    """Export the reports of these ranks, several at a time; return the first failure, the traces and their losses."""

    def finish(record: RankRecord) -> tuple[NsysprofError | None, Path, tuple[Loss, ...]]:
        rank = record.trace.rank
        report, trace, log = report_of(run.folder, rank), trace_of(run.folder, rank), logs_of(run.folder, rank)[2]
        failure: NsysprofError | None = ToolFailedError(f"Rank {rank} left no report.", f"See {log}.")
        found = split_losses(())
        if report.is_file():
            step, failure, check = _export(run, report, trace, log.with_suffix(".export.log"), NOT_WATCHED)
            found = check.remarks
            record = replace(record, steps=(*record.steps, step))
        notes = [_of_rank(note, rank) for note in found.notes]
        if failure is not None:
            notes.append(make_note("rank-without-trace", rank=rank, problem=failure.text, next_step=failure.next_step))
        record = replace(record, notes=(*record.notes, *notes), environment=run.manifest.environment)
        if failure is None and not run.plan.keep_report:
            report.unlink(missing_ok=True)
        record = replace(record, ended=True, interrupted=ended.interrupted is not None)
        write_record(run.folder, with_files(run.folder, record))
        return failure, trace, tuple(Loss(_of_rank(loss.note, rank)) for loss in found.losses)

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        done = list(pool.map(finish, records))
    return (
        next((failure for failure, _, _ in done if failure), None),
        tuple(trace for failure, trace, _ in done if failure is None),
        tuple(loss for _, _, losses in done for loss in losses),
    )


def _of_rank(note: Note, rank: int) -> Note:
    return replace(note, text=f"Rank {rank}: {note.text}")


def _export(
    run: ProgramRun, report: Path, trace: Path, log: Path, watched: WatchedGpu
) -> tuple[Step, NsysprofError | None, RecordingCheck]:
    run.say(f"export {report.name}")
    step, refused = run_export(run.nsys, report, trace, log=log, say=run.say)
    nothing = RecordingCheck(split_losses(()))
    if refused is not None:
        return step, refused, nothing
    try:
        return step, None, run.inspect(trace, watched)
    except NsysprofError as error:
        return step, error, nothing


def _await_report(report: Path) -> None:
    """Wait until the report of a killed rank stops growing, because nsys outlives the rank."""
    deadline, size = time.monotonic() + _FINISH_S, -1
    while time.monotonic() < deadline:
        before, size = size, report.stat().st_size if report.exists() else -1
        if size == before and size > 0:
            return
        time.sleep(_POLL_S)


def _settle_metrics(run: ProgramRun) -> None:
    if not run.plan.gpu_metrics_hz:
        return
    run.metrics, why = gpu_metrics_options(run.nsys, run.plan.gpu_metrics_hz)
    if why:
        run.manifest.add_missing(MissingSource.DRAM_SAMPLES, unsampled(why))


def _space_notes(folder: Path) -> list[Note]:
    """Return notes about nearly full disks: nsys collects in TMPDIR and writes into the folder."""
    notes = []
    for place, what in ((Path(tempfile.gettempdir()), "TMPDIR"), (folder, "the capture folder")):
        free = shutil.disk_usage(place).free
        if free < _LITTLE_SPACE:
            notes.append(make_note("little-space", free=format_bytes(free), place=what))
    return notes


def _remove_own_work(run: ProgramRun) -> None:
    """Remove this job's working files; other ranks may still need theirs."""
    work = run.folder / WORK
    if run.identity is None:
        remove_work(run.folder)
        return
    for path in work.glob(f"*-{run.starter}"):
        remove_path(path)
    with contextlib.suppress(OSError):  # it is not empty, or was removed already
        work.rmdir()
