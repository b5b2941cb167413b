"""Compare ranges of a program while it is recorded with the same ranges before and after, in the same run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The same names as in nsysprof.workload.program_start.range_times, which runs inside the program.
FOLDER = "NSYSPROF_RANGES_FOLDER"
# The folder for the times of ranges, inside the folder of the held program.
RANGE_TIMES = "range-times"
_SWITCH = "on"
# The start and the duration (ns) of each instance of a range.
Walls = dict[str, list[tuple[int, int]]]


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
