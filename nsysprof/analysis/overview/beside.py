"""Run parts of an analysis in a second thread, beside those that do not need their results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")


class Beside:
    """A second thread that runs tasks in the order in which it gets them."""

    def __init__(self, pool: ThreadPoolExecutor, *, alone: bool) -> None:
        """Take the pool of the thread.

        alone: whether each task ends before the next begins, so that no two hold their memory at a time.
        """
        self._pool, self._alone = pool, alone

    def start(self, task: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """Return the result that the task will have."""
        found = self._pool.submit(task, *arguments)
        if self._alone:
            wait((found,))
        return found


@contextmanager
def beside(*, alone: bool = False) -> Iterator[Beside]:
    """Provide a second thread. Sorting, gathering and compiled code run there at the same time.

    An error, or the user's interrupt, cancels the tasks that have not begun.

    alone: whether nothing may run at the same time, which is also so where there is one processor.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="beside") as pool:
        try:
            yield Beside(pool, alone=alone or _processors() < 2)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
