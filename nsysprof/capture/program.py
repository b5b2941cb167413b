"""A capture of a program of the user's: one trace, or one a rank, in a folder with everything that belongs to it."""

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
from typing import Any

from nsysprof.capture.find_nsys import nsys_version
from nsysprof.capture.folder import LOGS, NSYS_REPORT, WORK, remove_path, remove_work
from nsysprof.capture.manifest import MANIFEST, NSYS_TRACE, Manifest, Program, Step, write_manifest
from nsysprof.capture.nsys import export_sqlite, gpu_metrics_options
from nsysprof.capture.program_plan import ProgramPlan
from nsysprof.capture.rank import RankIdentity, job_token
from nsysprof.capture.rank_launch import VARIABLE, RankJob, write_launcher
from nsysprof.capture.rank_record import (
    RankRecord,
    claim_rank,
    count_ended,
    logs_of,
    merge_manifest,
    read_records,
    report_of,
    trace_of,
    with_files,
    write_record,
)
from nsysprof.capture.record_program import Say, Watchers, program_environment, record_program, unsampled
from nsysprof.capture.streamed import Ended, Streams, run_streamed
from nsysprof.environment import collect_gpus, collect_host, comparable_hash
from nsysprof.errors import NsysprofError, ToolFailedError
from nsysprof.notes import Note, Severity
from nsysprof.units import format_bytes

_LITTLE_SPACE = 2 << 30
_FINISH_S = 120.0  # for nsys of a worker that the launcher killed while the report was being written
_POLL_S = 0.5

Inspect = Callable[[Path], list[Note]]


@dataclass(frozen=True)
class CapturedProgram:
    """A finished capture.

    traces: those that this process exported. failure: why one of them, or all, are missing. notes: what was found in
    them.
    """

    manifest: Manifest
    ended: Ended
    traces: tuple[Path, ...]
    failure: NsysprofError | None
    notes: tuple[Note, ...] = ()


@dataclass
class ProgramRun:
    """A capture of a program while it runs.

    identity: of this process, where the job starts nsysprof several times, once a rank or once a node. Alone otherwise.
    inspect: looks into a finished trace.
    """

    plan: ProgramPlan
    folder: Path
    nsys: Path
    identity: RankIdentity | None
    watchers: Watchers
    say: Say
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
        """Of this job, by rank."""
        return [record for record in read_records(self.folder) if record.job == self.job]

    def save(self) -> Manifest:
        """Write the manifest, with what the other ranks have left in the folder by now."""
        records = self.records
        manifest = merge_manifest(self.manifest, records, self.plan.ranks) if records else self.manifest
        # Through a folder of its own: others may be writing theirs.
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
    """Run the plan's program into the prepared `folder`; everything finished is on disk at every moment."""
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
        manifest.environment = _environment(nsys)
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
    """Whether this process of several writes the manifest: the first, the last, and any that failed."""
    if identity.rank == 0 or captured.failure is not None or captured.ended.exit_code != 0:
        return True
    own = sum(record.starter == run.starter for record in run.records) if run.plan.per_rank else 1
    expected = len(run.plan.ranks) or (identity.world_size * own)
    return count_ended(run.folder) >= expected


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
    run.manifest.program = Program(run.plan.argv, recorded.ended.exit_code)
    run.save()
    failure: NsysprofError | None = recorded.failure
    traces: tuple[Path, ...] = ()
    notes: list[Note] = []
    if report.is_file():
        trace = run.folder / NSYS_TRACE
        step, failure, notes = _export(run, report, trace, logs / "export.log")
        run.manifest.steps.append(step)
        run.manifest.notes += notes
        traces = () if failure else (trace,)
    run.manifest.complete = failure is None and recorded.ended.interrupted is None
    return CapturedProgram(run.manifest, recorded.ended, traces, failure, tuple(notes))


def _run_rank(run: ProgramRun, identity: RankIdentity) -> CapturedProgram:
    """This process is a rank: record it, export it, and let the manifest tell of all that are there by now."""
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
    record = replace(record, recorded=True, steps=recorded.steps, notes=recorded.notes)
    write_record(run.folder, with_files(run.folder, record))
    failure, traces, notes = _finish_records(run, [record], recorded.ended)
    run.manifest.complete = recorded.ended.interrupted is None
    return CapturedProgram(run.manifest, recorded.ended, traces, recorded.failure or failure, notes)


