"""Define RecordResult: a recorded part of a running program, its processes, its latency, and what recording cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nsysprof.errors import NsysprofError
from nsysprof.files.plain_file import json_value
from nsysprof.notes import Note


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

    def to_json(self) -> dict[str, Any]:
        """Return what `record --json` prints; the folder and the traces are texts."""
        processes = [
            {**json_value(replace(row, trace=None)), "trace": None if row.trace is None else str(row.trace)}
            for row in self.processes
        ]
        return {
            "folder": str(self.folder),
            "duration_ns": self.duration_ns,
            "steps": self.steps,
            "start_ns": self.start_ns,
            "stop_ns": self.stop_ns,
            "survived": self.survived,
            "latency": json_value(self.latency),
            "processes": processes,
            "notes": json_value(self.notes),
        }


# A ratio of medians with its interval of 95 % (None: too few steps).
Ratio = tuple[float, float | None, float | None]


@dataclass(frozen=True)
class LatencyWindow:
    """The steps in one period of time."""

    steps: int
    wall_ns: int
    # The durations of those steps for which one is known; None where there are none.
    median_ns: int | None
    p90_ns: int | None
    # An interval of 95 % for the median of further steps; None with fewer than six.
    median_low_ns: int | None
    median_high_ns: int | None


@dataclass(frozen=True)
class LatencyWindows:
    """Three periods of time. Ratios are to the median before the recording; None where one is unknown."""

    # How steps are counted; empty where they are unknown, and then `unknown` says why.
    told_by: str
    unknown: str
    before: LatencyWindow | None = None
    during: LatencyWindow | None = None
    after: LatencyWindow | None = None
    during_ratio: Ratio | None = None
    after_ratio: Ratio | None = None
