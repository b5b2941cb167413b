"""Run the use case `capture --hold`: keep a program under nsys, and record parts of it on request."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from nsysprof.app.inputs.options import MOST_KEPT_PARTS
from nsysprof.app.measuring.capture_program import plan_program_capture
from nsysprof.app.measuring.program_request import ProgramRequest, RecordRequest
from nsysprof.app.measuring.record import record_held, record_windows
from nsysprof.app.progress import SILENT, Progress
from nsysprof.capture.folder import prepare_folder
from nsysprof.capture.live.held_program import HeldProgram
from nsysprof.capture.live.run_held import run_held
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.record_program import own_watchers
from nsysprof.capture.user_program.streamed import Ended
from nsysprof.errors import InterruptedCaptureError, NsysprofError, ToolFailedError, UsageError
from nsysprof.files.folder_state import CAPTURE
from nsysprof.files.result_folder import claim_folder
from nsysprof.nsight.nsys import launch_argv
from nsysprof.results.recorded_part import RecordResult

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
    _check(request)
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
            f"{planned.folder} --seconds 10, or kill -USR1 {os.getpid()}"
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


def _check(request: ProgramRequest) -> None:
    wrong = {
        "--per-rank": request.per_rank,
        "--ranks": bool(request.ranks),
        "--capture-range": request.capture_range != "none",
        "--delay": bool(request.delay_s),
        "--end-program": request.end_program,
        "--memory": request.memory,
        "--stacks": request.stacks,
        "--operators": request.operators,
        "--layers": request.layers,
        "--attention": request.attention,
        "--power": request.power,
        "--gpu-metrics": bool(request.gpu_metrics_hz),
        "--force": request.force,
        f"--profiler {request.profiler}": request.profiler in ("torch", "cupti"),
        "--optimizer-steps": bool(request.steps or request.skip_steps),
        "--forward-steps": bool(request.forward_steps),
    }
    for option, given in wrong.items():
        if given:
            raise UsageError(
                f"{option} does not work with --hold and --keep.",
                "Leave it out: the options of nsysprof record control what is recorded.",
            )
    if not 0 <= request.keep <= MOST_KEPT_PARTS:
        raise UsageError(f"--keep {request.keep} is out of range.", f"Give 1 to {MOST_KEPT_PARTS}.")
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
