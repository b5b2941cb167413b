"""Record a part of a held program: start nsys, wait for seconds or steps, stop, and export the recording."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from nsysprof.capture.environment import collect_machine
from nsysprof.capture.folder import NSYS_REPORT, remove_work
from nsysprof.capture.live.held_program import HOLD_PID, HeldProgram
from nsysprof.capture.live.process_tree import SeenProcess, list_processes
from nsysprof.capture.live.run_held import Moments, RangeSwitch, RangeWindows
from nsysprof.capture.live.step_sources import ProgramStep, StepCounter
from nsysprof.capture.manifest import NSYS_TRACE, Manifest, program_manifest, write_manifest
from nsysprof.capture.measured_process import LOGS
from nsysprof.capture.self_check.gpu_watch import MarkedProcesses
from nsysprof.capture.self_check.size_watch import SizeWatch, StopReason
from nsysprof.errors import NsysprofError, ToolFailedError
from nsysprof.notes import Loss, Remarks, make_note
from nsysprof.nsight.nsys import await_report, is_recording, run_export, start_recording, stop_recording
from nsysprof.nsight.run_tool import Step
from nsysprof.units import format_bytes

_POLL_S = 0.02
_LONGEST_S = 600.0  # how long to wait for steps that may never come
_LONGEST_BY_SIZE_S = 24 * 3600.0  # how long to wait for a size that may never be reached
_LOOK_S = 0.5  # how often the holder is looked at

Say = Callable[[str], None]
Inspect = Callable[[Path], Remarks]


@dataclass(frozen=True)
class Until:
    """When a recording ends: after `seconds`, after `steps`, or when nsys has written `most_bytes`; whichever is first.

    Without `seconds`, steps that do not come are waited for ten minutes, and bytes for a day.
    """

    seconds: float | None = None
    steps: int | None = None
    # 0: as much as fits on the disk.
    most_bytes: int = 0

    @property
    def longest_s(self) -> float:
        """Return how long the recording may take (s)."""
        if self.seconds is not None:
            return self.seconds
        return _LONGEST_S if self.steps is not None else _LONGEST_BY_SIZE_S


@dataclass
class RecordedPart:
    """One recording of a held program."""

    folder: Path
    # The steps in three periods: before, during and after the recording. Before and after are empty where they were not
    # watched.
    before: list[ProgramStep] = field(default_factory=list)
    during: list[ProgramStep] = field(default_factory=list)
    after: list[ProgramStep] = field(default_factory=list)
    before_ns: int = 0
    during_ns: int = 0
    after_ns: int = 0
    # How long nsys took to start, and to stop and write its report (ns).
    start_ns: int = 0
    stop_ns: int = 0
    processes: tuple[SeenProcess, ...] = ()
    # The times of the program's ranges in the recording, and before and after it, where the program writes them down.
    ranges: RangeWindows = field(default_factory=lambda: RangeWindows({}, {}))
    # Why the recording ended before its time; None where it did not.
    stopped: StopReason | None = None
    # How much nsys had written then; 0 where there is no limit (bytes).
    written_bytes: int = 0
    # Whether the program ran on after the recording.
    survived: bool = False
    # Whether the requested number of steps, or of seconds, was reached.
    is_full: bool = False
    # Whether Ctrl-C ended the recording; what was recorded until then is kept.
    is_interrupted: bool = False
    trace: Path | None = None
    failure: NsysprofError | None = None
    losses: tuple[Loss, ...] = ()
    manifest: Manifest | None = None


def record_part(
    held: HeldProgram,
    folder: Path,
    until: Until,
    *,
    source: StepCounter | None,
    watch_s: float,
    say: Say,
    inspect: Inspect,
    is_held: Callable[[], bool] | None = None,
) -> RecordedPart:
    """Record a part of the program into the prepared `folder`, which becomes a capture folder.

    source: where steps are counted; None where they are unknown.
    watch_s: how long the steps and ranges are watched before and after the recording (s).
    is_held: says whether the program still runs; None: as long as its holder does.
    """
    is_held = is_held or held.is_alive
    part, switch = RecordedPart(folder), RangeSwitch(Path(held.folder))
    is_watched = bool(watch_s) and (source is not None or switch.is_there)
    with switch.on():
        if is_watched:
            say(f"watch the program for {watch_s:g} s")
            part.before_ns = _watch(is_held, source, watch_s, part.before)
        moments = _record(held, part, until, source, is_held, say)
        part.survived = is_held()
        if is_watched and part.survived and not part.is_interrupted:
            _take(source)
            part.after_ns = _watch(is_held, source, watch_s, part.after)
            part.survived = is_held()
    part.ranges = switch.read(moments)
    with _finishing(part, say):
        _finish(held, part, until, say, inspect)
    return part


def stop_killed(held: HeldProgram) -> bool:
    """Stop what a killed recording left running, and return whether there was any.

    The caller holds the lock of all recordings of the program, so that no other process records it.
    """
    nsys = Path(held.nsys)
    if not is_recording(nsys, held.session, held.environment):
        return False
    stop_recording(nsys, held.session, held.environment)
    return True


def _record(
    held: HeldProgram,
    part: RecordedPart,
    until: Until,
    source: StepCounter | None,
    is_held: Callable[[], bool],
    say: Say,
) -> Moments:
    """Record one part and return its start and end."""
    nsys, report = Path(held.nsys), part.folder / NSYS_REPORT
    size = SizeWatch(until.most_bytes, part.folder, processes=MarkedProcesses(HOLD_PID, value=str(held.holder_pid)))
    asked = time.monotonic_ns()
    try:  # no call between this and the next try, because Ctrl-C there would leave nsys recording
        start_recording(nsys, held.session, report.with_suffix(""), held.start_options, held.environment)
        began = time.monotonic_ns()
        say("recording")
    except KeyboardInterrupt:
        with contextlib.suppress(ToolFailedError):  # nsys may or may not have begun to record
            stop_recording(nsys, held.session, held.environment)
        report.unlink(missing_ok=True)  # it holds the moment until nsys was told to stop again
        raise
    part.start_ns = began - asked
    try:
        size.begin()
        _take(source)
        part.is_full = _await_end(is_held, until, source, part.during, size)
    except KeyboardInterrupt:
        part.is_interrupted = True
    finally:
        with _finishing(part, say):
            part.during_ns = time.monotonic_ns() - began
            part.stopped, part.written_bytes = size.stopped, size.bytes
            part.processes = list_processes(held.program_pid, held.argv, f"{HOLD_PID}={held.holder_pid}")
            say("stop the recording")
            ended = time.monotonic_ns()
            _stop(held, report)
            part.stop_ns = time.monotonic_ns() - ended
    return Moments(asked, began, ended, ended + part.stop_ns)


def _await_end(
    is_held: Callable[[], bool],
    until: Until,
    source: StepCounter | None,
    steps: list[ProgramStep],
    size: SizeWatch | None = None,
) -> bool:
    """Collect the steps until the recording should end; return False if the program, or the disk, ended first."""
    begun = looked = time.monotonic()
    while True:
        steps += _take(source)
        if until.steps is not None and len(steps) >= until.steps:
            return True
        now = time.monotonic()
        if now - begun >= until.longest_s:
            return until.steps is None
        if now - looked >= _LOOK_S:
            looked = now
            if not is_held():
                return False
            if size is not None:
                size.look()
                if size.stopped is not None:
                    return size.stopped is StopReason.SIZE
        time.sleep(_POLL_S)


def _watch(is_held: Callable[[], bool], source: StepCounter | None, seconds: float, steps: list[ProgramStep]) -> int:
    """Collect the steps of some seconds; return how long that took (ns)."""
    begun = time.monotonic_ns()
    _take(source)
    _await_end(is_held, Until(seconds), source, steps)
    return time.monotonic_ns() - begun


def _take(source: StepCounter | None) -> list[ProgramStep]:
    return [] if source is None else list(source.poll())


def _stop(held: HeldProgram, report: Path) -> None:
    """Stop the recording. If the program has ended meanwhile, nsys has stopped by itself and writes the report."""
    try:
        stop_recording(Path(held.nsys), held.session, held.environment)
    except ToolFailedError:
        if not await_report(report):
            raise


@contextlib.contextmanager
def _finishing(part: RecordedPart, say: Say) -> Iterator[None]:
    """Let a first Ctrl-C wait until the recording is written, so that nothing is lost. A second one gives it up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def note(_number: int, _frame: FrameType | None) -> None:
        if part.is_interrupted:
            raise KeyboardInterrupt
        part.is_interrupted = True
        say("Interrupt: the recording is being written. Press Ctrl-C again to give it up")

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _finish(held: HeldProgram, part: RecordedPart, until: Until, say: Say, inspect: Inspect) -> None:
    """Export the report, and write the manifest of the recording."""
    folder, nsys = part.folder, Path(held.nsys)
    manifest = program_manifest(held.argv, collect_machine(nsys))
    manifest.steps.append(Step("record", ("nsys", "start", *held.start_options), 0, part.during_ns))
    report, trace = folder / NSYS_REPORT, folder / NSYS_TRACE
    say("export the recording")
    step, refused = run_export(nsys, report, trace, log=folder / LOGS / "export.log", is_shielded=True)
    manifest.steps.append(step)
    part.failure = refused
    if refused is None:
        try:
            check = inspect(trace)
            manifest.notes += check.notes
            part.losses, part.trace = check.losses, trace
        except NsysprofError as error:
            part.failure = error
    if part.stopped is StopReason.DISK:
        manifest.notes.append(make_note("recording-stopped", "disk"))
    elif part.stopped is not None and (until.seconds is not None or until.steps is not None):
        limit, written = format_bytes(until.most_bytes), format_bytes(part.written_bytes)
        manifest.notes.append(make_note("recording-stopped", limit=limit, written=written))
    manifest.complete = part.failure is None
    part.manifest = manifest
    write_manifest(folder, manifest)
    remove_work(folder)
