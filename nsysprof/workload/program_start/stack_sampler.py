"""Sample the Python stacks of a captured program's threads, and write them when the program ends.

Making a stream wait for another takes the host no time, so no sample would ever show where that happens. Therefore the
stack is recorded each time that torch does it.

It needs only the standard library, because it runs in the program's own Python.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from .watched_program.after_import import after_import, before_gpu_library
from .watched_program.process_file import process_path, write_json

FOLDER = "NSYSPROF_STACKS_FOLDER"
_INTERVAL_S = 0.002
_MOST_SAMPLES = 1_000_000
_MOST_FRAMES = 40
_MOST_WAITS = 50_000


class StackSampler:
    """A thread that looks at the stacks of all others every two milliseconds."""

    def __init__(self, folder: str) -> None:
        self._path, self._process = process_path(folder), os.getpid()
        self._stacks: dict[tuple[tuple[str, int, str], ...], int] = {}
        # Time (ns since 1970), thread and stack of each sample.
        self._samples: list[tuple[int, int, int]] = []
        # The same at each moment at which a stream is told to wait.
        self._waits: list[tuple[int, int, int]] = []
        self._own_ns = 0
        self._start_ns = time.time_ns()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nsysprof stacks", daemon=True)

    def start(self) -> None:
        """Begin to sample, until the program ends."""
        self._thread.start()
        atexit.register(self._write)

    def mark_waits(self, torch: Any) -> None:
        """Take a stack whenever Python makes a stream of torch wait for an event."""
        for owner, name in ((torch.cuda.Stream, "wait_event"), (torch.cuda.Event, "wait")):
            setattr(owner, name, self._marked(getattr(owner, name)))

    def _marked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            if len(self._waits) < _MOST_WAITS:
                moment = time.time_ns()
                self._waits.append((moment, threading.get_native_id(), self._number(sys._getframe(1))))
            return function(*arguments, **named)

        return call

    def _run(self) -> None:
        own = threading.get_ident()
        while not self._ended.wait(_INTERVAL_S) and len(self._samples) < _MOST_SAMPLES:
            begin = time.thread_time_ns()
            moment = time.time_ns()
            native = {thread.ident: thread.native_id for thread in threading.enumerate()}
            for ident, frame in sys._current_frames().items():
                thread = native.get(ident)
                if ident != own and thread is not None:
                    self._samples.append((moment, thread, self._number(frame)))
            self._own_ns += time.thread_time_ns() - begin

    def _number(self, frame: FrameType | None) -> int:
        stack: list[tuple[str, int, str]] = []
        while frame is not None and len(stack) < _MOST_FRAMES:
            stack.append((frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name))
            frame = frame.f_back
        return self._stacks.setdefault(tuple(stack), len(self._stacks))

    def _write(self) -> None:
        """Write the samples, unless this is a fork of the process that sampled."""
        if os.getpid() != self._process:
            return
        self._ended.set()
        self._thread.join(1.0)
        write_json(
            self._path,
            {
                "format_version": 1,
                "process": self._process,
                "wall_ns": time.time_ns() - self._start_ns,
                "own_ns": self._own_ns,
                "stacks": list(self._stacks),
                "samples": self._samples,
                "waits": self._waits,
            },
        )


def begin() -> None:
    """Sample this process from when it wants a library of the GPU."""
    before_gpu_library("stacks", _start)


def _start() -> None:
    sampler = StackSampler(os.environ[FOLDER])
    sampler.start()
    after_import("torch", "waits of streams", sampler.mark_waits)
