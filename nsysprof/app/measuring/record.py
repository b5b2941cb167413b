"""Run the use cases `capture --hold` and `record`: keep a program under nsys, and record parts of it on request."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nsysprof.analysis.overview.recording_cost import compare_walls, cost_of
from nsysprof.analysis.overview.self_check import inspect_recording
from nsysprof.analysis.sampling.latency import compare_windows, summarize_window
from nsysprof.app.inputs.options import given_options
from nsysprof.app.measuring.capture_program import plan_program_capture, split_trace
from nsysprof.app.measuring.program_request import ProgramRequest, RecordRequest
from nsysprof.app.progress import SILENT, Progress
from nsysprof.app.trace_analysis.join_recorded import cost_notes
from nsysprof.capture.folder import NSYS_REPORT, prepare_folder
from nsysprof.capture.live.held_program import HeldProgram, find_held
from nsysprof.capture.live.process_tree import SeenProcess
from nsysprof.capture.live.record_part import RecordedPart, Until, record_part, stop_killed
from nsysprof.capture.live.run_held import run_held
from nsysprof.capture.live.step_sources import OutputSteps, StepCounter, TorchSteps
from nsysprof.capture.measured_process import LOGS
from nsysprof.capture.self_check.size_watch import StopReason
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.record_program import disk_full_error, own_watchers
from nsysprof.capture.user_program.streamed import Ended
from nsysprof.errors import (
    DataLossError,
    InterruptedCaptureError,
    NsysprofError,
    OutputError,
    ToolFailedError,
    UsageError,
)
from nsysprof.files.folder_lock import hold_lock
from nsysprof.files.folder_state import CAPTURE, read_state
from nsysprof.files.plain_file import encode_json, output_error, write_whole
from nsysprof.files.result_folder import claim_folder, remove_path
from nsysprof.notes import Note, Remarks, make_note
from nsysprof.nsight.nsys import launch_argv
from nsysprof.results.analysis import COSTS, STEPS, RecordingCosts
from nsysprof.results.recorded_part import LatencyWindows, ProcessPart, RecordResult
from nsysprof.trace.open import open_trace
from nsysprof.trace.recorded import ProcessEvents, count_by_process, read_recorded

__all__ = ["RecordRequest", "RecordResult", "record", "record_held"]

_NO_STEPS = "the program's steps are unknown"


def record(
    request: RecordRequest, progress: Progress = SILENT, *, is_held: Callable[[], bool] | None = None
) -> RecordResult:
    """Record a part of a held program into its folder, and compare its step times before, during and after.

    is_held: says whether the program still runs; None: as long as its holder does.
    """
    _check(request)
    return record_held(find_held(request.folder), request, progress, is_held=is_held)


def record_held(
    held: HeldProgram, request: RecordRequest, progress: Progress, *, is_held: Callable[[], bool] | None = None
) -> RecordResult:
    """Record a part of a held program, as `record` does, where the program is already known."""
    source = _source(held, request)
    if request.steps is not None and source is None:
        raise UsageError(
            "--steps needs to know when a step ends, and that is unknown: no process of the program imported torch.",
            "Give --step-pattern to find steps in the program's output, or give --duration.",
        )
    root = Path(held.folder)
    try:
        lock = hold_lock(root / "recording")
        with lock:
            if stop_killed(held):
                progress.tell("an earlier recording was killed, and nsys still recorded: it is stopped")
            folder = _next_folder(root)
            with claim_folder(folder, CAPTURE, force=False) as claimed:
                prepare_folder(claimed.path)
                with contextlib.nullcontext() if source is None else source.on():
                    part = record_part(
                        held,
                        claimed.path,
                        Until(request.seconds, request.steps, request.max_bytes),
                        source=source,
                        watch_s=request.watch_s,
                        say=progress.say,
                        inspect=_inspect,
                        is_held=is_held,
                    )
                processes, notes, failure = _by_process(part)
                notes += _keep_costs(part)
                if part.trace is not None and not request.keep_report:
                    (claimed.path / NSYS_REPORT).unlink(missing_ok=True)
                claimed.commit()
    except OutputError as error:
        if "Another run" in error.text:
            raise OutputError("Another recording of this program is running.", "Wait until it ends.") from error
        raise
    return _result(part, folder, source, processes, notes, failure)


def _check(request: RecordRequest) -> None:
    if request.seconds is None and request.steps is None and not request.max_bytes:
        raise UsageError(
            "How long to record was not given.",
            "Give --duration 10, --steps 50, or --max-recording 500.",
        )


def _source(held: HeldProgram, request: RecordRequest) -> StepCounter | None:
    logs = Path(held.folder) / LOGS
    if not request.step_pattern:
        steps = TorchSteps(Path(held.folder))
        is_wanted = request.steps is not None or request.watch_s > 0
        return steps if is_wanted and steps.is_there else None
    return OutputSteps((logs / "stdout.log", logs / "stderr.log"), request.step_pattern)


def _next_folder(root: Path) -> Path:
    """Return the folder of the next recording. Those go in which a killed one recorded nothing."""
    try:
        for path in root.glob("recording-*"):
            state = read_state(path)
            if state is not None and not state.get("whole") and not (path / NSYS_REPORT).exists():
                shutil.rmtree(path)
        names = [re.fullmatch(r"recording-(\d{1,9})", path.name) for path in root.iterdir()]
    except OSError as error:
        raise output_error(root, error) from error
    return root / f"recording-{max((int(name[1]) for name in names if name), default=0) + 1}"


def _inspect(trace_path: Path) -> Remarks:
    """Return what a trace says about its own recording."""
    with open_trace(trace_path) as trace:
        return inspect_recording(read_recorded(trace))


def _by_process(part: RecordedPart) -> tuple[list[ProcessPart], list[Note], NsysprofError | None]:
    """Return each process with its events.

    Where several processes have GPU work, each also gets its own trace file.
    """
    events: dict[int, ProcessEvents] = {}
    if part.trace is not None:
        with open_trace(part.trace) as trace:
            events = count_by_process(trace)
    seen = {each.pid: each for each in part.processes}
    with_work = [pid for pid, each in events.items() if each.has_gpu_work] or [*events]
    traces: dict[int, Path] = {}
    if part.trace is not None and len(with_work) > 1:
        names = {pid: seen[pid].name if pid in seen else "" for pid in with_work}
        try:
            traces = split_trace(part.trace, part.folder, names)
        except NsysprofError as error:
            return _rows(seen, events, traces), [], error
    rows = _rows(seen, events, traces)
    return (
        rows,
        [make_note("process-not-seen", name=_title(row), reason=row.unseen) for row in rows if row.unseen],
        None,
    )


def _keep_costs(part: RecordedPart) -> list[Note]:
    """Write what recording cost into the recording's folder, by range or else by step, and return the notes on it."""
    costs = compare_walls(part.ranges.recorded, part.ranges.plain, in_one_run=True)
    if not costs:
        before, recorded, after = (
            [step.duration_ns for step in steps if step.duration_ns is not None]
            for steps in (part.before, part.during, part.after)
        )
        of_steps = cost_of(STEPS, [*before, *after], recorded, before=len(before))
        costs = (of_steps,) if of_steps else ()
    if not costs or part.trace is None:
        return []
    write_whole(part.folder / COSTS, encode_json(RecordingCosts(1, costs)))
    return cost_notes(costs, in_one_run=True)


