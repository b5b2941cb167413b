"""Read traces in processes of this machine, which start while this process goes on.

A fork server loads once what reading a trace needs, and each worker is a fork of it. This process itself has threads,
so it is not forked. Only on Linux are forks safe with the libraries that are loaded; elsewhere, each worker loads them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from nsysprof.errors import OutputError
from nsysprof.files.memory_reuse import reuse_freed_memory, reuse_in_pyarrow

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

_PRELOADED = "nsysprof.ranks.preload"
_END_S = 5.0
_starting = threading.Lock()
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class ProcessPool(ProcessPoolExecutor):
    """Processes that begin to start at once, in a thread.

    They end with the `with` block: in the middle of a trace where an error ended it, or where this process is killed.
    """

    def __init__(self, workers: int, memory_bytes: int | None = None) -> None:
        """Start the processes.

        memory_bytes: the limit of each one's memory; None for no limit.
        """
        context = _context()
        # It is at its end for the workers once this process has closed its own end, or has died.
        self._theirs, self._ours = context.Pipe(duplex=False)
        super().__init__(workers, context, _begin, (self._theirs, memory_bytes))
        threading.Thread(target=self._start, name="start workers", daemon=True).start()

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is None:
            self.shutdown()
        self.end()

    def end(self) -> None:
        """End all processes, in the middle of a trace too."""
        self._ours.close()
        self.shutdown(cancel_futures=True)
        self._theirs.close()

    def submit(
        self, function: Callable[_Arguments, _Result], /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> Future[_Result]:
        """Let a process call the function. Raises OutputError where none can be started."""
        with _unnoticed():
            try:
                return super().submit(_Call(function), *args, **kwargs)
            except (OSError, EOFError) as error:
                reason = f"A worker process cannot be started: {error or type(error).__name__}."
                raise OutputError(reason, "Give --workers 1: then this process does the work.") from error

    def _start(self) -> None:
        with suppress(OutputError, BrokenExecutor, RuntimeError):  # the thread of the `with` block meets them too
            self.submit(os.getpid)


class LocalWorkers:
    """Processes of this machine. The first begin to start at once; those that die are replaced by new ones."""

    def __init__(self, workers: int, memory_bytes: int | None = None) -> None:
        """Start the processes.

        memory_bytes: the limit of each one's memory; None for no limit.
        """
        self.name = f"{workers} process{'es' * (workers > 1)} of this machine"
        self.memory_bytes = memory_bytes
        # Where workers died, half as many read again what they were reading.
        self.widths: Sequence[int] = [workers >> halvings for halvings in range(max(1, workers.bit_length() - 1))]
        self.deaths: tuple[type[BaseException], ...] = (BrokenExecutor, MemoryError)
        self._first: ProcessPool | None = ProcessPool(workers, memory_bytes)

    def __enter__(self) -> LocalWorkers:
        return self

    def __exit__(self, *error: object) -> None:
        """End the processes that read nothing yet."""
        if self._first is not None:
            self._first.end()

    def open(self, width: int) -> ProcessPool:
        """Return what runs functions in this many processes, and ends them where an error ends the `with` block."""
        pool, self._first = self._first or ProcessPool(width, self.memory_bytes), None
        return pool

    def check(self) -> None:
        """Do nothing: a process that dies is noticed."""


def _begin(is_over: Connection, memory_bytes: int | None) -> None:
    """Prepare a worker process, which ends once the connection is at its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that gives the tasks
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(1))  # unpacked traces are removed
    reuse_freed_memory()
    reuse_in_pyarrow()
    threading.Thread(target=_end_with, args=(is_over,), name="end", daemon=True).start()
    if memory_bytes is not None:
        limit_memory(memory_bytes)


@dataclass(frozen=True)
class _Call(Generic[_Arguments, _Result]):
    """A function whose process ends where it shall end, and does not turn to the next call."""

    function: Callable[_Arguments, _Result]

    def __call__(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return self.function(*args, **kwargs)
        except SystemExit:
            os._exit(1)


def _end_with(is_over: Connection) -> None:
    """End this process once the connection is at its end."""
    with suppress(EOFError, OSError):
        is_over.recv()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_END_S)
    os._exit(1)


def limit_memory(limit_bytes: int) -> None:
    """Let requests for memory fail where this process would have more than a limit. Only for Linux."""
    import resource

    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    sizes = {line.partition(":")[0]: line.split()[1] for line in status.splitlines() if line.endswith(" kB")}
    # Libraries reserve memory that they never use.
    reserved = (int(sizes["VmData"]) - int(sizes["RssAnon"])) << 10
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = limit_bytes + max(0, reserved)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if most == resource.RLIM_INFINITY else min(wanted, most), most))


def _context() -> ForkServerContext | SpawnContext:
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_PRELOADED])
    return context


@contextmanager
def _unnoticed() -> Iterator[None]:
    """Keep Ctrl-C from the processes that start now, and hide the program's main module, which each would run."""
    with _starting:
        main, mask = sys.modules["__main__"], None
        if sys.platform != "win32":
            resource_tracker.ensure_running()  # it would let interrupts in again after it has started
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            if mask is not None:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
