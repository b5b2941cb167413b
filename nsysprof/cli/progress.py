"""Progress on long work: a bar on a terminal, one line a case elsewhere, on stderr so that stdout stays clean."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from nsysprof.capture.bench import BenchRun
    from nsysprof.capture.collect import CaseOutcome, Progress

_PASS_TITLES = {
    "timed": "untraced",
    "traced": "traced",
    "traffic": "counted (traffic)",
    "detail": "counted (detail)",
}


@contextmanager
def capture_progress(cases: int, *, quiet: bool) -> Iterator[Callable[[str, Progress], None]]:
    """A callback for run_capture that shows the pass, the case, the count and the time left."""
    if quiet:
        yield lambda _pass, _progress: None
    elif sys.stderr.isatty():
        yield from _bars(cases)
    else:
        yield _lines(cases)


def _state(outcome: CaseOutcome, pass_name: str) -> str:
    return {"timed": outcome.status, "traced": outcome.traced}.get(pass_name, outcome.counted)


def _count(progress: Progress, pass_name: str) -> int:
    return sum(_state(outcome, pass_name) != "not_run" for outcome in progress.outcomes)


def _lines(cases: int) -> Callable[[str, Progress], None]:
    said: set[tuple[str, int]] = set()
    started: dict[str, float] = {}

    def show(pass_name: str, progress: Progress) -> None:
        if pass_name not in started:
            started[pass_name] = time.monotonic()
            typer.echo(f"{_PASS_TITLES[pass_name]} pass:", err=True)
        for index, outcome in enumerate(progress.outcomes):
            state = _state(outcome, pass_name)
            if state == "not_run" or (pass_name, index) in said:
                continue
            said.add((pass_name, index))
            done = _count(progress, pass_name)
            each = (time.monotonic() - started[pass_name]) / done
            name = progress.plan.range_of(progress.plan.cases[index])
            typer.echo(f"  [{done}/{cases}] {name}: {state}, about {each * (cases - done):.0f} s left", err=True)

    return show


def _bars(cases: int) -> Iterator[Callable[[str, Progress], None]]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[case]}", markup=False),
    )  # fmt: skip
    with Bars(*columns, console=Console(stderr=True)) as bars:
        tasks = {}

        def show(pass_name: str, progress: Progress) -> None:
            if pass_name not in tasks:
                tasks[pass_name] = bars.add_task(_PASS_TITLES[pass_name], total=cases, case="")
            current = progress.current
            name = "" if current is None else progress.plan.range_of(progress.plan.cases[current])
            bars.update(tasks[pass_name], completed=_count(progress, pass_name), case=name)

        yield show


@contextmanager
def block_progress(blocks: int, *, quiet: bool) -> Iterator[Callable[[BenchRun, int, int | None], None]]:
    """A callback for run_bench that shows how many blocks are done, which cell is in work, and the time left."""
    if quiet:
        yield lambda _run, _left, _cell: None
    elif sys.stderr.isatty():
        yield from _block_bar(blocks)
    else:
        yield _block_lines(blocks)


def _block_lines(blocks: int) -> Callable[[BenchRun, int, int | None], None]:
    """A line at every tenth of the way."""
    begin, said = time.monotonic(), 0

    def show(run: BenchRun, left: int, _cell: int | None) -> None:
        nonlocal said
        done = blocks - left
        if done * 10 // max(1, blocks) > said:
            said = done * 10 // max(1, blocks)
            rest = (time.monotonic() - begin) / done * left
            failed = sum(block.status != "ok" for block in run.blocks)
            text = f", {failed} failed" if failed else ""
            typer.echo(f"  {done} of {blocks} blocks{text}, about {rest:.0f} s left", err=True)

    return show


def _block_bar(blocks: int) -> Iterator[Callable[[BenchRun, int, int | None], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("blocks"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[cell]}", markup=False),
    )  # fmt: skip
    with Bars(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task("blocks", total=blocks, cell="")

        def show(run: BenchRun, left: int, cell: int | None) -> None:
            bars.update(task, completed=blocks - left, cell="" if cell is None else run.plan.name_of(cell))

        yield show


@contextmanager
def row_progress(title: str, rows: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A callback for writers that is told how many more rows are written; what takes a moment shows nothing."""
    if quiet:
        yield lambda _more: None
    elif sys.stderr.isatty():
        yield from _row_bar(title, rows)
    else:
        yield _row_lines(title, rows)


def _row_lines(title: str, rows: int) -> Callable[[int], None]:
    """A line at every tenth of the way of a million rows and more."""
    begin, done, said = time.monotonic(), 0, 0

    def advance(more: int) -> None:
        nonlocal done, said
        done += more
        if rows >= 1_000_000 and done * 10 // rows > said:
            said = done * 10 // rows
            rest = (time.monotonic() - begin) / done * (rows - done)
            typer.echo(f"  {title}: {done:,} of {rows:,} rows, about {max(0, rest):.0f} s left", err=True)

    return advance


def _row_bar(title: str, rows: int) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=rows)
        yield lambda more: bars.advance(task, more)


@contextmanager
def count_progress(title: str, count: int, *, quiet: bool) -> Iterator[Callable[[int, str], None]]:
    """A callback that is told how many more are done, and the name of the last: a bar, or a line at every tenth."""
    if quiet:
        yield lambda _more, _name: None
    elif sys.stderr.isatty():
        yield from _count_bar(title, count)
    else:
        yield _count_lines(title, count)


def _count_lines(title: str, count: int) -> Callable[[int, str], None]:
    begin, done, said = time.monotonic(), 0, 0

    def advance(more: int, _name: str) -> None:
        nonlocal done, said
        done += more
        if done * 10 // max(1, count) > said:
            said = done * 10 // max(1, count)
            rest = (time.monotonic() - begin) / done * (count - done)
            typer.echo(f"  {done:,} of {count:,} {title}, about {max(0, rest):.0f} s left", err=True)

    return advance


def _count_bar(title: str, count: int) -> Iterator[Callable[[int, str], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[name]}", markup=False),
    )  # fmt: skip
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task(title, total=count, name="")
        yield lambda more, name: bars.update(task, advance=more, name=name[:40])
