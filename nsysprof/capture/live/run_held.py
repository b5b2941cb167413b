"""Run a program until it ends, in a session of nsys that records only on request."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nsysprof.capture.environment import collect_machine
from nsysprof.capture.folder import remove_work
from nsysprof.capture.live.held_program import FORMAT_VERSION, HOLD_PID, HeldProgram, publish, retract, started_ticks
from nsysprof.capture.live.step_sources import STEP_ENDS, STEP_ENDS_FOLDER
from nsysprof.capture.manifest import Program, program_manifest, write_manifest
from nsysprof.capture.measured_process import LOGS
from nsysprof.capture.self_check.probe import settle_options
from nsysprof.capture.user_program.program_hook import hook_path
from nsysprof.capture.user_program.program_plan import ProgramPlan
from nsysprof.capture.user_program.record_program import Say, Watchers, program_environment
from nsysprof.capture.user_program.streamed import Ended, Streams, run_streamed
from nsysprof.nsight.nsys import launch_argv, start_options
from nsysprof.nsight.run_tool import Step

# A program may leave daemons behind, which stay held like the program itself.
_FOR_EVER_S = 10.0 * 365 * 86_400
# The same names as in nsysprof.workload.program_start.range_times, which runs inside the program.
FOLDER = "NSYSPROF_RANGES_FOLDER"
# The folder for the times of ranges, inside the folder of the held program.
RANGE_TIMES = "range-times"
_SWITCH = "on"
# The start and the duration (ns) of each instance of a range.
Walls = dict[str, list[tuple[int, int]]]


def run_held(
    plan: ProgramPlan,
    folder: Path,
    nsys: Path,
    watchers: Watchers,
    *,
    announce: Callable[[HeldProgram], None],
    on_signal: Mapping[int, Callable[[], None]],
    say: Say,
) -> Ended:
    """Run the plan's program in the prepared `folder`, and return how it ended.

    announce: called once the program runs and can be recorded.
    on_signal: what to do on signals that are not for the program.
    """
    logs, session = folder / LOGS, f"nsysprof-{os.getpid()}"
    manifest = program_manifest(plan.argv, collect_machine(nsys))
    settled, notes = settle_options(nsys, manifest.environment, say, may_try=plan.probe)
    manifest.notes += notes
    for note in notes:
        say(note.text)
    options = replace(plan, settled=settled).session_options
    write_manifest(folder, manifest)
    published: list[HeldProgram] = []

    def start(pid: int) -> None:
        held = HeldProgram(
            format_version=FORMAT_VERSION,
            folder=str(folder.resolve()),
            argv=plan.argv,
            holder_pid=os.getpid(),
            holder_started=started_ticks(os.getpid()) or 0,
            program_pid=pid,
            nsys=str(nsys.absolute()),
            session=session,
            start_options=start_options(options),
            tmpdir=os.environ.get("TMPDIR"),
        )
        publish(held)
        published.append(held)
        announce(held)

    try:
        ended = run_streamed(
            list(plan.argv),
            Streams(logs / "stdout.log", logs / "stderr.log", logs / "nsys.log", watchers.stdout, watchers.stderr),
            {**program_environment(), HOLD_PID: str(os.getpid()), **_own_hook(plan, folder)},
            wrap=lambda argv: launch_argv(nsys, session, argv, options),
            say=say,
            on_start=start,
            on_signal=on_signal,
            finish_s=_FOR_EVER_S,
        )
    finally:
        for held in published:
            retract(held)
        for place in (RANGE_TIMES, STEP_ENDS):
            shutil.rmtree(folder / place, ignore_errors=True)
    manifest.steps.append(Step("program", ended.argv, ended.exit_code, ended.duration_ns))
    manifest.program = Program(plan.argv, ended.exit_code)
    manifest.complete = True
    write_manifest(folder, manifest)
    remove_work(folder)
    return ended


def _own_hook(plan: ProgramPlan, folder: Path) -> dict[str, str]:
    """Return the variables that make the program's Python tell its steps, and the times of ranges if that is wanted."""
    places = {STEP_ENDS_FOLDER: STEP_ENDS, **({FOLDER: RANGE_TIMES} if plan.measure_cost else {})}
    for place in places.values():
        (folder / place).mkdir()
    return {
        **hook_path(os.environ),
        **{variable: str((folder / place).resolve()) for variable, place in places.items()},
    }


@dataclass(frozen=True)
class RangeWindows:
    """The times of a program's ranges before, during and after a recording."""

    recorded: Walls
    plain: Walls


@dataclass(frozen=True)
class Moments:
    """When a recording was requested, began, ended, and when nsys had finished with it (ns, monotonic clock)."""

    asked_ns: int
    began_ns: int
    ended_ns: int
    stopped_ns: int


class RangeSwitch:
    """Tells the processes of a held program when to write down how long their ranges take.

    folder: the folder of the held program.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / RANGE_TIMES
        # Whether the program was started in a way that allows this.
        self.is_there = self._folder.is_dir()

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Have the times of ranges written down inside the context."""
        if not self.is_there:
            yield
            return
        for path in self._folder.glob("*.jsonl"):
            path.unlink(missing_ok=True)
        (self._folder / _SWITCH).touch()
        try:
            yield
        finally:
            (self._folder / _SWITCH).unlink(missing_ok=True)

    def read(self, moments: Moments) -> RangeWindows:
        """Return the ranges that lie wholly in the recording, before nsys started it, and after it stopped."""
        windows = RangeWindows({}, {})
        for name, began, ended in _read(self._folder) if self.is_there else ():
            if moments.began_ns <= began and ended <= moments.ended_ns:
                windows.recorded.setdefault(name, []).append((began, ended - began))
            elif ended <= moments.asked_ns or began >= moments.stopped_ns:
                windows.plain.setdefault(name, []).append((began, ended - began))
        return windows


def _read(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yield the ranges of all processes. Incomplete lines of a killed process are left out."""
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in file:
                with contextlib.suppress(ValueError, TypeError):
                    name, began, ended = json.loads(line)
                    if isinstance(name, str) and int(ended) > int(began):
                        yield name, int(began), int(ended)
