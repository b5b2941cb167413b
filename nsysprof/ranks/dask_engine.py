"""Run the analysis of many traces on Dask: on workers of this machine, or on a cluster that the user already has."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysprof.errors import MissingToolError, NsysprofError, SchedulerError, UsageError
from nsysprof.ranks.engine import FAN_IN, Done, Progress, Task, Tree, lost, merge_partials, of_workers, run_task
from nsysprof.ranks.parts import code_version

if TYPE_CHECKING:
    from distributed import Client, Future

    from nsysprof.ranks.partial import Partial

_CONNECT_S = 10.0
# Workers are counted at this interval (s), and a run may be without any worker for this long (s).
_LOOK_S, _ALONE_S = 5.0, 60.0
# Dask leaves half a client behind where its own check of an address fails, so addresses are checked before.
_ADDRESS = re.compile(r"((tcp|tls|ucx|wss?)://)?[\w.%\[\]:-]+:\d{1,5}")


@dataclass(frozen=True)
class TlsFiles:
    """PEM files for a scheduler at tls://, as `dask worker` takes them. None: Dask's configuration decides."""

    ca_file: Path | None = None
    cert: Path | None = None
    key: Path | None = None


def has_dask() -> bool:
    """Return whether Dask can be used: its scheduler, and the package that keeps other users away from it."""
    from importlib.util import find_spec

    return find_spec("distributed") is not None and find_spec("cryptography") is not None


def run_on_dask(
    tasks: Sequence[Task],
    progress: Progress,
    *,
    scheduler: str | None,
    workers: int,
    memory: str = "auto",
    tls: TlsFiles | None = None,
) -> Done:
    """Run one task per trace on Dask, merge every FAN_IN results on the workers, and return everything merged.

    scheduler: the address of the user's scheduler; None starts workers on this machine.
    workers: how many local workers to start.
    memory: the memory limit of each local worker, in Dask's notation ("auto", "4GB").

    Raises SchedulerError where the scheduler cannot be reached or a worker runs other code.
    """
    if not has_dask():
        raise MissingToolError("Dask (with cryptography) is not installed.", "pip install 'nsysprof[ranks]'")
    if scheduler is not None and not _ADDRESS.fullmatch(scheduler):
        raise _unreachable(scheduler, f"{scheduler!r} is not an address")
    if tls is not None and not (scheduler or "").startswith("tls://"):
        raise UsageError("Certificates are for a scheduler at tls://.", "Give --scheduler tls://HOST:8786.")
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        client = _connect(stack, scheduler, workers, memory, tls)
        with client.as_current():
            _check_workers(client)
            partial, counts = _run_graph(client, of_workers(tasks), progress)
        # The workers end while the results are written. The interpreter waits for this thread.
        threading.Thread(target=_close, args=(stack.pop_all(),), name="end workers").start()
    where = f"Dask at {scheduler}" if scheduler else f"{workers} Dask workers of this machine"
    return Done(partial, time.monotonic() - began, counts, where)


def _close(stack: contextlib.ExitStack) -> None:
    with contextlib.suppress(Exception):  # all results have arrived; errors of ending workers do not matter
        stack.close()


