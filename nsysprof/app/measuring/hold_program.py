"""Run the use case `capture --hold`: keep a program under nsys, and record parts of it on request."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.app.progress import SILENT, Progress
from nsysprof.errors import InterruptedCaptureError, NsysprofError, ToolFailedError, UsageError
from nsysprof.files.folder_kinds import CAPTURE
from nsysprof.files.result_folder import claim_folder

if TYPE_CHECKING:
    from nsysprof.app.measuring.program_request import ProgramRequest
    from nsysprof.capture.live.held_program import HeldProgram
    from nsysprof.capture.user_program.program_plan import ProgramPlan
    from nsysprof.capture.user_program.streamed import Ended

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
    from nsysprof.app.measuring.capture_program import plan_program_capture
    from nsysprof.nsight.nsys_session import launch_argv

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
        ended = _run(planned, request, claimed.path, progress)
        claimed.commit()
    recordings = tuple(sorted(planned.folder.glob("recording-*"), key=lambda path: int(path.name.rpartition("-")[2])))
    failure = _failure(ended, planned.folder)
    return HoldResult(planned.folder, ended.exit_code, ended.interrupted, recordings, failure)


def _run(planned: PlannedHold, request: ProgramRequest, folder: Path, progress: Progress) -> Ended:
    from nsysprof.capture.folder import prepare_folder
    from nsysprof.capture.live.run_held import run_held
    from nsysprof.capture.user_program.record_program import own_watchers

    prepare_folder(folder)
    seconds = float(planned.plan.duration_s or _SIGNALLED_S)
    recorder = _Recorder(seconds, progress)

    def announce(held: HeldProgram) -> None:
        recorder.held = held
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
    return ended


class _Recorder:
    """Records a part in a thread when a signal requests it, so that the program's output is shown meanwhile."""

    def __init__(self, seconds: float, progress: Progress) -> None:
        self.held: HeldProgram | None = None
        self._seconds, self._progress = seconds, progress
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        if self.held is None:
            self._progress.tell("the program has not started yet: no recording")
        elif self._thread is not None and self._thread.is_alive():
            self._progress.tell("a recording is running already: the signal was ignored")
        else:
            self._thread = threading.Thread(target=self._record, args=(self.held,), name="recording")
            self._thread.start()

    def join(self) -> None:
        if self._thread is not None:
            self._thread.join()

    def _record(self, held: HeldProgram) -> None:
        from nsysprof.app.measuring.record import RecordRequest, record_held

        self._progress.tell(f"SIGUSR1: record {self._seconds:g} s")
        try:
            result = record_held(held, RecordRequest(seconds=self._seconds, watch_s=0.0), SILENT)
        except NsysprofError as error:
            self._progress.tell(f"nothing was recorded: {error.text} -> {error.next_step}")
            return
        if result.failure is not None:
            self._progress.tell(f"{result.failure.text} -> {result.failure.next_step}")
        self._progress.tell(f"recording in {result.folder}; next: nsysprof analyze {result.folder}")


def _check(request: ProgramRequest) -> None:
    wrong = {
        "--per-rank": request.per_rank,
        "--ranks": bool(request.ranks),
        "--capture-range": request.capture_range != "none",
        "--delay": bool(request.delay_s),
        "--end-program": request.end_program,
        "--memory": request.memory,
        "--force": request.force,
        f"--profiler {request.profiler}": request.profiler in ("torch", "cupti"),
        "--optimizer-steps": bool(request.steps or request.skip_steps),
    }
    for option, given in wrong.items():
        if given:
            raise UsageError(
                f"{option} does not work with --hold.",
                "Leave it out: the options of nsysprof record control what is recorded.",
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
