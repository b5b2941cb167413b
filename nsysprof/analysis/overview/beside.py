"""Run parts of an analysis in a second thread, beside those that do not need their results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")


class Beside:
    """A second thread that runs tasks in the order in which it gets them."""

    def __init__(self, pool: ThreadPoolExecutor | None) -> None:
        """Take the pool of the thread; None where each task ends before the next begins, in this thread."""
        self._pool = pool

    def start(self, task: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Return the result that the task will have."""
        if self._pool is not None:
            return self._pool.submit(task, *arguments)
        found: Future[Result] = Future()
        try:
            found.set_result(task(*arguments))
        except Exception as error:  # noqa: BLE001 - it is raised where the result is asked for
            found.set_exception(error)
        return found


@contextmanager
def beside(*, alone: bool = False) -> Iterator[Beside]:
    """Provide a second thread. Sorting, gathering and compiled code run there at the same time.

    An error, or the user's interrupt, cancels the tasks that have not begun.

    alone: whether nothing may run at the same time, so that no two tasks hold their memory at a time. This is also so
    where there is one processor.
    """
    if alone or _processors() < 2:
        yield Beside(None)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="beside") as pool:
        try:
            yield Beside(pool)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
