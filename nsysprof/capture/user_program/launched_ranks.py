"""Record each rank of a job into its own trace: the workers of a launcher that runs here, or only this process."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from nsysprof.capture.manifest import Program
from nsysprof.capture.measured_process import LOGS, WORK
from nsysprof.capture.power_watch import PowerWatch
from nsysprof.capture.rank import RankIdentity
from nsysprof.capture.self_check.gpu_watch import GpuWatch
from nsysprof.capture.self_check.size_watch import MARK as RECORDING
from nsysprof.capture.self_check.size_watch import StopReason
from nsysprof.capture.user_program.program_run import CapturedProgram, ProgramRun, export_recording
from nsysprof.capture.user_program.rank_launch import VARIABLE, RankJob, write_launcher
from nsysprof.capture.user_program.rank_record import (
    RankRecord,
    claim_rank,
    logs_of,
    power_of,
    report_of,
    trace_of,
    with_files,
    write_record,
)
from nsysprof.capture.user_program.record_program import (
    disk_full_error,
    fork_notes,
    program_environment,
    record_program,
)
from nsysprof.capture.user_program.streamed import Ended, Streams, run_streamed
from nsysprof.errors import NsysprofError, ToolFailedError
from nsysprof.notes import Loss, Note, Remarks, make_loss, make_note, split_losses
from nsysprof.nsight.run_tool import Step
from nsysprof.results.checks import NOT_WATCHED, CudaProcess, Lost, RecordingCheck, WatchedGpu

_FINISH_S = 120.0  # how long nsys may take to write the report of a worker that the launcher killed (s)
_POLL_S = 0.5
_MOST_NAMED = 4


def run_rank(run: ProgramRun, identity: RankIdentity) -> CapturedProgram:
    """Record and export this rank, and write the manifest with all ranks that exist by now."""
    streams = logs_of(run.folder, identity.rank)
    if not run.plan.is_recorded(identity.rank):
        ended = run_streamed(
            list(run.plan.argv), Streams(*streams, run.watchers.stdout, run.watchers.stderr), dict(os.environ)
        )
        return CapturedProgram(run.manifest, ended, (), None)
    record = claim_rank(run.folder, identity, run.job, run.starter)
    watch, power = GpuWatch(run.nsys), PowerWatch() if run.plan.power else None
    with watch, power or contextlib.nullcontext():
        recorded = record_program(
            run.plan,
            run.nsys,
            report_of(run.folder, identity.rank),
            streams,
            run.watchers,
            metrics=run.metrics if identity.is_first_of_host else (),
            environment=program_environment() | watch.environment,
            say=run.say,
        )
    watched = watch.seen(is_whole=run.plan.is_whole and recorded.ended.interrupted is None and recorded.stopped is None)
    record = replace(record, trace=replace(record.trace, exit_code=recorded.ended.exit_code))
    record = replace(record, recorded=True, steps=recorded.steps, notes=recorded.notes, missing=recorded.missing)
    if not _write_power(run.folder, power, [record]):
        record = replace(record, notes=(*record.notes, _of_rank(make_note("no-power"), identity.rank)))
    write_record(run.folder, with_files(run.folder, record))
    done = _finish_records(run, [record], recorded.ended, watched)
    run.manifest.complete = recorded.ended.interrupted is None
    failure = recorded.failure or done.failure
    if recorded.stopped is StopReason.DISK and failure is None:
        failure = disk_full_error()
    return CapturedProgram(run.manifest, recorded.ended, done.traces, failure, done.losses)


def run_launcher(run: ProgramRun) -> CapturedProgram:
    """Run torch's launcher, or a program that starts it. Each of its workers runs under its own nsys."""
    plan, logs, work = run.plan, run.folder / LOGS, run.folder / WORK
    python = os.environ.get(VARIABLE)
    job = RankJob(str(run.folder.resolve()), run.job, run.starter, str(run.nsys.absolute()), plan, run.metrics, python)
    launcher = write_launcher(job, work)
    name = f"node{run.starter:05d}." if run.identity else ""
    streams = Streams(
        logs / f"{name}stdout.log", logs / f"{name}stderr.log", logs / f"{name}nsys.log", run.watchers.stdout,
        run.watchers.stderr,
    )  # fmt: skip
    watch = GpuWatch(run.nsys, only_with=RECORDING)
    environment = program_environment() | watch.environment | {VARIABLE: str(launcher)}
    # One watch for all ranks of this host. Each rank's file has all boards; its trace says which one is its own.
    power = PowerWatch() if plan.power else None
    with watch, power or contextlib.nullcontext():
        ended = run_streamed(list(plan.argv), streams, environment, say=run.say)
    run.manifest.steps.append(Step("launcher", ended.argv, ended.exit_code, ended.duration_ns))
    run.manifest.notes += fork_notes(streams.stderr_log)
    run.manifest.program = Program(plan.argv, ended.exit_code)
    run.save()
    mine = [record for record in run.records if record.starter == run.starter]
    if not _write_power(run.folder, power, mine):
        run.manifest.notes.append(make_note("no-power"))
    for record in mine:
        if not record.recorded:
            _await_report(report_of(run.folder, record.trace.rank))
    done = _finish_records(run, mine, ended)
    is_whole = plan.is_whole and not plan.ranks and ended.interrupted is None
    check = _check_together(done, watch.seen(is_whole=is_whole))
    run.manifest.notes += [loss.note for loss in check.remarks.losses if loss not in done.losses]
    run.manifest.complete = ended.interrupted is None
    failure = done.failure
    if not mine and not ended.refused and ended.interrupted is None:
        failure = ToolFailedError(
            "The program did not start any worker through torch's launcher, so nothing was recorded.",
            "Leave out --per-rank for one trace of all, or start nsysprof once per rank: LAUNCHER nsysprof capture "
            "--out FOLDER -- PROGRAM.",
        )
    losses = tuple(check.remarks.losses)
    return CapturedProgram(run.manifest, ended, done.traces, failure, losses, check if mine else None)


