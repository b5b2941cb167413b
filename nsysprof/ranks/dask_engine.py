"""The engine on Dask: workers of this machine, or a cluster that the user already has."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from nsysprof.errors import MissingToolError, NsysprofError, SchedulerError
from nsysprof.ranks.engine import FAN_IN, Done, Progress, Task, Tree, lost, merge_partials, of_workers, run_task
from nsysprof.ranks.parts import code_version

if TYPE_CHECKING:
    from distributed import Client, Future

    from nsysprof.ranks.partial import Partial

_CONNECT_S = 10.0
# Workers are counted so often, and so long there may be none.
_LOOK_S, _ALONE_S = 5.0, 60.0
# What Dask's own check of an address leaves half a client behind for.
_ADDRESS = re.compile(r"((tcp|tls|ucx|wss?)://)?[\w.%\[\]:-]+:\d{1,5}")


def has_dask() -> bool:
    """Whether dask.distributed can be loaded."""
    from importlib.util import find_spec

    return find_spec("distributed") is not None


def run_on_dask(
    tasks: Sequence[Task], progress: Progress, *, scheduler: str | None, workers: int, memory: str = "auto"
) -> Done:
    """The same graph for both: a future a trace, and for every FAN_IN results one that merges them on the workers.

    memory: limit of each local worker, as Dask has it. Raises SchedulerError where the scheduler cannot be reached or a
    worker runs other code.
    """
    if not has_dask():
        raise MissingToolError("Dask is not installed.", "pip install 'nsysprof[ranks]'")
    if scheduler is not None and not _ADDRESS.fullmatch(scheduler):
        raise _unreachable(scheduler, f"{scheduler!r} is no address")
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        client = _connect(stack, scheduler, workers, memory)
        with client.as_current():
            _check_workers(client)
            partial, counts = _run_graph(client, of_workers(tasks), progress)
        # The workers end while the results are written; the interpreter waits for the thread.
        threading.Thread(target=_close, args=(stack.pop_all(),), name="end workers").start()
    where = f"Dask at {scheduler}" if scheduler else f"{workers} Dask workers of this machine"
    return Done(partial, time.monotonic() - began, counts, where)


def _close(stack: contextlib.ExitStack) -> None:
    with contextlib.suppress(Exception):  # all results are here; what a worker says in dying is of no use
        stack.close()


def _connect(stack: contextlib.ExitStack, scheduler: str | None, workers: int, memory: str) -> Client:
    """A client, which `stack` closes, as it does the workers of this machine."""
    import dask
    from distributed import Client, LocalCluster

    # Lost workers are our notes; Dask's tracebacks of them are not the user's.
    for name in ("distributed", "distributed.nanny", "distributed.worker", "distributed.core", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    settings = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.comm.timeouts.connect": f"{_CONNECT_S}s",
        # Else Dask has its workers give freed memory back at once, and to get it again takes a third of their time.
        "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None,
        "distributed.worker.profile.enabled": False,
    }
    stack.enter_context(dask.config.set(settings))
    try:
        address: Any = scheduler
        if scheduler is None:
            address = stack.enter_context(
                LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    memory_limit=memory,
                    dashboard_address=None,
                    # Its port is 8787 otherwise, and another run beside this one would warn that it is taken.
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                    silence_logs=logging.CRITICAL,
                )
            )
        return stack.enter_context(Client(address, timeout=_CONNECT_S, set_as_default=False))
    except (OSError, TimeoutError, ValueError, ImportError, AttributeError) as error:
        raise _unreachable(scheduler or "of this machine", str(error)) from error


def _unreachable(scheduler: str, why: str) -> SchedulerError:
    return SchedulerError(
        f"The Dask scheduler {scheduler} cannot be reached: {why}.",
        "Give the address that `dask scheduler` printed, such as tcp://HOST:8786.",
    )


def _check_workers(client: Client) -> None:
    """Raises SchedulerError unless there are workers and all run our code; those that join later check themselves."""
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
            f"{len(wrong)} of {len(found)} workers run other code: {address} {what}, this is {code_version()}.",
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
        # A worker that dies takes others' tasks with it. Alone, it is clear whose fault it was.
        for task in suspects:
            rest.append(_alone(graph, task))
            progress(1, task.source.path.name)
    graph.counts["merges"] += len(rest) > 1
    return merge_partials(rest), {"traces": len(tasks), **graph.counts}


def _gather(client: Client, results: list[Future]) -> list[Partial] | None:
    """The results, or None where some were lost with their worker, and doing their traces again killed another."""
    from distributed import wait
    from distributed.scheduler import KilledWorker

    wait(results)
    try:
        found: list[Partial] = client.gather(results)
    except (KilledWorker, CancelledError):
        return None
    return found


def _from_shares(tasks: Sequence[Task]) -> Partial:
    """What the workers have written of traces that are all done, merged here."""
    tree = Tree(len(tasks))
    for task in tasks:
        tree.add(run_task(task))
    return tree.finish()


class _Graph:
    """Futures of traces and merges. Names are of this run: what the scheduler remembers may be of other files.

    waiting: results that are not being merged; merging: what each merge is of, kept until it ends.
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
        """A result. The future that merges it with others, once there are enough."""
        self.merging.pop(future, None)
        self.waiting.append(future)
        if len(self.waiting) < FAN_IN:
            return None
        some, self.waiting = self.waiting, []
        self.counts["merges"] += 1
        return self._merge(some)

    def merge_again(self, future: Future) -> Future | None:
        """A merge that died with its worker, once more; None where what it merges is lost with another one.

        Raises SchedulerError where that is not what happened.
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
    """Cancels everything where no worker has been there for a while, lest we wait for ever; says so."""
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
    """Raises what is not one trace's fault: our own errors, missing packages, a cancelled run."""
    if error is None:
        raise SchedulerError("Dask cancelled the run.", "See the scheduler's log, and run the same command again.")
    if isinstance(error, NsysprofError):
        raise error
    if isinstance(error, ModuleNotFoundError):
        raise SchedulerError(
            f"A worker lacks a package: {error}.", "Install the same nsysprof[ranks] on all workers."
        ) from error


def _alone(graph: _Graph, task: Task) -> Partial:
    """Another try of a trace over which a worker failed, with nothing beside it."""
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
