"""Record one program with nsys: start it, and report how the program and its recording ended."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import secrets
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from nsysprof.capture.measured_process import tail
from nsysprof.capture.self_check.gpu_watch import NsysTools
from nsysprof.capture.self_check.size_watch import SizeWatch, StopReason
from nsysprof.capture.user_program.program_hook import collect_recorded, hook_environment
from nsysprof.capture.user_program.program_plan import NO_RANGE, ProgramPlan
from nsysprof.capture.user_program.streamed import WAIT_S, Ended, LeftRunning, Streams, run_streamed
from nsysprof.errors import OutputError, ToolFailedError
from nsysprof.notes import Note, make_note
from nsysprof.nsight.nsys import explain_profile_failure, import_again, profile_argv, recording_of, stop_recording
from nsysprof.nsight.run_tool import Step
from nsysprof.results.checks import MissingSource
from nsysprof.units import format_bytes

Say = Callable[[str], None]


@dataclass(frozen=True)
class Recorded:
    """How the recording of a program ended."""

    ended: Ended
    # Why there is no report; None where there is one.
    failure: ToolFailedError | None
    steps: tuple[Step, ...]
    notes: tuple[Note, ...] = ()
    # What was requested but could not be recorded; `notes` says why.
    missing: tuple[MissingSource, ...] = ()
    # Why the recording ended before the program; None where it did not, or where the user asked for a part.
    stopped: StopReason | None = None


@dataclass(frozen=True)
class Watchers:
    """The streams that show the program's output while it runs."""

    stdout: IO[bytes] | None
    stderr: IO[bytes] | None


def own_watchers(*, quiet_stdout: bool = False) -> Watchers:
    """Return this process's stdout and stderr.

    quiet_stdout: whether to return stderr for both, to keep our own stdout clean.
    """
    return Watchers(sys.stderr.buffer if quiet_stdout else sys.stdout.buffer, sys.stderr.buffer)


def record_program(
    plan: ProgramPlan,
    nsys: Path,
    report: Path,
    logs: tuple[Path, Path, Path],
    watchers: Watchers,
    *,
    metrics: tuple[str, ...],
    environment: dict[str, str],
    say: Say,
) -> Recorded:
    """Run the plan's program under nsys into `report`, and return how the recording ended.

    Where nsys fails to start the program with `metrics`, the program runs without them.

    logs: the files for stdout, stderr and nsys.
    metrics: nsys' options for sampling counters.
    """
    streams = Streams(*logs, watchers.stdout, watchers.stderr)
    steps, notes, missing = [], [], []
    tools = NsysTools(nsys)
    size, session = SizeWatch(plan.max_bytes, report.parent), f"nsysprof-{os.getpid()}-{secrets.token_hex(3)}"
    usual = (*plan.profile_options, f"--session-new={session}")
    for options in ((*usual, *metrics), usual):
        recording_of(report).unlink(missing_ok=True)
        own = hook_environment(report, environment, plan.recorded_kinds)
        every = environment | plan.environment | own | size.environment
        stop = functools.partial(_stop_early, nsys, session, every)
        left = LeftRunning(lambda: size.running(tools), stop, say, wait_s=max(WAIT_S, float(plan.duration_s)))
        with size.watching(lambda: _say_and_stop(stop, say)):  # noqa: B023
            ended = run_streamed(
                list(plan.argv),
                streams,
                every,
                wrap=lambda argv, options=options: profile_argv(nsys, report.with_suffix(""), argv, options),  # type: ignore[misc]
                end_with_tool=plan.end_program,
                say=say,
                left=left,
            )
        steps.append(Step("program", ended.argv, ended.exit_code, ended.duration_ns))
        if ended.exit_code is not None or ended.interrupted or not metrics:
            break
        why = explain_profile_failure(ended.tool_code, tail(logs[2])).text
        notes, missing = [unsampled(why)], [MissingSource.DRAM_SAMPLES]
        metrics = ()
    imported = import_again(nsys, report, logs[2])
    if imported is not None:
        steps.append(imported)
    has_report = report.is_file() and report.stat().st_size > 0
    failure = None if has_report or ended.refused else _why_no_report(plan, ended, tail(logs[2]))
    notes += collect_recorded(report, plan.recorded_kinds)
    if left.left and failure is None:
        notes.append(make_note("left-running", processes=left.names))
    if size.stopped is not None and failure is None:
        notes.append(_stopped_note(size, plan))
    return Recorded(ended, failure, tuple(steps), tuple(notes), tuple(missing), size.stopped)


def _say_and_stop(stop: Callable[[], None], say: Say) -> None:
    say("the recording is stopped now; the program continues")
    stop()


def _stop_early(nsys: Path, session: str, environment: dict[str, str]) -> None:
    """Make nsys write what it has, while the program continues."""
    with contextlib.suppress(ToolFailedError):  # the program has ended meanwhile, and so has the recording
        stop_recording(nsys, session, environment)


def _stopped_note(size: SizeWatch, plan: ProgramPlan) -> Note:
    if size.stopped is StopReason.DISK:
        return make_note("recording-stopped", "disk")
    limit, written = format_bytes(plan.max_bytes), format_bytes(size.bytes)
    return make_note("recording-stopped", limit=limit, written=written)


def program_environment() -> dict[str, str]:
    """Return this process's environment, with Python set to print at once although its output goes to a file."""
    return {"PYTHONUNBUFFERED": "1", **os.environ}


def _why_no_report(plan: ProgramPlan, ended: Ended, log: str) -> ToolFailedError:
    if ended.exit_code is None or "No space left" in log or "libdw" in log:
        return explain_profile_failure(ended.tool_code, log)
    if plan.capture_range != NO_RANGE:
        name = plan.capture_range.removeprefix("nvtx:")
        return ToolFailedError(
            f"The program ended without entering the capture range {name}, so nothing was recorded.",
            "Check the range's name and domain (nvtx:NAME@DOMAIN, NAME@* for any), or that cudaProfilerStart is called "
            "in a process that was not forked.",
        )
    if plan.delay_s and ended.duration_ns < (plan.delay_s + 1) * 1_000_000_000:
        return ToolFailedError(
            f"The program ended after {ended.duration_ns / 1e9:.1f} s, before the recording began (--delay "
            f"{plan.delay_s}).",
            "Give a shorter --delay.",
        )
    return explain_profile_failure(ended.tool_code, log)


def disk_full_error() -> OutputError:
    """Return the error for a recording that was stopped because the disk was nearly full."""
    return OutputError(
        "The disk was nearly full, so the recording was stopped before the program ended. What was recorded is kept.",
        "Free some space, choose another disk with --out and TMPDIR, or record less (--max-recording, --duration).",
    )


def unsampled(why: str) -> Note:
    """Return the note that --gpu-metrics was not possible."""
    return make_note("gpu-metrics-failed", "program", problem=why)


# What torch says by itself, and what the runtime answers there to other programs.
_SAID = re.compile(r"Cannot re-initialize CUDA in forked subprocess|cudaErrorInitializationError")


def fork_notes(stderr_log: Path) -> list[Note]:
    """Return the note that CUDA does not work in such a process, where the program's standard error says so."""
    message = _SAID.search(tail(stderr_log))
    return [] if message is None else [make_note("forked-after-cuda", said=message[0])]
