"""Capture a program of the user's: one trace, or one per rank, in a folder with everything that belongs to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from nsysprof.capture.folder import NSYS_REPORT, remove_work
from nsysprof.capture.machine import collect_machine
from nsysprof.capture.manifest import MANIFEST, NSYS_TRACE, Manifest, Program, write_manifest
from nsysprof.capture.measured_process import LOGS, WORK
from nsysprof.capture.rank import RankIdentity, job_token
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.rank_launch import VARIABLE, RankJob, write_launcher
from nsysprof.capture.user_program.rank_record import (
    RankRecord,
    claim_rank,
    has_all_ranks,
    logs_of,
    merge_manifest,
    read_records,
    report_of,
    trace_of,
    with_files,
    write_record,
)
from nsysprof.capture.user_program.record_program import Say, Watchers, program_environment, record_program, unsampled
from nsysprof.capture.user_program.streamed import Ended, Streams, run_streamed
from nsysprof.errors import NsysprofError, ToolFailedError
from nsysprof.files.result_folder import remove_path
from nsysprof.notes import Loss, Note, Remarks, make_note, split_losses
from nsysprof.nsight.nsys import gpu_metrics_options, run_export
from nsysprof.nsight.run_tool import Step
from nsysprof.results.missing_source import MissingSource
from nsysprof.units import format_bytes

_LITTLE_SPACE = 2 << 30
_FINISH_S = 120.0  # how long nsys may write the report of a worker that the launcher killed
_POLL_S = 0.5

Inspect = Callable[[Path], Remarks]


@dataclass(frozen=True)
class CapturedProgram:
    """A finished capture."""

    manifest: Manifest
    ended: Ended
    # The traces that this process exported.
    traces: tuple[Path, ...]
    # Why one of the traces, or all, are missing; None when all are there.
    failure: NsysprofError | None
    # What the traces lack.
    losses: tuple[Loss, ...] = ()


@dataclass
class ProgramRun:
    """A capture of a program while it runs."""

    plan: ProgramPlan
    folder: Path
    nsys: Path
    # The rank of this process, where the job starts nsysprof once per rank or node; None where it runs alone.
    identity: RankIdentity | None
    watchers: Watchers
    say: Say
    # Looks into a finished trace and returns notes for the reader.
    inspect: Inspect
    manifest: Manifest
    metrics: tuple[str, ...] = ()

    @property
    def job(self) -> str:
        return job_token(os.environ, list(self.plan.argv), self.identity.world_size if self.identity else 1)

    @property
    def starter(self) -> int:
        return self.identity.rank if self.identity else 0

    @property
    def records(self) -> list[RankRecord]:
        """Return the records of this job, by rank."""
        return [record for record in read_records(self.folder) if record.job == self.job]

    def save(self) -> Manifest:
        """Write the manifest, with what the other ranks have left in the folder by now, and return it."""
        records = self.records
        manifest = merge_manifest(self.manifest, records, self.plan.ranks) if records else self.manifest
        # Written in a folder of its own first, because other ranks may be writing theirs.
        own = self.folder / WORK / f"manifest-{self.starter}"
        own.mkdir(parents=True, exist_ok=True)
        write_manifest(own, manifest)
        (own / MANIFEST).replace(self.folder / MANIFEST)
        shutil.rmtree(own, ignore_errors=True)
        return manifest


def run_program_capture(
    plan: ProgramPlan,
    folder: Path,
    *,
    nsys: Path,
    identity: RankIdentity | None,
    watchers: Watchers,
    say: Say,
    inspect: Inspect,
) -> CapturedProgram:
    """Run the plan's program into the prepared `folder`. Everything finished is on disk at every moment."""
    manifest = Manifest(
        cases=(),
        range_keys=(),
        profiler="nsys",
        traced_calls=0,
        method="",
        created_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        program=Program(plan.argv),
    )
    run = ProgramRun(plan, folder, nsys, identity, watchers, say, inspect, manifest)
    try:
        manifest.environment = collect_machine(nsys)
        manifest.notes += _space_notes(folder)
        _settle_metrics(run)
        if identity is None or identity.rank == 0:
            run.save()
        if plan.per_rank:
            captured = _run_launcher(run)
        elif identity is not None:
            captured = _run_rank(run, identity)
        else:
            captured = _run_alone(run)
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
    logs = run.folder / LOGS
    report = run.folder / NSYS_REPORT
    recorded = record_program(
        run.plan,
        run.nsys,
        report,
        (logs / "stdout.log", logs / "stderr.log", logs / "nsys.log"),
        run.watchers,
        metrics=run.metrics,
        environment=program_environment(),
        say=run.say,
    )
    run.manifest.steps += recorded.steps
    run.manifest.notes += recorded.notes
    run.manifest.missing += recorded.missing
    run.manifest.program = Program(run.plan.argv, recorded.ended.exit_code)
    run.save()
    failure: NsysprofError | None = recorded.failure
    traces: tuple[Path, ...] = ()
    found = split_losses(())
    if report.is_file():
        trace = run.folder / NSYS_TRACE
        step, failure, found = _export(run, report, trace, logs / "export.log")
        run.manifest.steps.append(step)
        run.manifest.notes += found.notes
        traces = () if failure else (trace,)
    run.manifest.complete = failure is None and recorded.ended.interrupted is None
    return CapturedProgram(run.manifest, recorded.ended, traces, failure, found.losses)


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
            step, failure, found = _export(run, report, trace, log.with_suffix(".export.log"))
            record = replace(record, steps=(*record.steps, step))
        notes = [_of_rank(note, rank) for note in found.notes]
        if failure is not None:
            notes.append(make_note("rank-without-trace", rank=rank, problem=failure.text, next_step=failure.next_step))
        record = replace(record, notes=(*record.notes, *notes), environment=run.manifest.environment)
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


def _export(run: ProgramRun, report: Path, trace: Path, log: Path) -> tuple[Step, NsysprofError | None, Remarks]:
    run.say(f"export {report.name}")
    step, refused = run_export(run.nsys, report, trace, log=log)
    if refused is not None:
        return step, refused, split_losses(())
    try:
        return step, None, run.inspect(trace)
    except NsysprofError as error:
        return step, error, split_losses(())


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
