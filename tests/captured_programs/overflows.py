"""Make nsys' own buffers overflow for real while it records a program that counts its kernels."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nsysprof.capture.self_check.gpu_watch import MarkedProcesses, NsysTools, name_of

# Both the capture and its nsys inherit this variable.
_MARK = "NSYSPROF_OVERFLOW"
# A GPU can be sampled only once at a time.
_SAMPLING = threading.Lock()


@dataclass(frozen=True)
class Overflow:
    """One buffer that may overflow, and how it is brought to that."""

    what: str
    launches: int
    options: tuple[str, ...] = ()
    # Settings of nsys (NSYS_CONFIG_DIRECTIVES) that make its buffers small.
    directives: str = ""
    # How long nsys' own processes are stopped while the program runs (s), once.
    held_up_s: float = 0.0
    may_retry: bool = False

    @property
    def expects(self) -> str:
        return "resampled" if self.may_retry else "honest"

    @property
    def turn(self) -> contextlib.AbstractContextManager[object]:
        """Return what to hold while this one runs beside others."""
        return _SAMPLING if self.held_up_s else contextlib.nullcontext()


def _sampled(rate_hz: int) -> tuple[str, ...]:
    return "--gpu-metrics", "--gpu-metrics-frequency", str(rate_hz)


OVERFLOWS = (
    Overflow("500000 launches at once", 500_000),
    Overflow("counters at 200 kHz, nsys held up for 1 s", 20_000, (*_sampled(200_000), "--no-retry"), held_up_s=1.0),
    Overflow("counters at 100 kHz, nsys held up for 1.5 s", 20_000, _sampled(100_000), held_up_s=1.5, may_retry=True),
    Overflow("16 KiB for what CUPTI records", 100_000, directives="CUPTIBufferSize=16384;CUPTINumBuffers=1"),
    Overflow("16 records of CUPTI at a time", 100_000, directives="CUPTIMaxNumRecords=16;CUPTINumBuffers=1"),
    Overflow(
        "1 MiB on the device for what CUPTI records",
        100_000,
        directives="CuptiDeviceBufferSizeMb=1;CuptiDeviceBufferPoolLimit=1",
    ),
)


@contextlib.contextmanager
def holding_up(nsys: Path, program: str, seconds: float, folder: Path) -> Iterator[dict[str, str]]:
    """Stop the processes of the nsys that runs with these variables, once, as soon as `program` runs, for `seconds`.

    program: the name of its process.
    folder: a value that distinguishes this capture from others.
    """
    marked, tools = MarkedProcesses(_MARK, value=folder.name), NsysTools(nsys)
    over = threading.Event()
    thread = threading.Thread(target=lambda: _hold_up(marked, tools, program, seconds, over), daemon=True)
    if seconds:
        thread.start()
    try:
        yield marked.environment
    finally:
        over.set()
        if seconds:
            thread.join()


def _hold_up(marked: MarkedProcesses, tools: NsysTools, program: str, seconds: float, over: threading.Event) -> None:
    while not any(name_of(each) == program[:15] for each in marked.look()):
        if over.wait(0.02):
            return
    if over.wait(0.3):  # until the program has initialised CUDA
        return
    held = [int(each.name) for each in marked.look() if tools.has(each)]
    _send(held, signal.SIGSTOP)
    over.wait(seconds)
    _send(held, signal.SIGCONT)


def _send(processes: list[int], number: signal.Signals) -> None:
    for each in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, number)


def said_of_buffers(trace: Path) -> list[str]:
    """Return what nsys itself says in a trace of buffers, of samples and of what is missing."""
    telling = re.compile(r"buffer|overflow|dropped|missing|incomplete|not all|GPU Metrics events", re.IGNORECASE)
    with contextlib.closing(sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)) as database:
        try:
            rows = list(database.execute("SELECT severity, text FROM DIAGNOSTIC_EVENT"))
        except sqlite3.Error:
            return []
    return [f"{severity}: {text.strip()[:200]}" for severity, text in rows if telling.search(str(text))]