def _connect(
    stack: contextlib.ExitStack, scheduler: str | None, workers: int, memory: str, tls: TlsFiles | None
) -> Client:
    """Return a client. `stack` closes it, and the local workers with it."""
    import dask
    from distributed import Client, LocalCluster
    from distributed.security import Security

    # Lost workers become our notes; Dask's tracebacks about them do not help the user.
    for name in ("distributed", "distributed.nanny", "distributed.worker", "distributed.core", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.comm.timeouts.connect": f"{_CONNECT_S}s",
        # By default Dask makes its workers return freed memory at once; getting it back takes a third of their time.
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
        "distributed.worker.profile.enabled": False,
    }
    if scheduler is None:  # the dashboard would be open to every user of the machine, and nobody needs it
        settings |= {"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}
    stack.enter_context(dask.config.set(settings))
    try:
        address: Any = scheduler
        security = None
        if scheduler is None:
            # Whoever reaches a scheduler can run code as its user. Keys made for this run keep others out.
            security = Security.temporary()
            address = stack.enter_context(
                LocalCluster(
                    host="127.0.0.1",
                    protocol="tls://",
                    security=security,
                    n_workers=workers,
                    threads_per_worker=1,
                    memory_limit=memory,
                    dashboard_address=None,
                    # The default port is 8787, and a second run on this machine would warn that it is taken.
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                    silence_logs=logging.CRITICAL,
                )
            )
        else:
            security = _security(scheduler, tls)
            _greet(scheduler, security)
        return stack.enter_context(Client(address, timeout=_CONNECT_S, set_as_default=False, security=security))
    except (OSError, TimeoutError, ValueError, ImportError, AttributeError) as error:
        raise _unreachable(scheduler or "of this machine", str(error)) from error


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
    """Check that a Dask scheduler answers at the address. Dask's own client waits for ever for some that answer.

    Raises SchedulerError where none does.
    """
    import asyncio

    async def ask() -> Any:
        from distributed.comm import connect

        arguments = {} if security is None else security.get_connection_args("client")
        comm = await connect(scheduler, timeout=_CONNECT_S / 2, **arguments)
        try:
            await comm.write({"op": "identity", "reply": True})
            return await comm.read()
        finally:
            comm.abort()

    found: list[Any] = []

    def run() -> None:
        try:
            found.append(asyncio.run(asyncio.wait_for(ask(), _CONNECT_S)))
        except BaseException as error:  # noqa: BLE001 (an unknown service can make Dask's reader raise anything)
            found.append(error)

    # In a thread: the caller may run an event loop, and a reader that cannot be cancelled must not block us.
    thread = threading.Thread(target=run, daemon=True, name="greet the scheduler")
    thread.start()
    thread.join(_CONNECT_S + 2)
    answer = found[0] if found else None
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        why = f"{type(answer).__name__}: {answer}" if isinstance(answer, OSError) and str(answer) else ""
        raise _unreachable(scheduler, why or f"no Dask scheduler answers there within {_CONNECT_S:.0f} s")


def _unreachable(scheduler: str, why: str) -> SchedulerError:
    return SchedulerError(
        f"The Dask scheduler {scheduler} cannot be reached: {why}.",
        "Give the address that `dask scheduler` printed, such as tcp://HOST:8786.",
    )


def _check_workers(client: Client) -> None:
    """Check that the scheduler has workers and that all run our code. Workers that join later check themselves.

    Raises SchedulerError otherwise.
    """
    try:
        client.wait_for_workers(1, timeout=_CONNECT_S)
    except TimeoutError as error:
        raise SchedulerError(
            "The Dask scheduler has no workers.", "Start some: dask worker tcp://HOST:8786 --nthreads 1"
        ) from error
    found = client.run(_version, on_error="return")
    wrong = {address: each for address, each in found.items() if each != code_version()}
    if wrong:
        address, each = next(iter(wrong.items()))
        what = f"has nsysprof {each}" if isinstance(each, str) else f"cannot load nsysprof ({each})"
        raise SchedulerError(
            f"{len(wrong)} of {len(found)} workers run other code: {address} {what}; here it is {code_version()}.",
            "Install the same nsysprof on all workers and restart them.",
        )


def _version() -> str:
    from nsysprof.ranks.parts import code_version as version

    return version()


def _run_graph(client: Client, tasks: Sequence[Task], progress: Progress) -> tuple[Any, dict[str, int]]:
    from distributed import as_completed

    graph = _Graph(client)
    futures = {graph.submit_trace(task): task for task in tasks}
    coming = as_completed(futures, loop=client.loop)
    suspects: list[Task] = []
    are_lost = False
    with _watched(client, futures, graph):
        for future in coming:
            task = futures.pop(future, None)
            if future.status == "finished":
                merged = graph.add(future)
            elif task is None:
                merged = graph.merge_again(future)
                if merged is None:
                    are_lost = True
            else:
                _refuse_if_of_the_run(future.exception() if future.status == "error" else None)
                suspects.append(task)
                continue
            if task is not None:
                progress(1, task.source.path.name)
            if merged is not None:
                coming.add(merged)
        rest = _gather(client, graph.waiting) if not are_lost else None
        if rest is None:
            rest = [_from_shares([task for task in tasks if task not in suspects])]
        # A worker that dies takes other tasks with it. Run alone, it is clear which trace was at fault.
        for task in suspects:
            rest.append(_alone(graph, task))
            progress(1, task.source.path.name)
    graph.counts["merges"] += len(rest) > 1
    return merge_partials(rest), {"traces": len(tasks), **graph.counts}


def _gather(client: Client, results: list[Future]) -> list[Partial] | None:
    """Return the results, or None where some were lost with their worker and a second try killed another worker."""
    from distributed import wait
    from distributed.scheduler import KilledWorker

    wait(results)
    try:
        found: list[Partial] = client.gather(results)
    except (KilledWorker, CancelledError):
        return None
    return found


def _from_shares(tasks: Sequence[Task]) -> Partial:
    """Return the merged shares that the workers have written for tasks that are all done."""
    tree = Tree(len(tasks))
    for task in tasks:
        tree.add(run_task(task))
    return tree.finish()


class _Graph:
    """The futures of traces and merges.

    Their names belong to this run alone: what the scheduler remembers from another run may be of other files. Results
    that no merge has taken yet are `waiting`; `merging` keeps the inputs of each merge until it ends.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.run = f"{time.time_ns():x}"
        self.submitted = 0
        self.counts = {"merges": 0}
        self.waiting: list[Future] = []
        self.merging: dict[Future, list[Future]] = {}
        self.has_lost_all = False

    def submit_trace(self, task: Task) -> Future:
        self.submitted += 1
        name = f"trace-{self.run}-{self.submitted}"
        return self.client.submit(run_task, task, key=name, retries=1, pure=False)

    def add(self, future: Future) -> Future | None:
        """Add a result, and return the future that merges it with others once there are enough."""
        self.merging.pop(future, None)
        self.waiting.append(future)
        if len(self.waiting) < FAN_IN:
            return None
        some, self.waiting = self.waiting, []
        self.counts["merges"] += 1
        return self._merge(some)

    def merge_again(self, future: Future) -> Future | None:
        """Submit a merge again that died with its worker, or return None where one of its inputs is lost too.

        Raises SchedulerError where the merge failed for another reason.
        """
        _refuse_if_of_the_run(future.exception() if future.status == "error" else None)
        some = self.merging.pop(future)
        return None if any(each.status == "error" for each in some) else self._merge(some)

    def _merge(self, some: list[Future]) -> Future:
        self.submitted += 1
        merged = self.client.submit(merge_partials, some, key=f"merge-{self.run}-{self.submitted}", pure=False)
        self.merging[merged] = some
        return merged


@contextlib.contextmanager
def _watched(client: Client, futures: dict[Future, Task], graph: _Graph) -> Iterator[None]:
    """Cancel all futures, with an error, once no worker has been there for a while, so that nobody waits for ever."""
    ended = threading.Event()

    def watch() -> None:
        alone_since = None
        while not ended.wait(_LOOK_S):
            if client.ncores():
                alone_since = None
            elif alone_since is None:
                alone_since = time.monotonic()
            elif time.monotonic() - alone_since > _ALONE_S:
                graph.has_lost_all = True
                client.cancel([*futures, *graph.merging, *graph.waiting])
                return

    watcher = threading.Thread(target=watch, daemon=True, name="watch workers")
    watcher.start()
    try:
        yield
    except (CancelledError, SchedulerError):
        if not graph.has_lost_all:
            raise
        raise SchedulerError(
            "All workers of the Dask scheduler are gone.",
            "Start workers and run the same command again: it continues with what is done.",
        ) from None
    finally:
        ended.set()
        watcher.join(timeout=_LOOK_S)


def _refuse_if_of_the_run(error: BaseException | None) -> None:
    """Raise what is not the fault of one trace: our own errors, missing packages, a cancelled run."""
    if error is None:
        raise SchedulerError("Dask cancelled the run.", "See the scheduler's log, and run the same command again.")
    if isinstance(error, NsysprofError):
        raise error
    if isinstance(error, ModuleNotFoundError):
        raise SchedulerError(
            f"A worker lacks a package: {error}.", "Install the same nsysprof[ranks] on all workers."
        ) from error


def _alone(graph: _Graph, task: Task) -> Partial:
    """Return the result of another try of a trace over which a worker failed, with nothing else running."""
    from distributed import wait

    future = graph.submit_trace(task)
    wait(future)
    if future.status == "finished":
        found: Partial = future.result()
        return found
    error = future.exception() if future.status == "error" else None
    _refuse_if_of_the_run(error)
    why = "killed its worker again" if type(error).__name__ == "KilledWorker" else f"{type(error).__name__}: {error}"
    return lost(task, why)
