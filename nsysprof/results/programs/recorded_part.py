"""RecordResult: a part of a running program that was recorded, with its processes and what the recording cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nsysprof.errors import NsysprofError
from nsysprof.notes import Note
from nsysprof.results.programs.latency_windows import LatencyWindows


@dataclass(frozen=True)
class ProcessPart:
    """One process of the program in a recording.

    unseen: why it has no events, where that is known.
    """

    pid: int
    parent_pid: int | None
    name: str
    command: str
    kernels: int
    graphs: int
    copies: int
    fills: int
    calls: int
    ranges: int
    unseen: str = ""
    # The trace of only this process; None where the recording has a single process with events.
    trace: Path | None = None


@dataclass(frozen=True)
class RecordResult:
    """What was recorded.

    failure: why the recording is incomplete, or None.
    """

    folder: Path
    # How long the recording took, and how many steps ended in it (None: steps are not counted).
    duration_ns: int
    steps: int | None
    # How long nsys took to start, and to stop and write its report. The program may have been slower meanwhile.
    start_ns: int
    stop_ns: int
    survived: bool
    latency: LatencyWindows
    processes: tuple[ProcessPart, ...]
    notes: tuple[Note, ...] = field(default=())
    failure: NsysprofError | None = None