def _rows(seen: dict[int, SeenProcess], events: dict[int, ProcessEvents], traces: dict[int, Path]) -> list[ProcessPart]:
    rows = []
    for pid in sorted({*seen, *events}):
        process, found = seen.get(pid), events.get(pid, ProcessEvents())
        rows.append(
            ProcessPart(
                pid=pid,
                parent_pid=process.parent_pid if process else None,
                name=process.name if process else "ended during the recording",
                command=process.command if process else "",
                kernels=found.kernels,
                graphs=found.graphs,
                copies=found.copies,
                fills=found.fills,
                calls=found.calls,
                ranges=found.ranges,
                unseen="" if process is None or pid in events else _why_unseen(process, seen),
                trace=traces.get(pid),
            )
        )
    return rows


def _why_unseen(process: SeenProcess, seen: dict[int, SeenProcess]) -> str:
    """Return why a process that might have events has none; empty where no explanation is needed."""
    parent = seen.get(process.parent_pid)
    if process.is_forked:
        follow = "hold the program with --nsys-option=--trace-fork-before-exec=true to see it"
        if parent is not None and parent.uses_gpu and process.uses_gpu:
            return (
                "it was forked without executing a program. If its parent had already initialised CUDA, it cannot use "
                "the GPU (this is true of every program): start workers with spawn instead. Otherwise nsys did not "
                f"follow it: {follow}."
            )
        return f"it was forked without executing a program, and nsys does not follow such processes: {follow}."
    if process.uses_gpu and not process.has_nsys:
        return "it uses the GPU, but nsys is not loaded in it, because it was started with another environment."
    return ""


def _title(row: ProcessPart) -> str:
    return f"{row.name} ({row.pid})"


