"""The engine on Dask: workers of this machine, or a cluster that the user already has."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nsysprof.errors import MissingToolError, NsysprofError, SchedulerError
from nsysprof.ranks.engine import FAN_IN, TRIES, Done, Progress, Task, lost, merge_partials, run_task
from nsysprof.ranks.parts import code_version

if TYPE_CHECKING:
    from distributed import Client, Future

_CONNECT_S = 10.0
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
    with _connect(scheduler, workers, memory) as client:
        _check_workers(client)
        partial, counts = _run_graph(client, tasks, progress)
        where = f"Dask at {scheduler}" if scheduler else f"{workers} Dask workers of this machine"
    return Done(partial, time.monotonic() - began, counts, where)


@contextlib.contextmanager
def _connect(scheduler: str | None, workers: int, memory: str) -> Iterator[Client]:
    import dask
    from distributed import Client, LocalCluster

    # Lost workers are our notes; Dask's tracebacks of them are not the user's.
    for name in ("distributed", "distributed.nanny", "distributed.worker", "distributed.core", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    settings = {"distributed.scheduler.allowed-failures": TRIES, "distributed.comm.timeouts.connect": f"{_CONNECT_S}s"}
    with dask.config.set(settings), contextlib.ExitStack() as stack:
        try:
            address: Any = scheduler
            if scheduler is None:
                address = stack.enter_context(
                    LocalCluster(
                        n_workers=workers,
                        threads_per_worker=1,
                        memory_limit=memory,
                        dashboard_address=None,
                        silence_logs=logging.CRITICAL,
                    )
                )
            client = stack.enter_context(Client(address, timeout=_CONNECT_S, set_as_default=False))
        except (OSError, TimeoutError, ValueError, ImportError, AttributeError) as error:
            raise _unreachable(scheduler or "of this machine", str(error)) from error
        yield client


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

    # Names that no other run on the scheduler has: what it remembers may be of files that have changed.
    run = f"{time.time_ns():x}"
    futures = {
        client.submit(run_task, task, key=f"trace-{run}-{task.source.position}", retries=1, pure=False): task
        for task in tasks
    }
    waiting: list[Future] = []
    failed = []
    counts = {"traces": len(tasks), "merges": 0}
    coming = as_completed(futures, loop=client.loop)
    for future in coming:
        task = futures.pop(future, None)
        if future.status == "finished":
            waiting.append(future)
        else:
            failed.append(_give_up(task, future))
        if task is not None:
            progress(1, task.source.path.name)
        if len(waiting) == FAN_IN:
            counts["merges"] += 1
            merged = client.submit(merge_partials, waiting, key=f"merge-{run}-{counts['merges']}", retries=1)
            coming.add(merged)
            # Merged, they are forgotten: a worker holds no more than what is not merged yet.
            waiting = []
    rest = [*failed, *client.gather(waiting)]
    counts["merges"] += len(rest) > 1
    return merge_partials(rest), counts


def _give_up(task: Task | None, future: Future) -> Any:
    """The row of a trace that failed; other errors are the run's."""
    error = future.exception()
    if isinstance(error, NsysprofError) or task is None or error is None:
        raise error or SchedulerError("Dask cancelled the run.", "See the scheduler's log, and run the command again.")
    if isinstance(error, ModuleNotFoundError):
        raise SchedulerError(
            f"A worker lacks a package: {error}.", "Install the same nsysprof[ranks] on all workers."
        ) from error
    why = "killed its worker again and again" if type(error).__name__ == "KilledWorker" else str(error)
    return lost(task, f"{type(error).__name__}: {why}")
