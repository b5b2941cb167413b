"""Write down how long the ranges take that the program marks from Python, while this is requested.

It needs only the standard library, because it runs in the program's own Python. NSYSPROF_RANGES_FOLDER names the
folder. Times are written down as long as the folder contains a file `on`, which is checked at most twenty times a
second. Each process writes PID.jsonl: lines of name, begin and end (ns on the monotonic clock, which all processes
share).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any

FOLDER = "NSYSPROF_RANGES_FOLDER"
_LOOK_NS = 50_000_000
_MOST_HELD = 1000


class RangeTimes:
    """The ranges of this process."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._switch = os.path.join(folder, "on")  # noqa: PTH118
        self._looked_ns = 0
        self._is_on = False
        self._process = os.getpid()
        self._open = threading.local()
        self._done: list[tuple[str, int, int]] = []

    def push(self, name: Any) -> None:
        """Note that a range begins on this thread."""
        now = time.monotonic_ns()
        if now - self._looked_ns > _LOOK_NS:
            self._looked_ns = now
            self._look()
        stack = self._open.__dict__.setdefault("stack", [])
        stack.append((name, time.monotonic_ns()) if self._is_on else None)

    def pop(self) -> None:
        """Note that the innermost range of this thread ends."""
        now = time.monotonic_ns()
        stack = self._open.__dict__.get("stack")
        began = stack.pop() if stack else None
        if began is not None:
            self._done.append((str(began[0]), began[1], now))
            if len(self._done) >= _MOST_HELD:
                self._write()

    def _look(self) -> None:
        if os.getpid() != self._process:  # a fork has ranges of its own
            self._process, self._done = os.getpid(), []
        was_on, self._is_on = self._is_on, os.path.exists(self._switch)  # noqa: PTH110
        if was_on or self._is_on:
            self._write()

    def _write(self) -> None:
        done, self._done = self._done, []
        if done:
            path = os.path.join(self._folder, f"{self._process}.jsonl")  # noqa: PTH118
            with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write("".join(json.dumps(row) + "\n" for row in done))


def begin(torch: Any) -> None:
    """Note the ranges of torch.cuda.nvtx and of the package nvtx, in a process that has just imported torch."""
    times = RangeTimes(os.environ[FOLDER])
    mark_ranges(torch, times.push, times.pop)


def mark_ranges(torch: Any, push: Callable[[Any], None], pop: Callable[[], None]) -> None:
    """Call `push` with its name where a range of torch.cuda.nvtx or of the package nvtx begins, `pop` where it ends."""
    replace(torch.cuda.nvtx, "range_push", "range_pop", push, pop)
    if importlib.util.find_spec("nvtx") is not None:
        import nvtx

        replace(nvtx, "push_range", "pop_range", push, pop)
        _mark_annotations(nvtx.annotate, push, pop)


def _mark_annotations(annotate: Any, push: Callable[[Any], None], pop: Callable[[], None]) -> None:
    """Do so for the blocks and functions that nvtx.annotate marks; its C code does not tell their names later."""
    make, enter, leave = annotate.__init__, annotate.__enter__, annotate.__exit__

    def initialized(self: Any, message: Any = None, *arguments: Any, **named: Any) -> None:
        self.nsysprof_message = message
        make(self, message, *arguments, **named)

    def entered(self: Any) -> Any:
        push(getattr(self, "nsysprof_message", None) or "range")
        return enter(self)

    def left(self: Any, *raised: Any) -> Any:
        pop()
        return leave(self, *raised)

    annotate.__init__, annotate.__enter__, annotate.__exit__ = initialized, entered, left


def replace(module: Any, push_name: str, pop_name: str, push: Callable[[Any], None], pop: Callable[[], None]) -> None:
    own_push, own_pop = getattr(module, push_name), getattr(module, pop_name)

    @functools.wraps(own_push)
    def pushed(message: Any = "range", *arguments: Any, **named: Any) -> Any:
        push(message)
        return own_push(message, *arguments, **named)

    @functools.wraps(own_pop)
    def popped(*arguments: Any, **named: Any) -> Any:
        pop()
        return own_pop(*arguments, **named)

    setattr(module, push_name, pushed)
    setattr(module, pop_name, popped)
