"""Run the stages of an analysis: each as soon as what it needs is there, and free what no later stage needs."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from nsysprof.files.memory_reuse import return_freed_memory


@dataclass(frozen=True)
class Stage:
    """One part of an analysis.

    gives: the name of its result.
    run: takes what the stage needs, in this order.
    needs: names of results of earlier stages, and of what the caller gives.
    beside: whether a second thread may run it. Sorting, gathering and compiled code run there at the same time.
    """

    gives: str
    run: Callable[..., Any]
    needs: tuple[str, ...]
    beside: bool = False


@dataclass(frozen=True)
class StageTime:
    """How long a stage ran: seconds, and seconds of processor time of its own thread."""

    stage: str
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class StagesRun:
    """The results that were wanted by name, and the time of each stage."""

    results: Mapping[str, Any]
    times: tuple[StageTime, ...]


def run_stages(
    stages: Sequence[Stage], given: Mapping[str, Any], wanted: Sequence[str], *, is_large: bool = True
) -> StagesRun:
    """Run stages in their order and return what is wanted. An error, or the user's interrupt, cancels what is left.

    A result is dropped after the last stage that needs it.

    is_large: whether the trace is worth a second thread, and the memory that it took is worth returning to the system.
    """
    run = _Run(dict(given), Counter([*wanted, *(name for stage in stages for name in stage.needs)]), is_large)
    has_second = is_large and _processors() > 1
    with ThreadPoolExecutor(1, thread_name_prefix="beside") if has_second else nullcontext() as second:
        try:
            for stage in stages:
                run.start(stage, second)
            return StagesRun({name: run.result(name) for name in wanted}, tuple(run.times))
        except BaseException:
            if isinstance(second, Executor):
                second.shutdown(wait=False, cancel_futures=True)
            raise


def needed_stages(stages: Sequence[Stage], given: Mapping[str, Any], wanted: Sequence[str]) -> list[Stage]:
    """Return the stages without which the wanted results cannot be made of what is given."""
    needed, kept = set(wanted), list[Stage]()
    for stage in reversed(stages):
        if stage.gives in needed and stage.gives not in given:
            kept.append(stage)
            needed.update(stage.needs)
    return kept[::-1]


@dataclass
class _Run:
    """The results that are there, and how many stages still need each."""

    results: dict[str, Any]
    users: Counter[str]
    is_large: bool
    times: list[StageTime] = field(default_factory=list)
    lock: Lock = field(default_factory=Lock)

    def start(self, stage: Stage, second: Executor | None) -> None:
        """Run a stage, or let the second thread do so after those that it has got already."""
        beside = second is not None and stage.beside
        self.results[stage.gives] = second.submit(self.execute, stage) if second and beside else self.execute(stage)

    def result(self, name: str) -> Any:
        """Return a result, after the second thread has made it."""
        result = self.results[name]
        return result.result() if isinstance(result, Future) else result

    def execute(self, stage: Stage) -> Any:
        """Return the result of a stage, note its time, and drop what no other stage needs."""
        needed = [self.result(name) for name in stage.needs]
        wall, cpu = time.perf_counter(), time.thread_time()
        result = stage.run(*needed)
        took = StageTime(stage.gives, time.perf_counter() - wall, time.thread_time() - cpu)
        needed.clear()
        with self.lock:
            self.times.append(took)
            self.users.subtract(stage.needs)
            unused = [name for name in stage.needs if not self.users[name]]
            for name in unused:
                self.results.pop(name, None)
        if self.is_large:
            return_freed_memory()
        return result


def _processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
