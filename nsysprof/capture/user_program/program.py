"""Capture a user's program: one trace, or one per rank, in a folder with everything that belongs to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from nsysprof.capture.environment import collect_machine
from nsysprof.capture.folder import NSYS_REPORT, remove_work
from nsysprof.capture.manifest import NSYS_TRACE, RANGES_ALONE, Program, program_manifest
from nsysprof.capture.measured_process import LOGS, WORK
from nsysprof.capture.power_watch import PowerWatch
from nsysprof.capture.rank import RankIdentity
from nsysprof.capture.self_check.gpu_watch import GpuWatch
from nsysprof.capture.self_check.probe import settle_options
from nsysprof.capture.self_check.record_again import (
    may_run_again,
    record_ranges_alone,
    record_with_less,
    record_without_hook,
    suspect_note,
)
from nsysprof.capture.self_check.reduction import reductions
from nsysprof.capture.self_check.size_watch import MARK as RECORDING
from nsysprof.capture.self_check.size_watch import StopReason
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.program_run import CapturedProgram, Compare, Inspect, ProgramRun, export_recording
from nsysprof.capture.user_program.rank_launch import VARIABLE, RankJob, write_launcher
from nsysprof.capture.user_program.rank_record import (
    RankRecord,
    claim_rank,
    has_all_ranks,
    logs_of,
    power_of,
    report_of,
    trace_of,
    with_files,
    write_record,
)
from nsysprof.capture.user_program.record_program import (
    Say,
    Watchers,
    disk_full_error,
    fork_notes,
    program_environment,
    record_program,
    unsampled,
)
from nsysprof.capture.user_program.streamed import Ended, Streams, run_streamed
from nsysprof.errors import NsysprofError, ToolFailedError
from nsysprof.files.result_folder import remove_path
from nsysprof.notes import Loss, Note, Remarks, make_loss, make_note, split_losses
from nsysprof.nsight.nsys import await_report, gpu_metrics_options, knows_software_trace, merge_options
from nsysprof.nsight.run_tool import Step
from nsysprof.results.checks import NOT_WATCHED, CudaProcess, Lost, MissingSource, RecordingCheck, WatchedGpu
from nsysprof.results.power_samples import POWER_FILE
from nsysprof.units import format_bytes

_LITTLE_SPACE = 2 << 30
_BY_SIGNAL = 128  # if the program was killed, that explains what is missing


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
    """Run the plan's program into the prepared `folder`. Finished parts are always on disk.

    compare: returns what recording cost, from the trace and the one with only ranges.
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
        before = list(manifest.notes)
        if run.plan.per_rank:
            captured = run_launcher(run)
            if identity is None:  # otherwise the launchers of other nodes would have to run again too
                captured = _again_if_lost(run, captured, before, run_launcher)
        elif identity is not None:
            captured = run_rank(run, identity)
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
    """Return whether this process writes the manifest: the first rank, the last one to end, and any that failed do."""
    if identity.rank == 0 or captured.failure is not None or captured.ended.exit_code != 0:
        return True
    return has_all_ranks(run.folder, identity, run.plan)


def _run_alone(run: ProgramRun) -> CapturedProgram:
    """Record the program into one trace; again with fewer options where data was lost and it may run again."""
    notes = list(run.manifest.notes)
    return _again_if_lost(run, record_without_hook(run, _record_alone(run), notes, _record_alone), notes, _record_alone)


def _again_if_lost(
    run: ProgramRun, captured: CapturedProgram, notes: list[Note], record: Callable[[ProgramRun], CapturedProgram]
) -> CapturedProgram:
    """Return the recording, or the best of several with fewer options where it lost data and may be repeated.

    notes: the notes from before the first recording.
    record: records once.
    """
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
        domains=captured.check.domains,
    )
    if not ways or (captured.ended.exit_code or 0) > _BY_SIGNAL:
        return captured
    if not may_run_again(run.plan, captured.ended):
        run.manifest.notes.append(suspect_note(ways[0], run.plan, run.folder))
        return captured
    return record_with_less(run, captured, ways, notes, record)


def _record_alone(run: ProgramRun) -> CapturedProgram:
    """Record the program into one trace."""
    logs = run.folder / LOGS
    report = run.folder / NSYS_REPORT
    watch, power = GpuWatch(run.nsys), PowerWatch() if run.plan.power else None
    with watch, power or contextlib.nullcontext():
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
    run.manifest.notes += [*recorded.notes, *fork_notes(logs / "stderr.log")]
    run.manifest.missing += recorded.missing
    if power is not None and not power.write(run.folder / POWER_FILE):
        run.manifest.notes.append(make_note("no-power"))
    run.manifest.program = Program(run.plan.argv, recorded.ended.exit_code)
    run.save()
    failure: NsysprofError | None = recorded.failure
    traces: tuple[Path, ...] = ()
    check: RecordingCheck | None = None
    if report.is_file():
        trace = run.folder / NSYS_TRACE
        step, failure, check = export_recording(run, report, trace, logs / "export.log", watched)
        run.manifest.steps.append(step)
        run.manifest.notes += check.remarks.notes
        traces = () if failure else (trace,)
    run.manifest.complete = failure is None and recorded.ended.interrupted is None
    if recorded.stopped is StopReason.DISK and failure is None:
        failure = disk_full_error()
    losses = () if check is None else check.remarks.losses
    return CapturedProgram(run.manifest, recorded.ended, traces, failure, losses, check, watched.processes)


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
    with contextlib.suppress(OSError):  # it is not empty, or was already removed
        work.rmdir()


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
            await_report(report_of(run.folder, record.trace.rank))
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
