"""The exception tree. Each class owns its exit code; `cli` alone turns one into stderr text.

No error has 1 or 3: these are what a gate of `compare` says, 1 a regression and 3 inconclusive.

NsysprofError                    70   the class that all others are of; never raised itself
├── UsageError                    2   what was asked for makes no sense (typer uses 2 too)
├── OutputError                   4   the output folder exists, cannot be written, or the disk is full
│   └── SecretLeakError (bundle)  13   a sanitised file still holds a private value; it was not written
├── MissingToolError              5   torch, nsys, a GPU: not on this machine
├── ToolFailedError               6   nsys ran and failed
├── TraceError                    7   the input is not a trace that can be read
│   ├── TraceEmptyError           8   zero bytes, or no tables
│   ├── TraceDamagedError         9   truncated or corrupt
│   └── TraceForeignError        10   readable, but not an nsys export (another SQLite, an LFS pointer)
├── CaptureFailedError           11   no case of the grid could be measured
├── DataLossError                12   the profiler lost data: the capture's counts are not to be trusted
├── PolicyError                  14   a policy file is damaged, of a newer version, or none at all
├── NotComparableError           15   what was given to `compare` was measured under other conditions, or is other work
├── SchedulerError               16   no Dask scheduler or worker that can do the work: unreachable, or of other code
└── InterruptedCaptureError     130   Ctrl-C: what was finished is on disk
"""

from __future__ import annotations

from typing import ClassVar


class NsysprofError(Exception):
    """A failure the user can act on: one line of what happened, one of what to do next."""

    exit_code: ClassVar[int] = 70

    def __init__(self, text: str, next_step: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.next_step = next_step


class UsageError(NsysprofError):
    exit_code = 2


class OutputError(NsysprofError):
    exit_code = 4


class MissingToolError(NsysprofError):
    exit_code = 5


class ToolFailedError(NsysprofError):
    exit_code = 6


class TraceError(NsysprofError):
    exit_code = 7


class TraceEmptyError(TraceError):
    exit_code = 8


class TraceDamagedError(TraceError):
    exit_code = 9


class TraceForeignError(TraceError):
    exit_code = 10


class CaptureFailedError(NsysprofError):
    exit_code = 11


class DataLossError(NsysprofError):
    exit_code = 12


class PolicyError(NsysprofError):
    exit_code = 14


class NotComparableError(NsysprofError):
    exit_code = 15


class SchedulerError(NsysprofError):
    exit_code = 16


class InterruptedCaptureError(NsysprofError):
    exit_code = 130
