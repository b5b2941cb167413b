"""Run a program once and time its steps, untraced: by lines that it prints, by its optimizer, or as a whole."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from msgspec import DecodeError, json

from nsysprof.capture.user_program.policy_environment import POLICY, REMEDIES, REPORT, read_uses
from nsysprof.capture.user_program.program_hook import hook_path
from nsysprof.results.policy_use import add_uses
from nsysprof.results.program_runs import (
    FAILED,
    OK,
    TIMED_OUT,
    ProgramTraits,
    RemedyEffect,
    StepSource,
    TimedRun,
    ValueSamples,
)

# The same names as in nsysprof.workload.program_start.step_watch, which works inside the program.
STEPS, RANGE = "NSYSPROF_STEPS_FOLDER", "NSYSPROF_STEP_RANGE"
# The same name as in nsysprof.workload.program_start.transformers_attention.
ATTN_IMPLEMENTATION = "NSYSPROF_ATTN_IMPLEMENTATION"
# The same names as in nsysprof.workload.program_start.applied_remedies.watch_program.
REMEDIES_FOLDER, SEED = "NSYSPROF_REMEDIES_FOLDER", "NSYSPROF_SEED"
END_STEPS, END_S = "NSYSPROF_END_STEPS", "NSYSPROF_END_S"
# With fewer calls of the outermost module, the run as a whole is timed.
_LEAST_CALLS = 5
UNITS_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_LONGEST_LINE = 1 << 16
# A reader of the program's lines may be late by a few scheduling turns of a busy machine; this is many of them.
_LEAST_STRETCH_NS = 50_000_000
_POLL_S = 0.05
_GRACE_S = 5.0


@dataclass(frozen=True)
class TimedProgram:
    """A program, and how its steps are found.

    step_pattern: a line that matches ends a step; a group named s, ms, us or ns is the time itself. None: the steps of
        the optimizer, or the whole run where there are none.
    step_range: the begin of an NVTX range of torch whose whole name matches ends a step; empty for none.
    value_pattern: its first group is a value to compare, such as a loss.
    warmup_steps: how many steps at the beginning do not count.
    is_watched: whether the program's Python watches its optimizer and memory.
    is_remedied: whether it also tells which remedies took effect, samples its values, and counts the calls of its
        outermost module as steps where there is no optimizer.
    seed: of its random numbers where is_remedied; None: as the program seeds them.
    end_steps, end_s: it ends after so many steps, or with the first step after so long (s); 0: by itself.
    """

    argv: tuple[str, ...]
    step_pattern: re.Pattern[str] | None = None
    step_range: str = ""
    value_pattern: re.Pattern[str] | None = None
    warmup_steps: int = 1
    timeout_s: float = 3600.0
    is_watched: bool = True
    is_remedied: bool = False
    seed: int | None = None
    end_steps: int = 0
    end_s: float = 0.0


@dataclass
class _Printed:
    """What was found in the lines of a run."""

    program: TimedProgram
    lock: threading.Lock = field(default_factory=threading.Lock)
    moments_ns: list[int] = field(default_factory=list)
    numbers_ns: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)
    last_error: str = ""

    def take(self, line: str, *, is_error: bool) -> None:
        now = time.monotonic_ns()
        with self.lock:
            if is_error and line.strip():
                self.last_error = line.strip()[:300]
            step = self.program.step_pattern and self.program.step_pattern.search(line)
            if step:
                self.moments_ns.append(now)
                self.numbers_ns += _numbers(step)
            value = self.program.value_pattern and self.program.value_pattern.search(line)
            if value:
                self.values.append(_value(value[1] or ""))


def run_timed(
    program: TimedProgram, side: str, turn: int, environment: Mapping[str, str], logs: Path, stop: Callable[[], bool]
) -> TimedRun:
    """Run the program until it ends, and return what was measured. Raises OSError where it cannot be started.

    environment: every variable of the process.
    stop: called often; True ends the program early.
    """
    with tempfile.TemporaryDirectory(prefix="nsysprof-") as work:
        printed = _Printed(program)
        variables = {**environment, "PYTHONUNBUFFERED": "1", **_watching(program, environment, Path(work))}
        name = f"turn{turn:03d}-{side}"
        began = time.monotonic_ns()
        code, ended = _run(program, variables, printed, logs / name, stop)
        wall_ns = time.monotonic_ns() - began
        watched = _read_steps(Path(work))
        told = _read_told(Path(work))
        use = add_uses(read_uses(Path(work))) if variables.get(POLICY) else None
    times, source = _times(program, printed, {**watched, "calls_ns": told.calls_ns}, wall_ns)
    status, reason = OK, ""
    if ended or code:
        status = ended or FAILED
        last = f": {printed.last_error}" if printed.last_error else ""
        reason = f"ended after {program.timeout_s:g} s" if ended else f"ended with exit code {code}{last}"
    elif not times:
        status, reason = FAILED, "has too few steps for --step-pattern or --step-range"
    return TimedRun(
        side=side,
        turn=turn,
        status=status,
        reason=reason,
        exit_code=code,
        wall_ns=wall_ns,
        times_ns=tuple(times),
        source=source,
        values=tuple(printed.values),
        peak_bytes=_whole(watched, "peak_bytes"),
        reserved_bytes=_whole(watched, "reserved_bytes"),
        use=use,
        effects=told.remedies,
        samples=told.samples,
        traits=told.traits if told.process else None,
    )


class _Told(ProgramTraits, frozen=True, kw_only=True):
    """What a process wrote about its remedies; process is 0 where none did."""

    process: int = 0
    rank: str = ""
    remedies: tuple[RemedyEffect, ...] = ()
    samples: ValueSamples | None = None
    calls_ns: tuple[int, ...] = ()

    @property
    def traits(self) -> ProgramTraits:
        return ProgramTraits(**{name: getattr(self, name) for name in ProgramTraits.__struct_fields__})


def _read_told(folder: Path) -> _Told:
    """Return what the first rank told; of several processes of it, the one with the most steps or calls."""
    told: list[_Told] = []
    for path in sorted(folder.glob("remedies-*.json")):
        with contextlib.suppress(OSError, DecodeError):
            told.append(json.decode(path.read_bytes(), type=_Told))
    told.sort(key=lambda data: (data.rank != "0", -data.optimizer_steps, -data.outer_calls))
    return told[0] if told else _Told()


def _watching(program: TimedProgram, environment: Mapping[str, str], work: Path) -> dict[str, str]:
    variables = {REPORT: str(work)}
    if not program.is_watched and not any(environment.get(name) for name in (POLICY, ATTN_IMPLEMENTATION, REMEDIES)):
        return variables
    variables |= hook_path(environment)
    if not program.is_watched:
        return variables
    if program.is_remedied:
        variables[REMEDIES_FOLDER] = str(work)
        wanted = {SEED: program.seed, END_STEPS: program.end_steps or None, END_S: program.end_s or None}
        variables |= {name: f"{value:g}" for name, value in wanted.items() if value is not None}
    return {**variables, STEPS: str(work), **({RANGE: program.step_range} if program.step_range else {})}


def _run(
    program: TimedProgram, environment: dict[str, str], printed: _Printed, logs: Path, stop: Callable[[], bool]
) -> tuple[int | None, str]:
    """Run the program and return its exit code, or "timeout" where it was ended."""
    process = subprocess.Popen(
        list(program.argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    readers = [
        threading.Thread(target=_read, args=(stream, logs.with_suffix(f".{name}.log"), printed, name == "stderr"))
        for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr"))
    ]
    for reader in readers:
        reader.start()
    deadline, ended = time.monotonic() + program.timeout_s, ""
    try:
        while process.poll() is None:
            if time.monotonic() > deadline or stop():
                ended = TIMED_OUT
                break
            time.sleep(_POLL_S)
    finally:  # this also happens at Ctrl-C: no process of the program is left running
        _end_group(process)
        for reader in readers:
            reader.join(_GRACE_S)
    return process.returncode, ended


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
            if number == signal.SIGTERM:
                continue
    process.wait()


def _read(stream: IO[bytes], log: Path, printed: _Printed, is_error: bool) -> None:
    with stream, log.open("wb") as file:
        while line := stream.readline(_LONGEST_LINE):
            printed.take(line.decode("utf-8", errors="replace"), is_error=is_error)
            file.write(line)


def _times(
    program: TimedProgram, printed: _Printed, watched: Mapping[str, Any], wall_ns: int
) -> tuple[list[int], StepSource]:
    """Return the times of the steps after the warm-up, or of the whole run, and where they come from."""
    skip = program.warmup_steps
    if program.step_pattern is not None:
        if printed.numbers_ns:
            return printed.numbers_ns[skip:], StepSource.NUMBERS
        return steps_of_lines(printed.moments_ns[skip:]), StepSource.LINES
    steps = [int(step) for step in watched.get("steps_ns", ()) if step > 0][skip:]
    if program.step_range:
        return steps, StepSource.RANGES
    if len(steps) >= 2:
        return steps, StepSource.OPTIMIZER
    calls = [int(call) for call in watched.get("calls_ns", ()) if call > 0][skip:]
    if len(calls) >= _LEAST_CALLS:
        return calls, StepSource.CALLS
    ran = _whole(watched, "ran_ns")
    return ([wall_ns], StepSource.WHOLE) if ran is None else ([ran], StepSource.RUN)


def steps_of_lines(moments: Sequence[int]) -> list[int]:
    """Return the time of each step (ns) from the moments at which the lines that end steps were read.

    On a busy machine, lines of short steps are read several at once. Steps that are shorter than what a reader may be
    late share the time of a stretch that is long enough; its steps have their mean.
    """
    ends = [0]
    for at in range(1, len(moments)):
        if moments[at] - moments[ends[-1]] >= _LEAST_STRETCH_NS:
            ends.append(at)
    if len(moments) > 1:  # what is left at the end belongs to the stretch before it
        ends[max(1, len(ends) - 1) :] = [len(moments) - 1]
    times: list[int] = []
    for begin, end in itertools.pairwise(ends):
        times += [(moments[end] - moments[begin]) // (end - begin)] * (end - begin)
    return times


def _numbers(match: re.Match[str]) -> list[int]:
    for name, text in match.groupdict().items():
        value = _value(text or "") if name in UNITS_NS else None
        if value is not None and value > 0:
            return [int(value * UNITS_NS[name])]
    return []


def _value(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read_steps(folder: Path) -> dict[str, Any]:
    """Return what the first rank wrote about its steps; of several processes of it, the one with the most steps."""
    records: list[dict[str, Any]] = []
    for path in sorted(folder.glob("steps-*.json")):
        with contextlib.suppress(OSError, DecodeError, TypeError):
            records.append(json.decode(path.read_bytes(), type=dict[str, Any]))
    records.sort(
        key=lambda data: (str(data.get("rank")) != "0", -len(data.get("steps_ns", ())), -data.get("ran_ns", 0))
    )
    return records[0] if records else {}


def _whole(data: Mapping[str, Any], name: str) -> int | None:
    value = data.get(name)
    return int(value) if isinstance(value, int) else None