def _result(
    part: RecordedPart,
    folder: Path,
    source: StepCounter | None,
    processes: list[ProcessPart],
    notes: list[Note],
    failure: NsysprofError | None,
) -> RecordResult:
    failure = part.failure or failure
    if failure is None and part.stopped is StopReason.DISK:
        failure = disk_full_error()
    if failure is None and part.losses:
        failure = DataLossError(part.losses[0].note.text, part.losses[0].note.next_step)
    if failure is None and part.is_interrupted:
        failure = InterruptedCaptureError("Interrupted; what was recorded is kept.", f"It is in {folder}.")
    if failure is None and not part.survived:
        failure = ToolFailedError(
            "The program ended during the recording.", f"What was recorded is in {folder}; see the program's logs."
        )
    if failure is None and not part.is_full:
        failure = ToolFailedError(
            f"Only {len(part.during)} of the steps ended in {part.during_ns / 1e9:.0f} s.",
            f"They are recorded in {folder}.",
        )
    manifest_notes = part.manifest.notes if part.manifest else []
    return RecordResult(
        folder=folder,
        duration_ns=part.during_ns,
        steps=len(part.during) if source is not None else None,
        start_ns=part.start_ns,
        stop_ns=part.stop_ns,
        survived=part.survived,
        latency=_latency(part, source),
        processes=tuple(processes),
        notes=(*manifest_notes, *notes),
        failure=failure,
    )


def _latency(part: RecordedPart, source: StepCounter | None) -> LatencyWindows:
    if source is None:
        return LatencyWindows("", f"{_NO_STEPS}: give --step-pattern.")
    windows = [
        summarize_window([step.duration_ns for step in steps], wall_ns) if wall_ns else None
        for steps, wall_ns in (
            (part.before, part.before_ns),
            (part.during, part.during_ns),
            (part.after, part.after_ns),
        )
    ]
    return compare_windows(source.told_by, *windows)


def record_windows(
    request: RecordRequest,
    keep: int,
    show: Callable[[RecordResult], None],
    progress: Progress = SILENT,
    *,
    is_held: Callable[[], bool] | None = None,
) -> NsysprofError | None:
    """Record until the program or the user (Ctrl-C) ends it, and return what went wrong, or None.

    keep: how many of the parts are kept; older parts of this call are deleted.
    show: called with each part once it is recorded.
    is_held: says whether the program still runs; None: as long as its holder does.
    """
    if request.watch_s:
        # the parts follow each other without a pause, so there are no unrecorded steps to compare with
        request = replace(request, watch_s=0.0)
    kept: deque[Path] = deque()
    lost: NsysprofError | None = None
    while True:
        try:
            result = record(request, progress, is_held=is_held)
        except KeyboardInterrupt:  # between two parts
            return lost
        kept.append(result.folder)
        if len(kept) > keep:
            _delete(kept.popleft())
        show(result)
        if isinstance(result.failure, DataLossError):
            lost = lost or result.failure
        elif isinstance(result.failure, InterruptedCaptureError) or not result.survived:
            return lost
        elif result.failure is not None:
            return result.failure


def _delete(folder: Path) -> None:
    try:
        remove_path(folder)
    except OSError as error:
        raise output_error(folder, error) from error


_SIGNALLED_S = 10  # the length (s) of a recording that a signal requested, unless --duration is given


@dataclass(frozen=True)
class PlannedHold:
    """How a program will be held."""

    plan: ProgramPlan
    folder: Path
    nsys: Path
    nsys_argv: tuple[str, ...]


@dataclass(frozen=True)
class HoldResult:
    """How a held program ended, and the recordings of it."""

    folder: Path
    exit_code: int | None
    interrupted: int | None
    recordings: tuple[Path, ...]
    failure: NsysprofError | None


def plan_hold(request: ProgramRequest) -> PlannedHold:
    """Return how the program would be held. Raises UsageError for contradictory options."""
    _check_program(request)
    planned = plan_program_capture(replace(request, profiler="nsys"))
    assert planned.nsys is not None
    if planned.identity is not None:
        raise UsageError(
            "--hold works with a single program, and this process is one rank of a job.",
            "Hold the launcher: nsysprof capture --hold -- LAUNCHER.",
        )
    argv = launch_argv(planned.nsys, "SESSION", list(planned.plan.argv), planned.plan.session_options)
    return PlannedHold(planned.plan, planned.folder, planned.nsys, tuple(argv))


def hold_program(request: ProgramRequest, progress: Progress = SILENT) -> HoldResult:
    """Run the program under nsys until it ends, and record a part whenever `record` or SIGUSR1 requests it."""
    planned = plan_hold(request)
    with claim_folder(planned.folder, CAPTURE, force=False) as claimed:
        ended, lost = _run(planned, request, claimed.path, progress)
        claimed.commit()
    recordings = tuple(sorted(planned.folder.glob("recording-*"), key=lambda path: int(path.name.rpartition("-")[2])))
    failure = _failure(ended, planned.folder) or lost
    return HoldResult(planned.folder, ended.exit_code, ended.interrupted, recordings, failure)


