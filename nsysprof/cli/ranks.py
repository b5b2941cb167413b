"""`nsysprof analyze` of several traces: which engine, what is there already, and where it goes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from nsysprof.errors import InterruptedCaptureError, OutputError, TraceError, UsageError

if TYPE_CHECKING:
    from nsysprof.notes import Note
    from nsysprof.rank_results import RankRow, RanksAnalysis
    from nsysprof.ranks.distributions import Key
    from nsysprof.ranks.engine import Done, Progress, Task
    from nsysprof.ranks.partial import Detail
    from nsysprof.ranks.summarize import Source

# Dask and its workers take three to five seconds to start, in which one process reads this much.
_SMALL_BYTES = 384 << 20
_WORTH_A_WORKER = 64 << 20
_PACKED_TIMES = 8  # a trace is so much larger than its archive, or more
_MARK = "ranks-in-progress"


@dataclass(frozen=True)
class Options:
    """How to run. workers: None for as many as are worth it. memory: of a local Dask worker."""

    workers: int | None
    scheduler: str | None
    memory: str
    by_order: bool
    force: bool
    figures: bool
    svg: bool
    as_json: bool


def is_many(inputs: Sequence[Path]) -> bool:
    """Whether there are several traces: several inputs, or a folder of several."""
    if len(inputs) > 1:
        return True
    if not inputs[0].is_dir():
        return False
    from nsysprof.ranks.identity import read_manifest_ranks
    from nsysprof.trace.locate import FILES, TRACES

    if read_manifest_ranks(inputs[0]):
        return True
    try:
        names = [path.name for path in inputs[0].iterdir()]
    except OSError:
        return False
    if any(name.startswith(TRACES) for name in names):
        return False
    return sum(name.endswith((*FILES, ".nsys-rep")) for name in names) > 1


def analyze_ranks(inputs: Sequence[Path], out: Path | None, nsys: Path | None, options: Options) -> None:
    """Everything, from the inputs to the folder and the terminal."""
    from nsysprof.capture.find_nsys import find_nsys
    from nsysprof.ranks.engine import plan_tasks, prepare_parts
    from nsysprof.ranks.identity import drop_copies, find_sources
    from nsysprof.report.ranks import ranks_json, render_ranks_console, write_ranks

    def say(text: str) -> None:
        if not options.as_json:
            typer.echo(text, err=True)

    if options.workers is not None and options.workers < 1:
        raise UsageError(f"--workers {options.workers} is no number of workers.", "Give 1 or more.")
    folder = (out or Path("analysis") / _default_name(inputs)).absolute()
    _check_folder(folder, force=options.force)
    is_report = any(path.suffix in (".nsys-rep", ".qdrep") or path.is_dir() for path in inputs)
    sources, copies = drop_copies(
        find_sources(inputs, find_nsys(nsys) if is_report else None), by_order=options.by_order
    )
    tasks = plan_tasks(sources, folder)
    there = prepare_parts(folder, tasks, fresh=options.force)
    (folder / _MARK).touch()
    if there:
        say(f"{there} of {len(tasks)} traces are already there from a run that did not end; the others are read")
    with _keep_going(folder, len(tasks)), _bar(len(tasks), quiet=options.as_json) as progress:
        done = _run(tasks, sources, options, progress)
    engine = {"ran on": done.where, "seconds": round(done.seconds, 2), **done.tasks}
    found = _conclude(done, tasks, copies, engine, by_order=options.by_order)
    written = write_ranks(found, folder, figures=options.figures, svg=options.svg, progress=say)
    (folder / _MARK).unlink(missing_ok=True)
    if options.as_json:
        typer.echo(json.dumps({**ranks_json(found), "folder": str(folder)}, indent=1))
        return
    import shutil

    typer.echo(render_ranks_console(found, shutil.get_terminal_size((120, 40)).columns))
    typer.echo(f"\n{len(written)} files in {folder}; read {folder / 'report.md'} first")


def analyze_folder(folder: Path, work: Path, progress: Progress) -> RanksAnalysis:
    """A folder of several traces in this process, with nothing in the result that another run would not have.

    work: for what is known of each trace.
    """
    from nsysprof.ranks.engine import plan_tasks, prepare_parts, run_serially
    from nsysprof.ranks.identity import drop_copies, find_sources

    sources, copies = drop_copies(find_sources([folder], None), by_order=False)
    tasks = plan_tasks(sources, work)
    prepare_parts(work, tasks, fresh=True)
    return _conclude(run_serially(tasks, progress), tasks, copies, {}, by_order=False)


def _conclude(
    done: Done, tasks: list[Task], copies: Sequence[Note], engine: dict[str, Any], *, by_order: bool
) -> RanksAnalysis:
    """From the shares to what a person reads. Raises TraceError where there are none."""
    from nsysprof.ranks.engine import renumber
    from nsysprof.ranks.identity import number_ranks
    from nsysprof.ranks.overview import overview

    rows = done.merged.rows
    _refuse_if_all_failed([row.reason for row in rows], rows[0].next_step)
    ranks = number_ranks(rows, {task.source.position: task.source.path for task in tasks}, by_order=by_order)
    return overview(renumber(done.merged, ranks), _details(tasks, rows), engine, copies)


def worthwhile_workers(traces: Sequence[Path], processors: int) -> int:
    """How many processes read these soonest. What nsys must export, and folders, are work for a worker each."""
    from nsysprof.trace.locate import FILES, PACKED

    work = 0
    for path in traces:
        size = path.stat().st_size if path.is_file() else 0
        times = _PACKED_TIMES if path.suffix in PACKED else 1
        work += size * times if path.name.endswith(FILES) else max(size, _WORTH_A_WORKER)
    return 1 if work < _SMALL_BYTES else max(1, min(processors, work // _WORTH_A_WORKER))


def _run(tasks: list[Task], sources: list[Source], options: Options, progress: Progress) -> Done:
    from nsysprof.ranks.dask_engine import has_dask, run_on_dask
    from nsysprof.ranks.engine import run_in_pool, run_serially

    if options.scheduler is not None:
        return run_on_dask(tasks, progress, scheduler=options.scheduler, workers=0)
    workers = options.workers
    if workers is None:
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        workers = worthwhile_workers([source.path for source in sources], processors)
    workers = min(workers, len(tasks))
    if workers == 1:
        return run_serially(tasks, progress)
    if has_dask():
        return run_on_dask(tasks, progress, scheduler=None, workers=workers, memory=options.memory)
    return run_in_pool(tasks, workers, progress)


def _details(tasks: list[Task], rows: Sequence[RankRow]) -> Iterator[tuple[RankRow, Detail, dict[Key, int]]]:
    from nsysprof.ranks.parts import read_detail

    read = {row.position for row in rows if row.is_read}
    for task in tasks:
        if task.source.position in read:
            found = read_detail(task.part)
            if found is None:
                raise OutputError(
                    f"{task.part}, which a worker wrote, is not here.",
                    "Give an --out that this machine and all workers share.",
                )
            yield found


def _refuse_if_all_failed(reasons: list[str], next_step: str) -> None:
    if all(reasons):
        raise TraceError(f"None of {len(reasons)} traces could be read. The first: {reasons[0]}", next_step)


@contextmanager
def _keep_going(folder: Path, traces: int) -> Iterator[None]:
    """An interrupt says what is kept."""
    from nsysprof.ranks.parts import PARTS

    try:
        yield
    except KeyboardInterrupt:
        kept = sum(1 for _ in (folder / PARTS).glob("*.parquet"))
        raise InterruptedCaptureError(
            f"Interrupted: {kept} of {traces} traces are done and kept in {folder / PARTS}.",
            "The same command continues there.",
        ) from None


def _default_name(inputs: Sequence[Path]) -> str:
    paths = [path.resolve() for path in inputs]
    common = paths[0] if len(paths) == 1 else Path(os.path.commonpath(paths))
    return f"{common.name or 'traces'}-ranks"


def _check_folder(folder: Path, *, force: bool) -> None:
    from nsysprof.output import output_error

    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file.", "Choose another folder with --out.")
    try:
        names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise output_error(folder, error) from error
    if not names or _MARK in names:
        return
    if "ranks.json" not in names:
        raise OutputError(
            f"{folder} exists and is not an analysis of several traces.", "Choose another folder with --out."
        )
    if not force:
        raise OutputError(
            f"{folder} already holds an analysis.", "Give --force to replace it, or another folder with --out."
        )


@contextmanager
def _bar(traces: int, *, quiet: bool) -> Iterator[Callable[[int, str], None]]:
    from nsysprof.cli.progress import count_progress

    with count_progress("traces", traces, quiet=quiet) as advance:
        yield advance
