"""Capture a user's program: one trace, or one per rank, in a folder with everything that belongs to it."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
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
from nsysprof.capture.self_check.size_watch import StopReason
from nsysprof.capture.user_program.launched_ranks import run_launcher, run_rank
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.program_run import CapturedProgram, Compare, Inspect, ProgramRun, export_recording
from nsysprof.capture.user_program.rank_record import has_all_ranks
from nsysprof.capture.user_program.record_program import (
    Say,
    Watchers,
    disk_full_error,
    fork_notes,
    program_environment,
    record_program,
    unsampled,
)
from nsysprof.errors import NsysprofError
from nsysprof.files.result_folder import remove_path
from nsysprof.notes import Note, make_note
from nsysprof.nsight.nsys import gpu_metrics_options, knows_software_trace, merge_options
from nsysprof.results.checks import MissingSource, RecordingCheck
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
