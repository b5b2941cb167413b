"""Run the analysis of many traces on a Dask cluster that the user already has."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from nsysprof.errors import NsysprofError, SchedulerError
from nsysprof.ranks.engine import FAN_IN, Done, Progress, Task, Tree, lost, of_workers, run_task
from nsysprof.ranks.partial import merge_partials
from nsysprof.ranks.workers.dask_connection import TlsFiles, check_request, check_workers, connect

if TYPE_CHECKING:
    from distributed import Client, Future

    from nsysprof.ranks.partial import Partial

# Workers are counted at this interval (s), and a run may be without any worker for this long (s).
_LOOK_S, _ALONE_S = 5.0, 60.0


def run_on_dask(tasks: Sequence[Task], progress: Progress, scheduler: str, tls: TlsFiles | None = None) -> Done:
    """Run one task per trace on Dask, merge every FAN_IN results on the workers, and return everything merged.

    scheduler: the address of the user's scheduler.

    Raises SchedulerError where the scheduler cannot be reached or a worker runs other code.
    """
    check_request(scheduler, tls)
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        client = connect(stack, scheduler, tls)
        with client.as_current():
            check_workers(client)
            partial, counts = _run_graph(client, of_workers(tasks), progress)
    return Done(partial, time.monotonic() - began, counts, f"Dask at {scheduler}")


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
        # A worker that dies takes other tasks with it. Running each alone shows which trace is at fault.
        for task in suspects:
            rest.append(_alone(graph, task))
            progress(1, task.source.path.name)
    graph.counts["merges"] += len(rest) > 1
    return merge_partials(rest), {"traces": len(tasks), **graph.counts}


def _gather(client: Client, results: list[Future]) -> list[Partial] | None:
    """Return the results; None where some were lost with their worker and a second try killed another worker."""
    from distributed import wait
    from distributed.scheduler import KilledWorker

    wait(results)
    try:
        found: list[Partial] = client.gather(results)
    except (KilledWorker, CancelledError):
        return None
    return found


def _from_shares(tasks: Sequence[Task]) -> Partial:
    """Return the merged results that the workers have written for tasks that are all finished."""
    tree = Tree(len(tasks))
    for task in tasks:
        tree.add(run_task(task))
    return tree.finish()


class _Graph:
    """The futures of traces and merges.

    Their names are unique to this run, because the scheduler may remember results of another run about other files.
    `waiting` holds results that no merge has taken yet; `merging` keeps the inputs of each merge until it ends.
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
        """Submit again a merge whose worker died; return None where one of its inputs is lost too.

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
    """Cancel all futures with an error once there has been no worker for a while, so that nobody waits forever."""
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
    """Raise errors that no single trace causes: our own errors, missing packages, a cancelled run."""
    if error is None:
        raise SchedulerError("Dask cancelled the run.", "See the scheduler's log, and run the same command again.")
    if isinstance(error, NsysprofError):
        raise error
    if isinstance(error, ModuleNotFoundError):
        raise SchedulerError(
            f"A worker lacks a package: {error}.", "Install the same nsysprof[ranks] on all workers."
        ) from error


def _alone(graph: _Graph, task: Task) -> Partial:
    """Return the result of another try of a trace at which a worker failed, with nothing else running."""
    from distributed import wait

    future = graph.submit_trace(task)
    wait(future)
    if future.status == "finished":
        found: Partial = future.result()
        return found
    error = future.exception() if future.status == "error" else None
    _refuse_if_of_the_run(error)
    why = (
        "its worker was killed again" if type(error).__name__ == "KilledWorker" else f"{type(error).__name__}: {error}"
    )
    return lost(task, why)