def _write_power(folder: Path, power: PowerWatch | None, records: list[RankRecord]) -> bool:
    """Write the energy of this host's GPUs beside the trace of each of these ranks, which ran on this host.

    Returns whether there was any, or none was asked for.
    """
    return power is None or all(power.write(power_of(folder, record.trace.rank)) for record in records)


def _finish_records(
    run: ProgramRun, records: list[RankRecord], ended: Ended, watched: WatchedGpu = NOT_WATCHED
) -> _Finished:
    """Export the reports of these ranks, several at a time. watched: what was seen of each while it ran."""

    def finish(record: RankRecord) -> tuple[NsysprofError | None, Path, RecordingCheck]:
        rank = record.trace.rank
        report, trace, log = report_of(run.folder, rank), trace_of(run.folder, rank), logs_of(run.folder, rank)[2]
        failure: NsysprofError | None = ToolFailedError(f"Rank {rank} left no report.", f"See {log}.")
        check = RecordingCheck(split_losses(()))
        if report.is_file():
            step, failure, check = export_recording(run, report, trace, log.with_suffix(".export.log"), watched)
            record = replace(record, steps=(*record.steps, step))
        notes = [_of_rank(note, rank) for note in check.remarks.notes]
        if failure is not None:
            notes.append(make_note("rank-without-trace", rank=rank, problem=failure.text, next_step=failure.next_step))
        record = replace(record, notes=(*record.notes, *notes), environment=run.manifest.environment)
        if failure is None and not run.plan.keep_report:
            report.unlink(missing_ok=True)
        record = replace(record, ended=True, interrupted=ended.interrupted is not None)
        write_record(run.folder, with_files(run.folder, record))
        losses = tuple(replace(loss, note=_of_rank(loss.note, rank)) for loss in check.remarks.losses)
        return failure, trace, replace(check, remarks=Remarks(check.remarks.notes, losses))

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        done = list(pool.map(finish, records))
    return _Finished(
        next((failure for failure, _, _ in done if failure), None),
        tuple(trace for failure, trace, _ in done if failure is None),
        tuple(check for _, _, check in done),
    )


@dataclass(frozen=True)
class _Finished:
    """The traces of some ranks.

    failure: why one of them is missing, or None.
    """

    failure: NsysprofError | None
    traces: tuple[Path, ...]
    checks: tuple[RecordingCheck, ...]

    @property
    def losses(self) -> tuple[Loss, ...]:
        return tuple(loss for check in self.checks for loss in check.remarks.losses)


def _check_together(finished: _Finished, watched: WatchedGpu) -> RecordingCheck:
    """Return what the traces of all ranks lost together, and which process of the job is missing from all of them."""
    checks = finished.checks
    recorded = tuple(process for check in checks for process in check.processes)
    lost = [kind for check in checks for kind in check.lost]
    remarks = list(finished.losses)
    replaced = watched.replaced(recorded)
    gone = [missing for missing in watched.missing(recorded) if missing not in replaced]
    if gone:
        remarks.append(make_loss("process-lost", processes=_named(gone)))
        lost.append(Lost.PROCESS)
    if replaced:
        remarks.append(make_loss("process-lost", "replaced", processes=_named(replaced)))
        lost.append(Lost.REPLACED)
    return RecordingCheck(
        split_losses(remarks),
        tuple(dict.fromkeys(lost)),
        kernels=_sum(check.kernels for check in checks),
        launches=_sum(check.launches for check in checks),
        gpu_work=sum(check.gpu_work for check in checks),
        processes=recorded,
        domains=frozenset().union(*(check.domains for check in checks)),
    )


def _named(processes: Sequence[CudaProcess]) -> str:
    names = ", ".join(f"{process.name} ({process.pid})" for process in processes[:_MOST_NAMED])
    return f"{names} and {len(processes) - _MOST_NAMED} more" if len(processes) > _MOST_NAMED else names


def _sum(counts: Iterable[int | None]) -> int | None:
    numbers = list(counts)
    return None if None in numbers else sum(count for count in numbers if count is not None)


def _of_rank(note: Note, rank: int) -> Note:
    return replace(note, text=f"Rank {rank}: {note.text}")


def _await_report(report: Path) -> None:
    """Wait until the report of a killed rank stops growing. nsys runs longer than the rank."""
    deadline, size = time.monotonic() + _FINISH_S, -1
    while time.monotonic() < deadline:
        before, size = size, report.stat().st_size if report.exists() else -1
        if size == before and size > 0:
            return
        time.sleep(_POLL_S)
