"""Define the exception tree. Each class has its exit code, and only `cli` turns an error into text on stderr.

No error has the codes 1 and 3, which a gate of `compare` uses: 1 for a regression and 3 for an inconclusive result.

NsysprofError                    70   the base class of all others; never raised itself
├── UsageError                    2   the request makes no sense (typer uses 2 too)
├── OutputError                   4   the output folder exists or cannot be written, or the disk is full
│   └── SecretLeakError (bundle)  13   a sanitised file still contains a private value, so it was not written
├── MissingToolError              5   torch, nsys or a GPU is missing on this machine
├── ToolFailedError               6   nsys ran and failed
├── TraceError                    7   the input is not a trace that can be read
│   ├── TraceEmptyError           8   zero bytes, or no tables
│   ├── TraceDamagedError         9   truncated or corrupt
│   └── TraceForeignError        10   readable, but not an nsys export (another SQLite file, an LFS pointer)
├── CaptureFailedError           11   no case of the grid could be measured
├── DataLossError                12   the profiler lost data: the capture's counts cannot be trusted
├── PolicyError                  14   a policy file is damaged, from a newer version, or something else
├── NotComparableError           15   the inputs of `compare` were measured under other conditions, or are other work
├── SchedulerError               16   no Dask scheduler or worker can do the work: unreachable, or with other code
└── InterruptedCaptureError     130   Ctrl-C: what was finished is on disk
"""

from __future__ import annotations

from typing import ClassVar

from nsysprof.plain_text import plain_lines


class NsysprofError(Exception):
    """A failure that the user can act on: one line about what happened, and one about what to do next."""

    exit_code: ClassVar[int] = 70

    def __init__(self, text: str, next_step: str = "") -> None:
        self.text = plain_lines(text)  # it may quote a trace or a file's name
        self.next_step = plain_lines(next_step)
        super().__init__(self.text)


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
