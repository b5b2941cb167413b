"""Record when each step ended (on the GPU's clock) and the peak memory, and write them at the end of the program.

A step ends where the first optimizer ends one, or where a range of torch.cuda.nvtx begins whose whole name matches the
regular expression NSYSPROF_STEP_RANGE.

It needs only torch, because it runs in the program's own Python. The folder is NSYSPROF_STEPS_FOLDER. A step costs one
event on the GPU, and nothing waits for it before the end of the program.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import re
import time
from pathlib import Path
from typing import Any

from .watched_program.process_file import write_json
from .watched_program.program_steps import FirstOptimizer

STEPS = "NSYSPROF_STEPS_FOLDER"
RANGE = "NSYSPROF_STEP_RANGE"
_MOST_STEPS = 20_000


class EndedSteps:
    """The ends of steps, on the GPU's clock where it is in use."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.began_ns = time.monotonic_ns()
        self.host_ns: list[int] = []
        self.events: list[Any] = []

    def mark(self) -> None:
        """Note that a step ends here."""
        if len(self.host_ns) >= _MOST_STEPS:
            return
        self.host_ns.append(time.monotonic_ns())
        cuda = self.torch.cuda
        if cuda.is_initialized() and not cuda.is_current_stream_capturing():
            event = cuda.Event(enable_timing=True)
            event.record()
            self.events.append(event)

    def durations_ns(self) -> list[int]:
        """Return the time from the end of each step to the end of the next; on the GPU where each has an event."""
        if self.events and len(self.events) == len(self.host_ns):
            self.torch.cuda.synchronize()
            pairs = itertools.pairwise(self.events)
            return [int(begin.elapsed_time(end) * 1e6) for begin, end in pairs]
        return [end - begin for begin, end in itertools.pairwise(self.host_ns)]

    def peaks(self) -> dict[str, int | None]:
        """Return the peaks of memory (bytes) that the program allocated and reserved, over all GPUs, or its own."""
        cuda = self.torch.cuda
        if cuda.is_initialized():
            devices = range(cuda.device_count())
            return {
                "peak_bytes": max(int(cuda.max_memory_allocated(device)) for device in devices),
                "reserved_bytes": max(int(cuda.max_memory_reserved(device)) for device in devices),
            }
        return {"peak_bytes": _peak_resident_bytes(), "reserved_bytes": None}


def _peak_resident_bytes() -> int | None:
    """Return the peak of this process's memory (bytes); None where the system does not tell it.

    getrusage would return the peak of the process that started this one, where it is larger.
    """
    with contextlib.suppress(OSError), Path("/proc/self/status").open(encoding="utf-8") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return None


def begin(torch: Any) -> None:
    """Begin to watch, in a process that has just imported torch."""
    steps, process = EndedSteps(torch), os.getpid()
    name = os.environ.get(RANGE)
    if name:
        _watch_ranges(torch.cuda.nvtx, re.compile(name), steps)
    else:
        FirstOptimizer(steps.mark).watch()
    atexit.register(lambda: _write(steps, process))


def _watch_ranges(nvtx: Any, pattern: re.Pattern[str], steps: EndedSteps) -> None:
    """Mark a step at each beginning of a range with such a name. torch.cuda.nvtx.range pushes by the same function."""
    push = nvtx.range_push

    def range_push(msg: Any) -> Any:
        if pattern.fullmatch(str(msg)):
            steps.mark()
        return push(msg)

    nvtx.range_push = range_push


def _write(steps: EndedSteps, process: int) -> None:
    if os.getpid() != process:  # a fork of the process that is watched
        return
    data: dict[str, Any] = {"ran_ns": time.monotonic_ns() - steps.began_ns, "rank": os.environ.get("RANK", "0")}
    with contextlib.suppress(Exception):
        data["steps_ns"] = steps.durations_ns()
    with contextlib.suppress(Exception):
        data.update(steps.peaks())
    with contextlib.suppress(OSError):
        write_json(os.path.join(os.environ[STEPS], f"steps-{process}.json"), data)  # noqa: PTH118
