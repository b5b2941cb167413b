"""Run the analysis of many traces: summarize each trace in parallel, and merge the partial results as a tree.

The same graph runs serially, in processes of this machine, or on Dask. It has one task per trace, whose result is
small, and one task per FAN_IN results. Merging is associative and commutative, so the results are the same to the last
bit wherever and in whatever order the tasks ran.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nsysprof.errors import NsysprofError, OutputError, SchedulerError
from nsysprof.ranks.distributions import empty
from nsysprof.ranks.partial import Partial, failed, merge_partials
from nsysprof.ranks.partial_files import PARTS, code_version, part_path, read_part, write_part
from nsysprof.ranks.rank_source import RankSource
from nsysprof.ranks.summarize import summarize_rank
from nsysprof.results.rank_results import RankRow

FAN_IN = 8
Progress = Callable[[int, str], None]


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


def of_workers(tasks: Sequence[Task]) -> list[Task]:
    """Return the tasks for parallel processes that may use one processor each."""
    return [replace(task, source=replace(task.source, one_thread=True)) for task in tasks]


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
    found = read_part(task.part)
    if found is None:
        try:
            found = summarize_rank(task.source)
        except OutputError:  # there is no room to unpack the trace here, but another worker may have some
            raise
        except NsysprofError as error:
            # this is not stored, because the trace may be repaired
            return failed(_unread(task, error.text, error.next_step)).partial
        write_part(found, task.part)
    return found.partial


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
    except (MemoryError, OSError, ValueError, ArithmeticError, LookupError) as error:
        return lost(task, f"{type(error).__name__}: {error}")


def lost(task: Task, why: str) -> Partial:
    """Return the partial of a trace at which its worker failed: one row with the reason."""
    return failed(_unread(task, f"its worker failed ({why[:200]})", "Analyze it alone and watch its memory.")).partial


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
    from nsysprof.files.output import output_error

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
