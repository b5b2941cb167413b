"""Write down when steps end, while this is requested: steps of an optimizer, or else calls of the outermost module.

It needs only torch, because it runs in the program's own Python. NSYSPROF_STEP_ENDS_FOLDER names the folder. Steps are
written down as long as the folder contains a file `on`, which is looked for five times a second. Each process that
imports torch makes PID.txt: a line for each step, with the time of its end (ns since 1970).
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from .watched_program.process_file import process_path
from .watched_program.program_steps import FirstOptimizer, ModuleCalls

FOLDER = "NSYSPROF_STEP_ENDS_FOLDER"
_LOOK_S = 0.2


class StepEnds:
    """The steps of this process. calls: makes what counts the calls of the outermost module."""

    def __init__(self, folder: str, calls: Callable[[Callable[[int], None]], Any]) -> None:
        self._folder, self._make_calls = folder, calls
        self._calls: Any = None
        self.optimizer = FirstOptimizer(self._stepped)
        self._is_on = False
        self._file: Any = None

    def start(self) -> None:
        """Announce this process, and look for the request from now on."""
        with contextlib.suppress(OSError):
            self._file = open(process_path(self._folder, ".txt"), "ab", buffering=0)  # noqa: PTH123, SIM115
            threading.Thread(target=self._watch, name="nsysprof-steps", daemon=True).start()

    def start_in_fork(self) -> None:
        """Forget what the process did that was forked, whose lines are in another file."""
        self._count(wanted=False)
        self._is_on = False
        self.optimizer.forget()
        self.start()

    def look(self) -> None:
        """Look once whether steps are to be written down."""
        is_on = os.path.exists(os.path.join(self._folder, "on"))  # noqa: PTH110, PTH118
        if is_on != self._is_on:
            self._is_on = is_on
            self._count(wanted=is_on and not self.optimizer.is_known)

    def _stepped(self) -> None:
        """Note a step of the optimizer; from the first one on, calls of a module do not count."""
        self._count(wanted=False)
        if self._is_on:
            self._note()

    def _watch(self) -> None:
        process = os.getpid()
        while os.getpid() == process and os.path.isdir(self._folder):  # noqa: PTH112 - until the holder has gone
            self.look()
            time.sleep(_LOOK_S)

    def _count(self, *, wanted: bool) -> None:
        if wanted and self._calls is None:
            self._calls = self._make_calls(lambda _steps: self._note())
            self._calls.begin()
        elif not wanted and self._calls is not None:
            self._calls.end()
            self._calls = None

    def _note(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._file.write(b"%d\n" % time.time_ns())


def begin(torch: Any) -> None:
    """Begin to watch, in a process that has just imported torch."""
    ends = StepEnds(os.environ[FOLDER], lambda ended: ModuleCalls(torch, ended))
    ends.optimizer.watch()
    os.register_at_fork(after_in_child=ends.start_in_fork)
    ends.start()
