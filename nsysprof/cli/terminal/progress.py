"""Show the progress of long work on stderr, if that is a terminal.

All commands show the same: a line with the current step and, where there is something to count, a bar with how many are
done, how fast, and the time left. Both disappear when the work is done.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from nsysprof.app.progress import SILENT, Progress
from nsysprof.cli.terminal.standard_streams import show_status
from nsysprof.report.formats.escape import clean

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from nsysprof.app.progress import BenchRun, CaptureState, CaseOutcome, OnBlock, OnCase

_PASS_TITLES = {
    "timed": "untraced",
    "traced": "traced",
    "traffic": "counted (traffic)",
    "detail": "counted (detail)",
}
# The part of a line of 80 characters that is left for the name of the current item.
_BAR_WIDTH, _MOST_NAME = 16, 40


def show_progress(*, quiet: bool = False) -> Progress:
    """Return an object that shows progress on this terminal, or shows nothing where `quiet`."""
    return SILENT if quiet else TerminalProgress()


class TerminalProgress(Progress):
    """Shows progress on stderr if it is a terminal. Lines that the user must see are printed in any case."""

    def say(self, text: str) -> None:
        show_status(clean(text))

    def tell(self, text: str) -> None:
        typer.echo("\n".join(map(clean, text.split("\n"))), err=True)

    @contextmanager
    def traces(self, count: int) -> Iterator[Callable[[int, str], None]]:
        with _meters() as meters:
            meter = meters.add("traces", count)
            yield meter.advance

    @contextmanager
    def rows(self, title: str, count: int) -> Iterator[Callable[[int], None]]:
        with _meters() as meters:
            meter = meters.add(title, count)
            yield meter.advance

    @contextmanager
    def cases(self, count: int) -> Iterator[OnCase]:
        with _meters() as meters:
            of_pass: dict[str, Meter] = {}

            def show(pass_name: str, state: CaptureState) -> None:
                meter = of_pass.get(pass_name) or meters.add(_PASS_TITLES[pass_name], count)
                of_pass[pass_name] = meter
                current = state.current
                name = "" if current is None else state.plan.range_of(state.plan.cases[current])
                meter.reach(sum(_state(outcome, pass_name) != "not_run" for outcome in state.outcomes), name)

            yield show

    @contextmanager
    def blocks(self, count: int) -> Iterator[OnBlock]:
        with _meters() as meters:
            meter = meters.add("blocks", count)

            def show(run: BenchRun, left: int, cell: int | None) -> None:
                failed = sum(block.status != "ok" for block in run.blocks)
                name = "" if cell is None else run.plan.name_of(cell)
                meter.reach(count - left, f"{name}, {failed} failed" if failed else name)

            yield show

    @contextmanager
    def search(self, budget_s: float) -> Iterator[OnBlock]:
        """Show how much of the time is used. How many blocks fit into it is known only at the end."""
        begin = time.monotonic()
        with _meters() as meters:
            meter = meters.add("seconds", round(budget_s))

            def show(run: BenchRun, left: int, cell: int | None) -> None:
                name = "" if cell is None else f", {run.plan.name_of(cell)}"
                meter.reach(
                    min(budget_s, time.monotonic() - begin), f"{len(run.blocks)} blocks, {left} left of this step{name}"
                )

            yield show


def rate_text(per_second: float) -> str:
    """Return a rate with three digits; a slow rate as seconds for each item."""
    if per_second <= 0:
        return ""
    return f"{1 / per_second:.3g} s each" if per_second < 1 else f"{per_second:,.{2 if per_second < 10 else 0}f}/s"


class Meter:
    """A progress bar for one thing that is counted.

    bars, task: where it is shown; None where nothing is shown.
    """

    def __init__(self, total: int, bars: Bars | None, title: str) -> None:
        self._total, self._bars, self._begin, self._done = total, bars, time.monotonic(), 0.0
        if bars is not None:
            self._task = bars.add_task(clean(title), total=total, count=f"0/{total:,}", rate="", name="")

    def advance(self, more: int, name: str = "") -> None:
        """Count more of it.

        name: the name of the last item.
        """
        self.reach(self._done + more, name)

    def reach(self, done: float, name: str = "") -> None:
        """Show that this many are done.

        name: the name of the current item.
        """
        self._done = done
        if self._bars is None:
            return
        seconds = time.monotonic() - self._begin
        self._bars.update(
            self._task,
            completed=done,
            count=f"{done:,.0f}/{self._total:,}",
            rate=rate_text(done / seconds) if seconds > 0 else "",
            name=clean(name)[:_MOST_NAME],
        )


class Meters:
    """The progress bars of one piece of work.

    bars: None where stderr is not a terminal.
    """

    def __init__(self, bars: Bars | None) -> None:
        self._bars = bars

    def add(self, title: str, total: int) -> Meter:
        return Meter(total, self._bars, title)


@contextmanager
def _meters() -> Iterator[Meters]:
    if not sys.stderr.isatty():
        yield Meters(None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=_BAR_WIDTH),
        TextColumn("{task.fields[count]}", markup=False), TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(), TextColumn("left", markup=False), TextColumn("{task.fields[name]}", markup=False),
    )  # fmt: skip
    show_status("")
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Meters(bars)


def _state(outcome: CaseOutcome, pass_name: str) -> str:
    return {"timed": outcome.status, "traced": outcome.traced}.get(pass_name, outcome.counted)