def _run(
    planned: PlannedHold, request: ProgramRequest, folder: Path, progress: Progress
) -> tuple[Ended, NsysprofError | None]:
    """Return how the program ended, and what went wrong with its parts where it is recorded part after part."""
    prepare_folder(folder)
    recorder = _Recorder(planned.plan, request.keep, progress)

    def announce(held: HeldProgram) -> None:
        recorder.held = held
        if request.keep:
            progress.tell(f"the program runs and is recorded part after part; the last {request.keep} are kept")
            recorder.begin()
            return
        progress.tell(
            f"the program runs and is not recorded (process {held.program_pid}); record a part of it: nsysprof record "
            f"{planned.folder} --duration 10, or kill -USR1 {os.getpid()}"
        )

    ended = run_held(
        planned.plan,
        folder,
        planned.nsys,
        own_watchers(quiet_stdout=request.stdout_to_stderr),
        announce=announce,
        on_signal={signal.SIGUSR1: recorder.begin},
        say=progress.tell,
    )
    recorder.join()
    return ended, recorder.failure


class _Recorder:
    """Records parts in a thread, so that the program's output is shown meanwhile: when a signal requests it, or always.

    keep: how many parts to keep of those that follow each other; 0: record when a signal asks.
    """

    def __init__(self, plan: ProgramPlan, keep: int, progress: Progress) -> None:
        self.held: HeldProgram | None = None
        # What went wrong with parts that follow each other.
        self.failure: NsysprofError | None = None
        self._plan, self._keep, self._progress = plan, keep, progress
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()

    def begin(self) -> None:
        if self.held is None:
            self._progress.tell("the program has not started yet: no recording")
        elif self._thread is not None and self._thread.is_alive():
            self._progress.tell("a recording is running already: the signal was ignored")
        else:
            target = self._record_all if self._keep else self._record
            self._thread = threading.Thread(target=target, args=(self.held,), name="recording")
            self._thread.start()

    def join(self) -> None:
        """Wait for a recording that is still running after the program has ended."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def _record(self, held: HeldProgram) -> None:
        seconds = self._plan.duration_s or _SIGNALLED_S
        self._progress.tell(f"SIGUSR1: record {seconds} s")
        try:
            result = record_held(held, self._request(held, float(seconds)), SILENT, is_held=self._is_held)
        except NsysprofError as error:
            self._progress.tell(f"nothing was recorded: {error.text} -> {error.next_step}")
            return
        if result.failure is not None:
            self._progress.tell(f"{result.failure.text} -> {result.failure.next_step}")
        self._progress.tell(f"recording in {result.folder}; next: nsysprof analyze {result.folder}")

    def _record_all(self, held: HeldProgram) -> None:

        def show(result: RecordResult) -> None:
            self._progress.tell(f"recorded {result.duration_ns / 1e9:.1f} s in {result.folder}")

        request = self._request(held, float(self._plan.duration_s) or None)
        try:
            self.failure = record_windows(request, self._keep, show, SILENT, is_held=self._is_held)
        except NsysprofError as error:
            if self._is_held():  # otherwise the program ended between two parts
                self.failure = error
        if self.failure is not None and self._is_held():
            self._progress.tell(f"recording has ended, the program goes on: {self.failure.text}")

    def _request(self, held: HeldProgram, seconds: float | None) -> RecordRequest:
        plan = self._plan
        return RecordRequest(
            Path(held.folder), seconds, watch_s=0.0, max_bytes=plan.max_bytes, keep_report=plan.keep_report
        )

    def _is_held(self) -> bool:
        return not self._is_over.is_set()


def _check_program(request: ProgramRequest) -> None:
    given = given_options(
        request, "per_rank", "ranks", "capture_range", "delay_s", "end_program", "memory", "stacks", "operators",
        "layers", "attention", "power", "gpu_metrics", "force", "steps", "skip_steps", "forward_steps",
    )  # fmt: skip
    given += ["--profiler torch"] * (request.profiler == "torch")
    if given:
        raise UsageError(
            f"{given[0]} does not work with --hold and --keep.",
            "Leave it out: the options of nsysprof record control what is recorded.",
        )
    if request.keep and not request.duration_s and not request.max_bytes:
        raise UsageError(
            "--keep needs to know how long a part is.", "Give --duration 30 (seconds), or --max-recording 500 (MB)."
        )


def _failure(ended: Ended, folder: Path) -> NsysprofError | None:
    if ended.refused:
        return UsageError(f"The program could not be started: {ended.refused}.", "Check that it is executable.")
    if ended.interrupted is not None:
        return InterruptedCaptureError("Interrupted; the recordings are kept.", f"They are in {folder}.")
    if ended.exit_code is None:
        return ToolFailedError(
            "nsys could not start the program.", f"{folder / 'logs' / 'nsys.log'} says why; nsysprof doctor checks it."
        )
    return None