def _run_launcher(run: ProgramRun) -> CapturedProgram:
    """The program is torch's launcher, or starts it: its workers run under nsys, each by itself."""
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
    failure, traces, notes = _finish_records(run, mine, ended)
    run.manifest.complete = ended.interrupted is None
    if not mine and not ended.refused and ended.interrupted is None:
        failure = ToolFailedError(
            "The program started no worker through torch's launcher, so nothing was recorded.",
            "Leave out --per-rank for one trace of all, or start nsysprof once a rank: LAUNCHER nsysprof capture --out "
            "FOLDER -- PROGRAM.",
        )
    return CapturedProgram(run.manifest, ended, traces, failure, notes)


def _finish_records(
    run: ProgramRun, records: list[RankRecord], ended: Ended
) -> tuple[NsysprofError | None, tuple[Path, ...], tuple[Note, ...]]:
    """Export the reports of these ranks, several at a time; the first failure, the traces, and what is in them."""

    def finish(record: RankRecord) -> tuple[NsysprofError | None, Path, list[Note]]:
        rank = record.trace.rank
        report, trace, log = report_of(run.folder, rank), trace_of(run.folder, rank), logs_of(run.folder, rank)[2]
        failure: NsysprofError | None = ToolFailedError(f"Rank {rank} left no report.", f"See {log}.")
        notes: list[Note] = []
        if report.is_file():
            step, failure, notes = _export(run, report, trace, log.with_suffix(".export.log"))
            record = replace(record, steps=(*record.steps, step))
        notes = [replace(note, text=f"Rank {rank}: {note.text}") for note in notes]
        if failure is not None:
            text = f"Rank {rank} has no trace: {failure.text}"
            notes.append(Note("rank-without-trace", Severity.WARNING, text, failure.next_step))
        record = replace(record, notes=(*record.notes, *notes), environment=run.manifest.environment)
        record = replace(record, ended=True, interrupted=ended.interrupted is not None)
        write_record(run.folder, with_files(run.folder, record))
        return failure, trace, notes

    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        done = list(pool.map(finish, records))
    return (
        next((failure for failure, _, _ in done if failure), None),
        tuple(trace for failure, trace, _ in done if failure is None),
        tuple(note for _, _, notes in done for note in notes),
    )


def _export(run: ProgramRun, report: Path, trace: Path, log: Path) -> tuple[Step, NsysprofError | None, list[Note]]:
    run.say(f"export {report.name}")
    started = time.monotonic_ns()
    argv: list[str] = []
    code, failure, notes = None, None, []
    try:
        argv, code = export_sqlite(run.nsys, report, trace, log)
        notes = run.inspect(trace)
    except NsysprofError as error:
        failure = error
    return Step("export", tuple(argv), code, time.monotonic_ns() - started), failure, notes


def _await_report(report: Path) -> None:
    """Wait until a report whose rank was killed stops growing; nsys outlives it."""
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
        run.manifest.notes.append(unsampled(why))


def _environment(nsys: Path) -> dict[str, Any]:
    """What can be known from outside the program; its torch and CUDA cannot."""
    gpus = collect_gpus()
    environment = {
        **collect_host(),
        "gpu_name": ", ".join(sorted({gpu["name"] for gpu in gpus})) or None,
        "gpu_count": len(gpus),
        "driver_version": gpus[0]["driver_version"] if gpus else None,
        "nsys_version": nsys_version(nsys),
    }
    return {**environment, "comparable_hash": comparable_hash(environment)}


def _space_notes(folder: Path) -> list[Note]:
    """nsys collects in TMPDIR and writes into the folder; a full disk there costs the recording."""
    notes = []
    for place, what in ((Path(tempfile.gettempdir()), "TMPDIR"), (folder, "the capture folder")):
        free = shutil.disk_usage(place).free
        if free < _LITTLE_SPACE:
            text = f"Only {format_bytes(free)} are free in {what}; long recordings take more."
            notes.append(Note("little-space", Severity.WARNING, text, "Free some space, or set TMPDIR or --out."))
    return notes


def _remove_own_work(run: ProgramRun) -> None:
    """Other ranks may still need theirs."""
    work = run.folder / WORK
    if run.identity is None:
        remove_work(run.folder)
        return
    for path in work.glob(f"*-{run.starter}"):
        remove_path(path)
    with contextlib.suppress(OSError):  # not empty, or gone already
        work.rmdir()
