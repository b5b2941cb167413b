"""Count the steps of a running program and how long each took, from what it prints or from what torch runs in it."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nsysprof.errors import UsageError

# The names of groups in a pattern that contain a duration, and their unit in nanoseconds.
_UNITS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_LONGEST_LINE = 10_000
# Where the processes of a held program write down their steps, inside its folder.
STEP_ENDS = "step-ends"
# The same name as in nsysprof.workload.program_start.step_ends, which runs inside the program.
STEP_ENDS_FOLDER = "NSYSPROF_STEP_ENDS_FOLDER"
_SWITCH = "on"


@dataclass(frozen=True)
class ProgramStep:
    """One step of the program.

    end_ns: when it ended (ns since 1970).
    duration_ns: None where it is unknown.
    """

    end_ns: int
    duration_ns: int | None


class StepCounter(Protocol):
    """Tells which steps have ended since it was last asked."""

    @property
    def told_by(self) -> str:
        """Return how the steps are known, for a reader."""
        ...

    def poll(self) -> Sequence[ProgramStep]: ...

    def on(self) -> AbstractContextManager[None]:
        """Return a context in which steps are told."""
        ...


class OutputSteps:
    """Steps that the program prints: each line of its output that matches a pattern is one.

    A group named s, ms, us or ns holds the step's duration. Without one, the time from line to line is taken.
    """

    def __init__(self, logs: Sequence[Path], pattern: str) -> None:
        """Begin with what the program prints from now on. Raises UsageError for a pattern that makes no sense."""
        try:
            self._pattern = re.compile(pattern)
        except re.error as error:
            raise UsageError(
                f"--step-pattern {pattern!r} is not a regular expression: {error}.",
                r"Give e.g. 'latency=(?P<ms>[\d.]+)'.",
            ) from error
        units = [name for name in self._pattern.groupindex if name in _UNITS]
        if len(units) > 1:
            raise UsageError(f"--step-pattern {pattern!r} has two groups of time.", "Name one group s, ms, us or ns.")
        self._unit = units[0] if units else None
        self._logs = [(path, [path.stat().st_size if path.exists() else 0], [b""]) for path in logs]
        self._last_ns: int | None = None

    @property
    def told_by(self) -> str:
        what = f"the group {self._unit} of" if self._unit else "the time between"
        return f"{what} lines of the output that match '{self._pattern.pattern}'"

    def poll(self) -> list[ProgramStep]:
        """Return the steps whose lines have appeared since the last call."""
        steps = []
        for path, offset, rest in self._logs:
            for line in _new_lines(path, offset, rest):
                match = self._pattern.search(line[:_LONGEST_LINE])
                if match is not None:
                    steps.append(self._step(match))
        return steps

    def on(self) -> AbstractContextManager[None]:
        """Return a context that does nothing: the program prints in any case."""
        return contextlib.nullcontext()

    def _step(self, match: re.Match[str]) -> ProgramStep:
        now = time.time_ns()
        duration: int | None
        if self._unit is not None:
            try:
                duration = round(float(match[self._unit]) * _UNITS[self._unit])
            except (TypeError, ValueError, OverflowError):
                duration = None
        else:
            duration = None if self._last_ns is None else now - self._last_ns
            self._last_ns = now
        return ProgramStep(now, duration)


class TorchSteps:
    """Steps that the processes of a held program write down which import torch; those of the first that has some.

    folder: the folder of the held program.
    """

    told_by = "the time between steps of the optimizer, or else calls of the outermost module"

    def __init__(self, folder: Path) -> None:
        self._folder = folder / STEP_ENDS
        self._read: dict[Path, tuple[list[int], list[bytes]]] = {}
        self._leader: Path | None = None
        self._last_ns: int | None = None

    @property
    def is_there(self) -> bool:
        """Return whether some process of the program has imported torch."""
        return any(self._folder.glob("*.txt"))

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Have steps written down inside the context."""
        for path in self._folder.glob("*.txt"):
            self._read[path] = [path.stat().st_size], [b""]
        (self._folder / _SWITCH).touch()
        try:
            yield
        finally:
            (self._folder / _SWITCH).unlink(missing_ok=True)

    def poll(self) -> list[ProgramStep]:
        """Return the steps that have ended since the last call."""
        steps = []
        for path in sorted(self._folder.glob("*.txt")):
            offset, rest = self._read.setdefault(path, ([0], [b""]))
            lines = _new_lines(path, offset, rest)
            if lines and self._leader is None:
                self._leader = path
            if path == self._leader:
                steps += [self._step(int(line)) for line in lines if line.isdecimal()]
        return steps

    def _step(self, end_ns: int) -> ProgramStep:
        before, self._last_ns = self._last_ns, end_ns
        return ProgramStep(end_ns, None if before is None else end_ns - before)


def _new_lines(path: Path, offset: list[int], rest: list[bytes]) -> list[str]:
    """Return the whole lines that the file has gained, and remember how far it was read."""
    try:
        with path.open("rb") as file:
            file.seek(offset[0])
            data = file.read()
    except OSError:
        return []
    offset[0] += len(data)
    *lines, rest[0] = (rest[0] + data).split(b"\n")
    rest[0] = rest[0][-_LONGEST_LINE:]
    return [line.decode(errors="replace") for line in lines]
