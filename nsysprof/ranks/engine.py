"""Run the analysis of many traces: summarize each trace in parallel, and merge the partial results as a tree.

There is one task per trace, whose result is small. Tasks run serially, in processes of this machine, or on Dask; this
process merges FAN_IN results at a time. Merging is associative and commutative, so the results are the same to the last
bit wherever and in whatever order the tasks ran.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Executor, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from nsysprof.errors import NsysprofError, OutputError, SchedulerError
from nsysprof.files.plain_file import output_error
from nsysprof.ranks.distributions import empty
from nsysprof.ranks.identity import RankSource
from nsysprof.ranks.summarize import (
    PARTS,
    Partial,
    code_version,
    failed,
    merge_partials,
    part_path,
    read_part,
    summarize_rank,
    write_part,
)
from nsysprof.results.rank_results import RankRow

FAN_IN = 8
Progress = Callable[[int, str], None]
# Where nothing ends for this long (s), workers are asked whether there are any.
_LOOK_S = 5.0
# What a trace can cause.
_OF_A_TRACE = (MemoryError, OSError, ValueError, ArithmeticError, LookupError)


class Workers(Protocol):
    """Who runs tasks beside this process."""

    # As shown in the report.
    name: str
    # How many tasks run at a time: at first, and then again and again with the tasks at which workers died.
    widths: Sequence[int]
    # Errors of a task that mean that its worker died.
    deaths: tuple[type[BaseException], ...]

    def open(self, width: int) -> AbstractContextManager[Executor]:
        """Return what runs this many tasks at a time, and ends them where an error ends the `with` block."""
        ...

    def check(self) -> None:
        """Raise SchedulerError where there are no workers any more."""
        ...


@dataclass(frozen=True)
class Task:
    """One trace to analyze.

    version: the code version of the process that requested it.
    """

    source: RankSource
    folder: Path
    version: str

    @property
    def part(self) -> Path:
        return part_path(self.source, self.folder)


@dataclass(frozen=True)
class Done:
    """The result of a run over many traces."""

    merged: Partial
    seconds: float
    # How many tasks of each kind ran.
    tasks: dict[str, int]
    # The name of the engine, as shown in the report.
    where: str


def plan_tasks(sources: Sequence[RankSource], folder: Path) -> list[Task]:
    """Return one task per source."""
    return [Task(source, folder, code_version()) for source in sources]


def run_task(task: Task) -> Partial:
    """Summarize a trace, or find its stored result, and return the partial. Its detail stays on disk.

    A trace that cannot be read becomes a row with the reason. Raises SchedulerError in a worker with other code, and
    OutputError where the output folder cannot be written.
    """
    if code_version() != task.version:
        raise SchedulerError(
            f"A worker has nsysprof {code_version()}, but this run needs {task.version}.",
            "Install the same nsysprof on all workers and restart them.",
        )
    if not task.part.parent.is_dir():
        raise SchedulerError(
            f"A worker does not see {task.part.parent}.", "Give an --out that all workers share, by its absolute path."
        )
    if not task.source.path.exists():  # a capture or a bundle can list a trace that is gone
        return failed(_unread(task, "its trace is missing", "Check whether the rank was killed.")).partial
    leaf = read_part(task.part)
    if leaf is None:
        try:
            leaf = summarize_rank(task.source)
        except OutputError:  # there is no room to unpack the trace here, but another worker may have some
            raise
        except NsysprofError as error:
            # this is not stored, because the trace may be repaired
            return failed(_unread(task, error.text, error.next_step)).partial
        write_part(leaf, task.part)
    return leaf.partial


def _unread(task: Task, reason: str, next_step: str) -> RankRow:
    source = task.source
    return RankRow(
        source.position, source.path.name, source.rank, "manifest" if source.rank is not None else "",
        source.world_size, source.host, reason, next_step,
    )  # fmt: skip


def run_serially(tasks: Sequence[Task], progress: Progress) -> Done:
    """Run all tasks in this process, one after the other, and return everything merged."""
    began = time.monotonic()
    tree = Tree(len(tasks))
    for task in tasks:
        tree.add(attempt(task))
        progress(1, task.source.path.name)
    return Done(tree.finish(), time.monotonic() - began, tree.tasks, "this process")


def attempt(task: Task) -> Partial:
    """Run a task; where that fails because of its trace, return a row with the reason."""
    try:
        return run_task(task)
    except _OF_A_TRACE as error:
        return _lost(task, error)


def _lost(task: Task, error: BaseException) -> Partial:
    """Return the partial of a trace at which its worker failed or died: one row with the reason."""
    why = f"{type(error).__name__}: {error}"[:200] if isinstance(error, _OF_A_TRACE) else "its process died twice"
    return failed(_unread(task, f"its worker failed ({why})", "Analyze it alone and watch its memory.")).partial


def run_parallel(tasks: Sequence[Task], workers: Workers, progress: Progress) -> Done:
    """Run the tasks on workers, and return everything merged.

    A trace at which a worker died is read again after all others, at last alone. Where its worker dies again, it is a
    row with the reason.
    """
    began = time.monotonic()
    run = _Run(workers, Tree(len(tasks)), progress)
    suspects = [replace(task, source=replace(task.source, one_thread=True)) for task in tasks]
    for width in workers.widths:
        suspects = run.narrow(suspects, width)
    for task in suspects:
        for _, error in run.read([task], 1):
            run.keep(task, _lost(task, error))
    return Done(run.tree.finish(), time.monotonic() - began, run.tree.tasks, workers.name)


@dataclass(frozen=True)
class _Run:
    workers: Workers
    tree: Tree
    progress: Progress

    def narrow(self, tasks: list[Task], width: int) -> list[Task]:
        """Run tasks, and return those that a worker was running when one died: at most `width` for each death.

        Tasks begin in their order, so these are the first that have not ended. The others are innocent.
        """
        suspects: list[Task] = []
        while tasks:
            unread = [task for task, _ in self.read(tasks, width)]
            suspects += unread[:width]
            tasks = unread[width:]
        return suspects

    def read(self, tasks: Sequence[Task], width: int) -> list[tuple[Task, BaseException]]:
        """Run tasks, `width` at a time, and return those at which a worker died, in their order.

        Raises errors that no single trace causes.
        """
        unread = dict.fromkeys(range(len(tasks)), BaseException())
        ended: SimpleQueue[Future[Partial]] = SimpleQueue()
        numbers: dict[Future[Partial], int] = {}
        with self.workers.open(width) as executor:
            for number, task in enumerate(tasks):
                try:
                    future = executor.submit(run_task, task)
                except self.workers.deaths:
                    break
                numbers[future] = number
                future.add_done_callback(ended.put)
            while numbers:
                try:
                    future = ended.get(timeout=_LOOK_S)
                except Empty:
                    self.workers.check()
                    continue
                number = numbers.pop(future)
                partial = self._outcome(future, tasks[number])
                if isinstance(partial, Partial):
                    del unread[number]
                    self.keep(tasks[number], partial)
                else:
                    unread[number] = partial
        return [(tasks[number], error) for number, error in unread.items()]

    def _outcome(self, future: Future[Partial], task: Task) -> Partial | BaseException:
        """Return what has ended: the result, or the death of a worker."""
        try:
            return future.result()
        except self.workers.deaths as death:
            return death
        except CancelledError:
            raise SchedulerError(
                "Dask cancelled the run.", "See the scheduler's log, and run the same command again."
            ) from None
        except ModuleNotFoundError as error:
            raise SchedulerError(
                f"A worker lacks a package: {error}.", "Install the same nsysprof[ranks] on all workers."
            ) from error
        except _OF_A_TRACE as error:
            return _lost(task, error)

    def keep(self, task: Task, partial: Partial) -> None:
        """Merge a result."""
        self.tree.add(partial)
        self.progress(1, task.source.path.name)


class Tree:
    """Merges results FAN_IN at a time, level by level, so that only few of them are in memory at once."""

    def __init__(self, leaves: int) -> None:
        self.levels: list[list[Partial]] = [[]]
        self.tasks = {"traces": leaves, "merges": 0}

    def add(self, partial: Partial, level: int = 0) -> None:
        if level == len(self.levels):
            self.levels.append([])
        self.levels[level].append(partial)
        if len(self.levels[level]) == FAN_IN:
            some, self.levels[level] = self.levels[level], []
            self.tasks["merges"] += 1
            self.add(merge_partials(some), level + 1)

    def finish(self) -> Partial:
        rest = [partial for level in self.levels for partial in level]
        self.tasks["merges"] += len(rest) > 1
        return merge_partials(rest) if rest else Partial((), empty())


def prepare_parts(folder: Path, tasks: Sequence[Task], *, fresh: bool) -> int:
    """Create the folder of partial results, remove what belongs to no task, and return how many results exist.

    fresh: whether to remove all of them.
    """
    wanted = set() if fresh else {task.part.name for task in tasks}
    try:
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
        present = [path for path in (folder / PARTS).iterdir() if path.name.endswith((".parquet", ".part"))]
        for path in present:
            if path.name not in wanted:
                path.unlink()
    except OSError as error:
        raise output_error(folder, error) from error
    return sum(path.name in wanted for path in present)


def renumber(partial: Partial, ranks: dict[int, tuple[int, str]]) -> Partial:
    """Return the partial with the rank, and how it was determined, filled in for each position."""
    rows = tuple(replace(row, rank=ranks[row.position][0], rank_from=ranks[row.position][1]) for row in partial.rows)
    return Partial(rows, partial.durations)
