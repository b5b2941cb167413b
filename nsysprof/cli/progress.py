"""Show progress of long work on stderr, so that stdout stays clean: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from nsysprof.app.progress import SILENT, Progress
from nsysprof.plain_text import plain_line, plain_lines

if TYPE_CHECKING:
    from nsysprof.app.progress import BenchRun, CaptureState, CaseOutcome, OnBlock, OnCase

_PASS_TITLES = {
    "timed": "untraced",
    "traced": "traced",
    "traffic": "counted (traffic)",
    "detail": "counted (detail)",
}


def show_progress(*, quiet: bool = False, indent: str = "") -> Progress:
    """Return what shows progress on this terminal, or shows nothing where `quiet`."""
    return SILENT if quiet else TerminalProgress(indent)


def _state(outcome: CaseOutcome, pass_name: str) -> str:
    return {"timed": outcome.status, "traced": outcome.traced}.get(pass_name, outcome.counted)


def _count(progress: CaptureState, pass_name: str) -> int:
    return sum(_state(outcome, pass_name) != "not_run" for outcome in progress.outcomes)


def _lines(cases: int) -> OnCase:
    said: set[tuple[str, int]] = set()
    started: dict[str, float] = {}

    def show(pass_name: str, progress: CaptureState) -> None:
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


def _bars(cases: int) -> Iterator[OnCase]:
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

        def show(pass_name: str, progress: CaptureState) -> None:
            if pass_name not in tasks:
                tasks[pass_name] = bars.add_task(_PASS_TITLES[pass_name], total=cases, case="")
            current = progress.current
            name = "" if current is None else progress.plan.range_of(progress.plan.cases[current])
            bars.update(tasks[pass_name], completed=_count(progress, pass_name), case=name)

        yield show


def _block_lines(blocks: int) -> OnBlock:
    """Print a line at every tenth of the way."""
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


def _block_bar(blocks: int) -> Iterator[OnBlock]:
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


def _row_lines(title: str, rows: int) -> Callable[[int], None]:
    """Print a line at every tenth of the way, from a million rows on."""
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
        yield lambda more, name: bars.update(task, advance=more, name=plain_line(name[:40]))


def _search_lines(budget_s: float) -> OnBlock:
    """Print a line every five seconds: the blocks so far, those left of this step, and the time left."""
    begin, said = time.monotonic(), 0.0

    def show(run: BenchRun, left: int, cell: int | None) -> None:
        nonlocal said
        now = time.monotonic()
        if now < said + 5:
            return
        said = now
        name = "" if cell is None else f", now {run.plan.name_of(cell)}"
        rest = max(0.0, budget_s - (now - begin))
        typer.echo(f"  {len(run.blocks)} blocks, {left} left of this step{name}; {rest:.0f} s left at most", err=True)

    return show


class TerminalProgress(Progress):
    """Show progress on stderr: bars where it is a terminal, lines elsewhere."""

    def __init__(self, indent: str = "") -> None:
        self._indent = indent

    def say(self, text: str) -> None:
        typer.echo(f"{self._indent}{plain_lines(text)}", err=True)

    @contextmanager
    def traces(self, count: int) -> Iterator[Callable[[int, str], None]]:
        if sys.stderr.isatty():
            yield from _count_bar("traces", count)
        else:
            yield _count_lines("traces", count)

    @contextmanager
    def rows(self, title: str, count: int) -> Iterator[Callable[[int], None]]:
        """Show a bar, or lines; what takes only a moment shows nothing."""
        if sys.stderr.isatty():
            yield from _row_bar(title, count)
        else:
            yield _row_lines(title, count)

    @contextmanager
    def cases(self, count: int) -> Iterator[OnCase]:
        if sys.stderr.isatty():
            yield from _bars(count)
        else:
            yield _lines(count)

    @contextmanager
    def blocks(self, count: int) -> Iterator[OnBlock]:
        if sys.stderr.isatty():
            yield from _block_bar(count)
        else:
            yield _block_lines(count)

    @contextmanager
    def search(self, budget_s: float) -> Iterator[OnBlock]:
        yield _search_lines(budget_s)
