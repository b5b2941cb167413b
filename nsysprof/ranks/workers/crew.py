"""Read traces in processes of this machine, which start while this process goes on.

A fork server loads once what reading a trace needs, and each worker is a fork of it. This process itself has threads,
so it is not forked. Only on Linux are forks safe with the libraries that are loaded; elsewhere, each worker loads them.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from queue import SimpleQueue
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from nsysprof.errors import OutputError

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

    from nsysprof.ranks.engine import Done, Progress, Task
    from nsysprof.ranks.partial import Partial

_WORKER = "nsysprof.ranks.workers.worker"
# While the workers start, this process reads traces of at most this size (bytes): none can take all its memory.
_SMALL_BYTES = 64 << 20
_END_S = 5.0
_starting = threading.Lock()


class Crew:
    """Workers that start at once, in threads, and end with the `with` block.

    A thread for each worker gives it tasks and takes its results. A worker has its next task before it has ended the
    one before, so that it never waits for this process.
    """

    def __init__(self, workers: int, memory_bytes: int | None = None, *, helps: bool = True) -> None:
        """Start the workers.

        memory_bytes: the limit of each worker's memory; None for no limit.
        helps: whether this process, which has no limit, reads small traces while the workers start.
        """
        self.workers, self.memory_bytes = workers, memory_bytes
        self._helps = helps and memory_bytes is None
        self._left: deque[Task] = deque()
        self._results: SimpleQueue[tuple[Task, Partial | None] | Exception] = SimpleQueue()
        self._has_tasks, self._is_ready, self._is_over = threading.Event(), threading.Event(), threading.Event()
        self._processes: set[BaseProcess] = set()
        # Nobody waits for a worker that is still starting when all traces have been read.
        threads = [threading.Thread(target=self._attend, name=f"worker {n}", daemon=True) for n in range(workers)]
        self._threads = threads
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: object, _trace: TracebackType | None) -> None:
        """Let the workers end; where an error ended the block, in the middle of a trace."""
        self._is_over.set()
        self._has_tasks.set()
        if kind is None:
            return
        with _starting:  # a worker that is just being started is among them then
            processes = [*self._processes]
        for process in processes:
            process.terminate()
        for process in processes:
            process.join(_END_S)
            if process.is_alive():
                process.kill()
        for thread in self._threads:
            thread.join(_END_S)

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, Partial | None]]:
        """Yield tasks with their results as they end, in any order; None for a task at which its worker died.

        Until the first worker is ready, this process reads small traces itself.
        """
        self._left.extend(tasks)
        self._has_tasks.set()
        for _ in tasks:
            found = self._read_here() or self._results.get()
            if isinstance(found, Exception):
                raise found
            yield found

    def _read_here(self) -> tuple[Task, Partial] | None:
        from nsysprof.ranks.engine import attempt

        if self._is_ready.is_set() or not self._helps:
            return None
        task = self._take()
        if task is None:
            return None
        path = task.source.path
        if path.suffix == ".sqlite" and path.is_file() and path.stat().st_size <= _SMALL_BYTES:
            return task, attempt(task)
        self._left.append(task)
        return None

    def _take(self) -> Task | None:
        try:
            return None if self._is_over.is_set() else self._left.popleft()
        except IndexError:
            return None

    def _attend(self) -> None:
        """Start a worker and give it tasks until none are left. It is replaced where it dies."""
        try:
            while not self._is_over.is_set():
                process, worker = self._start()
                with worker:
                    if self._guide(worker):
                        return
                process.join(_END_S)
                self._processes.discard(process)
        except Exception as error:  # noqa: BLE001 - the thread of the `with` block raises it
            self._results.put(error)

    def _guide(self, worker: Connection) -> bool:
        """Give a worker tasks and take its results. Return False where it has died, and True when none are left."""
        given: deque[Task] = deque()
        self._has_tasks.wait()
        while True:
            self._give(worker, given)
            if not given:
                return True
            answer = _hear(worker)
            task = given.popleft()
            self._left.extendleft(reversed(given) if answer is None else ())
            self._results.put(answer if isinstance(answer, Exception) else (task, answer))
            if answer is None:
                return False

    def _give(self, worker: Connection, given: deque[Task]) -> None:
        """Send a task, and one more if enough are left that no other worker has to wait for it."""
        while len(given) < (2 if len(self._left) > self.workers else 1):
            task = self._take()
            if task is None:
                return
            given.append(task)
            with suppress(OSError):  # it has died, which is noticed when its answer does not come
                worker.send(task)

    def _start(self) -> tuple[BaseProcess, Connection]:
        """Start a worker, and return it and the connection to it when it is ready."""
        context = _context()
        ours, others = context.Pipe()
        process = context.Process(target=_serve, args=(others, self.memory_bytes), daemon=True)
        with _starting, _without_main():
            _block_interrupts()
            try:
                process.start()
            except (OSError, EOFError) as error:
                said = f"A worker process cannot be started: {error or type(error).__name__}."
                raise OutputError(said, "Give --workers 1: then this process does the work.") from error
            self._processes.add(process)
        others.close()
        with suppress(EOFError, OSError):
            ours.recv()
            self._is_ready.set()
        return process, ours


def run_in_processes(tasks: Sequence[Task], crew: Crew, progress: Progress) -> Done:
    """Run the tasks in processes of this machine, and return everything merged.

    A trace at which its process died gets another try, after all others and alone.
    """
    from nsysprof.ranks.engine import Done, Tree, lost, of_workers

    began = time.monotonic()
    tree = Tree(len(tasks))
    again = []
    for task, partial in crew.results(of_workers(tasks)):
        if partial is None:
            again.append(task)
        else:
            tree.add(partial)
            progress(1, task.source.path.name)
    for task in again:
        with Crew(1, crew.memory_bytes, helps=False) as alone:
            ((_, found),) = alone.results([task])
        tree.add(lost(task, "its process died twice") if found is None else found)
        progress(1, task.source.path.name)
    where = f"{crew.workers} process{'es' * (crew.workers > 1)} of this machine"
    return Done(tree.finish(), time.monotonic() - began, tree.tasks, where)


def _serve(connection: Connection, memory_bytes: int | None) -> None:
    from nsysprof.ranks.workers.worker import serve

    serve(connection, memory_bytes)


def _hear(worker: Connection) -> Partial | Exception | None:
    """Return the worker's answer; None where it has died."""
    try:
        answer: Partial | Exception = worker.recv()
    except (EOFError, OSError):
        return None
    return answer


def _context() -> ForkServerContext | SpawnContext:
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([_WORKER])
    return context


def _block_interrupts() -> None:
    """Keep Ctrl-C from this thread, and so from the processes that it starts."""
    if sys.platform != "win32":
        resource_tracker.ensure_running()  # it would let interrupts in again after it has started
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the program's main module, which each worker would run: it need not be made for that."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
