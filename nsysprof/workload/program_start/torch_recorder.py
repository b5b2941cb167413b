"""Record a program with torch's own profiler, which starts when the program imports torch or uses CUDA.

It needs only torch, because it runs in the program's own Python. The folder is NSYSPROF_TORCH_FOLDER, and
NSYSPROF_TORCH_SCHEDULE says as JSON when to record: `delay_s` and `duration_s`, or `skip_steps` and one of `steps` (of
an optimizer) and `forward_steps` (calls of the outermost module). Each process writes PROCESS.json, in the format of
export_chrome_trace. On a GPU the recording waits until CUDA is initialised, so that a process that only forks workers,
or only serves HTTP, is not recorded.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import glob
import json
import os
import signal
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .range_times import mark_ranges
from .watched_program.after_import import attempt
from .watched_program.process_file import process_path
from .watched_program.program_steps import FirstOptimizer, ModuleCalls

FOLDER, SCHEDULE = "NSYSPROF_TORCH_FOLDER", "NSYSPROF_TORCH_SCHEDULE"
_FAULT = "torch's profiler does not record this process"


class TorchRecorder:
    """Torch's profiler over all threads of this process, once."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._process = torch, os.getpid()
        self._path = process_path(os.environ[FOLDER])
        self._schedule: dict[str, Any] = json.loads(os.environ.get(SCHEDULE) or "{}")
        self._lock = threading.RLock()
        self._profiler: Any = None
        self._is_over = False
        self._steps = 0

    def arm(self) -> None:
        """Wait for the moment at which the recording should begin; without a schedule, begin now."""
        atexit.register(lambda: attempt(self.stop, _FAULT))
        _at_end_of_worker(self.stop)
        if self._schedule.get("steps"):
            FirstOptimizer(lambda: attempt(self._step, _FAULT)).watch()
            if not self._schedule.get("skip_steps"):
                self.start()
        elif self._schedule.get("forward_steps"):
            self._count_calls()
        elif self._schedule.get("delay_s"):
            self._later(self._schedule["delay_s"], self.start)
        else:
            self.start()

    def start(self) -> None:
        """Start the profiler, and arrange for it to stop in time."""
        with self._lock:
            if self._profiler is not None or self._is_over or os.getpid() != self._process:
                return
            _mark_ranges(self._torch)
            os.register_at_fork(after_in_child=_end_at_once)
            self._profiler = _make_profiler(self._torch)
            self._profiler.start()
        _stop_at_sigterm(self.stop)
        if self._schedule.get("duration_s"):
            self._later(self._schedule["duration_s"], self.stop)

    def stop(self) -> None:
        """Stop the profiler and write what it recorded, unless this is a fork of the process that recorded."""
        with self._lock:
            profiler, self._profiler = self._profiler, None
            if profiler is None or os.getpid() != self._process:
                return
            self._is_over = True
            if self._torch.cuda.is_initialized():
                with contextlib.suppress(Exception):  # the program may have broken its context
                    self._torch.cuda.synchronize()
            profiler.stop()
            profiler.export_chrome_trace(f"{self._path}.part")
            os.replace(f"{self._path}.part", self._path)  # noqa: PTH105

    def _step(self) -> None:
        self._steps += 1
        self._has_ended(self._steps, self._schedule["steps"])

    def _count_calls(self) -> None:
        wanted = self._schedule["forward_steps"]

        def ended(steps: int) -> None:
            attempt(lambda: self._has_ended(steps, wanted), _FAULT)
            if self._is_over:
                calls.end()

        calls = ModuleCalls(self._torch, ended)
        calls.begin()
        if not self._schedule.get("skip_steps"):
            self.start()

    def _has_ended(self, steps: int, wanted: int) -> None:
        """Start or stop when so many steps have ended. wanted: how many to record."""
        skip = self._schedule.get("skip_steps") or 0
        if steps == skip:
            self.start()
        elif steps == skip + wanted:
            self.stop()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, lambda: attempt(action, _FAULT))
        timer.daemon = True
        timer.start()


def begin(torch: ModuleType) -> None:
    """Record this process and its forks, from when they use a GPU; where there is none, from now on."""
    recorder = functools.cache(lambda _process: TorchRecorder(torch))

    def arm() -> None:
        attempt(lambda: recorder(os.getpid()).arm(), _FAULT)

    if torch.version.cuda and glob.glob("/dev/nvidia[0-9]*") and os.environ.get("CUDA_VISIBLE_DEVICES") != "":  # noqa: PTH207
        torch.cuda._lazy_call(arm)
    else:
        arm()


def _make_profiler(torch: Any) -> Any:
    """Return a profiler of all threads. Before torch 2.6 it sees the operators of the thread alone that starts it."""
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_initialized() or (torch.cuda._is_in_bad_fork() is False and torch.version.cuda):
        activities.append(ProfilerActivity.CUDA)
    options: dict[str, Any] = {"activities": activities, "profile_memory": True}
    for more in ({"acc_events": True, "experimental_config": True}, {"experimental_config": True}, {}):
        extra: dict[str, Any] = dict(more)
        try:
            if extra.pop("experimental_config", None):
                from torch._C._profiler import _ExperimentalConfig

                extra["experimental_config"] = _ExperimentalConfig(profile_all_threads=True)
            return profile(**options, **extra)
        except (TypeError, ImportError):
            continue
    return profile(**options)


def _mark_ranges(torch: Any) -> None:
    """Have NVTX ranges of Python recorded as ranges of torch's profiler too, which knows nothing of NVTX."""
    held = threading.local()

    def push(name: Any) -> None:
        stack = held.__dict__.setdefault("stack", [])
        stack.append(torch.autograd.profiler.record_function(str(name)))
        stack[-1].__enter__()

    def pop() -> None:
        stack = held.__dict__.get("stack")
        if stack:
            stack.pop().__exit__(None, None, None)

    mark_ranges(torch, push, pop)


def _stop_at_sigterm(stop: Callable[[], None]) -> None:
    """Write what was recorded when SIGTERM comes, if the program does nothing about it itself."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return

    def end(number: int, _frame: Any) -> None:
        attempt(stop, _FAULT)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)


def _end_at_once() -> None:
    """Let a fork of a recorded process end as soon as Python has: torch's profiler would wait for threads it lacks.

    The C library calls what was registered last first, and gives it the exit code; `_exit` takes just that.
    """
    with contextlib.suppress(AttributeError, OSError):  # not every C library has on_exit
        library = ctypes.CDLL(None)
        library.on_exit(library._exit, None)


def _at_end_of_worker(stop: Callable[[], None]) -> None:
    """Write what a worker of multiprocessing recorded: a forked one ends without what `atexit` holds."""
    import multiprocessing
    import multiprocessing.util

    if multiprocessing.parent_process() is not None:
        multiprocessing.util.Finalize(None, attempt, args=(stop, _FAULT), exitpriority=100)
