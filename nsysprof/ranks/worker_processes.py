"""Read traces in processes of this machine, which start while this process goes on, or on a user's Dask cluster.

A fork server loads once what reading a trace needs, and each worker is a fork of it. This process itself has threads,
so it is not forked. Only on Linux are forks safe with the libraries that are loaded; elsewhere, each worker loads them.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from nsysprof.errors import MissingToolError, OutputError, SchedulerError, UsageError
from nsysprof.files.memory_reuse import reuse_freed_memory, reuse_in_pyarrow
from nsysprof.ranks.partial import code_version

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

    from distributed import Client


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


# A run may be without any worker for this long (s).
_CONNECT_S, _ALONE_S = 10.0, 60.0
# Dask leaves a half-open client behind where its own check of an address fails, so addresses are checked before.
_ADDRESS = re.compile(r"((tcp|tls|ucx|wss?)://)?[\w.%\[\]:-]+:\d{1,5}")


class DaskWorkers:
    """The workers of a Dask cluster. Dask replaces those that die, where they were started with a nanny."""

    def __init__(self, client: Client, scheduler: str) -> None:
        from distributed.scheduler import KilledWorker

        self.name = f"Dask at {scheduler}"
        self.client = client
        self.widths: Sequence[int] = [max(1, sum(client.nthreads().values()))]
        self.deaths: tuple[type[BaseException], ...] = (KilledWorker, MemoryError)
        self._last_seen = time.monotonic()

    @contextlib.contextmanager
    def open(self, _width: int) -> Iterator[Executor]:
        """Return what runs functions on the cluster, and cancels them where an error ends the `with` block."""
        executor = self.client.get_executor(pure=False, retries=1)
        self._last_seen = time.monotonic()
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)

    def check(self) -> None:
        """Raise SchedulerError where there has been no worker for a while, so that nobody waits forever."""
        if self.client.ncores():
            self._last_seen = time.monotonic()
        elif time.monotonic() - self._last_seen > _ALONE_S:
            raise SchedulerError(
                "All workers of the Dask scheduler are gone.",
                "Start workers and run the same command again: it continues with what is done.",
            )


@contextlib.contextmanager
def dask_workers(scheduler: str, tls: TlsFiles | None = None) -> Iterator[DaskWorkers]:
    """Connect to the scheduler, and return its workers.

    Raises SchedulerError where the scheduler cannot be reached or a worker runs other code.
    """
    _check_request(scheduler, tls)
    with contextlib.ExitStack() as stack:
        client = _connect(stack, scheduler, tls)
        stack.enter_context(client.as_current())
        _check_workers(client)
        yield DaskWorkers(client, scheduler)


@dataclass(frozen=True)
class TlsFiles:
    """PEM files for a scheduler at tls://, as for `dask worker`. None: Dask's configuration decides."""

    ca_file: Path | None = None
    cert: Path | None = None
    key: Path | None = None


def _check_request(scheduler: str, tls: TlsFiles | None) -> None:
    """Raise an error where Dask is missing, or where the address or the certificates cannot be right."""
    if find_spec("distributed") is None:
        raise MissingToolError("Dask is not installed.", "pip install 'nsysprof[ranks]'")
    if not _ADDRESS.fullmatch(scheduler):
        raise _unreachable(scheduler, f"{scheduler!r} is not an address")
    if tls is not None and not scheduler.startswith("tls://"):
        raise UsageError("Certificates are for a scheduler at tls://.", "Give --scheduler tls://HOST:8786.")


def _connect(stack: contextlib.ExitStack, scheduler: str, tls: TlsFiles | None) -> Client:
    """Return a client, which `stack` closes."""
    import dask
    from distributed import Client

    # Lost workers become our notes; Dask's tracebacks about them do not help the user.
    for name in ("distributed", "distributed.core", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    stack.enter_context(dask.config.set({"distributed.comm.timeouts.connect": f"{_CONNECT_S}s"}))
    try:
        security = _security(scheduler, tls)
        _greet(scheduler, security)
        return stack.enter_context(Client(scheduler, timeout=_CONNECT_S, set_as_default=False, security=security))
    except (OSError, TimeoutError, ValueError, ImportError, AttributeError) as error:
        raise _unreachable(scheduler, str(error)) from error


def _security(scheduler: str, tls: TlsFiles | None) -> Any:
    """Return Dask's TLS settings for this scheduler, or None where its address is not tls://."""
    from distributed.security import Security

    if not scheduler.startswith("tls://"):
        return None
    given = tls or TlsFiles()
    names = {"tls_ca_file": given.ca_file, "tls_client_cert": given.cert, "tls_client_key": given.key}
    for path in names.values():
        if path is not None and not path.is_file():
            raise UsageError(f"{path} is not a file.", "Give the PEM files that the scheduler was started with.")
    return Security(require_encryption=True, **{name: str(path) for name, path in names.items() if path is not None})


def _greet(scheduler: str, security: Any) -> None:
    """Check that a Dask scheduler answers at the address. Raises SchedulerError where none does.

    Dask's own client waits forever for some services that are not a scheduler.
    """
    import asyncio

    async def ask() -> Any:
        from distributed.comm import connect as connect_to

        arguments = {} if security is None else security.get_connection_args("client")
        comm = await connect_to(scheduler, timeout=_CONNECT_S / 2, **arguments)
        try:
            await comm.write({"op": "identity", "reply": True})
            return await comm.read()
        finally:
            comm.abort()

    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(asyncio.run(asyncio.wait_for(ask(), _CONNECT_S)))
        except BaseException as error:  # noqa: BLE001 (an unknown service can make Dask's reader raise anything)
            answers.append(error)

    # This runs in a thread: the caller may run an event loop, and a reader that cannot be cancelled must not block us.
    thread = threading.Thread(target=run, daemon=True, name="greet the scheduler")
    thread.start()
    thread.join(_CONNECT_S + 2)
    answer = answers[0] if answers else None
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        why = f"{type(answer).__name__}: {answer}" if isinstance(answer, OSError) and str(answer) else ""
        raise _unreachable(scheduler, why or f"no Dask scheduler answers there within {_CONNECT_S:.0f} s")


def _unreachable(scheduler: str, why: str) -> SchedulerError:
    return SchedulerError(
        f"The Dask scheduler {scheduler} cannot be reached: {why}.",
        "Give the address that `dask scheduler` printed, such as tcp://HOST:8786.",
    )


def _check_workers(client: Client) -> None:
    """Check that the scheduler has workers and that all of them run our code. Workers that join later check themselves.

    Raises SchedulerError otherwise.
    """
    try:
        client.wait_for_workers(1, timeout=_CONNECT_S)
    except TimeoutError as error:
        raise SchedulerError(
            "The Dask scheduler has no workers.", "Start some: dask worker tcp://HOST:8786 --nthreads 1"
        ) from error
    versions = client.run(code_version, on_error="return")
    wrong = {address: version for address, version in versions.items() if version != code_version()}
    if wrong:
        address, version = next(iter(wrong.items()))
        what = f"has nsysprof {version}" if isinstance(version, str) else f"cannot load nsysprof ({version})"
        raise SchedulerError(
            f"{len(wrong)} of {len(versions)} workers run a different version:  {address} {what}; here it is "
            f"{code_version()}.",
            "Install the same nsysprof on all workers and restart them.",
        )
