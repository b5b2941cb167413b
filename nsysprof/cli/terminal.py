"""Print to a terminal: reports, JSON, sentences, and the progress of long work, also to an output that is closed.

A status is shown in the last line of a terminal, below what was printed, until something else is printed.

All commands show the same: a line with the current step and, where there is something to count, a bar with how many are
done, how fast, and the time left. Both disappear when the work is done.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

import typer

from nsysprof.app.progress import SILENT, Progress
from nsysprof.files.plain_file import encode_json
from nsysprof.report.document import clean

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from nsysprof.app.progress import BenchRun, CaptureState, CaseOutcome, OnBlock, OnCase
    from nsysprof.report.document import Report


def forgive_streams() -> ForgivingStream:
    """Wrap standard output and error in streams that continue when they cannot be written; return the former."""
    open_standard_streams()
    sys.stderr = cast("TextIO", ForgivingStream(sys.stderr))
    output = ForgivingStream(sys.stdout)
    sys.stdout = cast("TextIO", output)
    return output


def open_standard_streams() -> None:
    """Open what the shell has closed (`>&-`) as the null device, so that no file of ours gets the number of one."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def mark_saved(*, saved: bool = True) -> None:
    """Say whether the result is on disk, so that a full standard output loses nothing."""
    if isinstance(sys.stdout, ForgivingStream):
        sys.stdout.is_saved = saved


def show_status(text: str) -> None:
    """Show a status instead of the one before; an empty one erases it. Only a terminal shows it."""
    stream = sys.stderr
    if isinstance(stream, ForgivingStream) and stream.isatty():
        stream.write("")  # erases
        most = shutil.get_terminal_size().columns - 1
        ForgivingStream.has_status = bool(text)
        stream.write_beneath(text[:most])


# GitHub Actions obeys lines of the log that begin with ::, and ##[ in any place; names of a trace may hold either.
_WORKFLOW_COMMAND = re.compile(r"(^\s*:(?=:)|##(?=\[))", re.MULTILINE)


class ForgivingStream:
    """Passes text on to a stream until that fails, and drops the rest. No text commands a workflow of GitHub Actions.

    failure: why it failed; None while it works.
    is_saved: whether what is printed is on disk too.
    """

    # Whether a status is shown in the last line of the terminal, which both streams share.
    has_status = False

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_in_workflow = "GITHUB_ACTIONS" in os.environ
        self.failure: OSError | None = None
        self.is_saved = False

    def write(self, text: str) -> int:
        if ForgivingStream.has_status:
            ForgivingStream.has_status = False
            if isinstance(sys.stderr, ForgivingStream):
                sys.stderr.write_beneath("\r\x1b[K")
        return self._write(text)

    def write_beneath(self, text: str) -> None:
        """Write at once, and leave the status alone."""
        self._write(text)
        self.flush()

    def _write(self, text: str) -> int:
        if self.failure is None:
            try:
                # An invisible space of zero width makes it a plain text.
                plain = _WORKFLOW_COMMAND.sub("\\1\u200b", text) if self._is_in_workflow else text
                self._stream.write(plain)
            except OSError as error:
                self._give_up(error)
        return len(text)

    def flush(self) -> None:
        if self.failure is None:
            try:
                self._stream.flush()
            except OSError as error:
                self._give_up(error)

    @property
    def is_lost(self) -> bool:
        """Return whether a result was lost. If a reader closed the pipe, it had read enough."""
        return self.failure is not None and self.failure.errno != errno.EPIPE and not self.is_saved

    def _give_up(self, error: OSError) -> None:
        self.failure = error
        null = os.open(os.devnull, os.O_WRONLY)  # the buffer is flushed once more at the end
        os.dup2(null, self._stream.fileno())
        os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# The exit codes of a gate's results. No error of nsysprof has exit code 1 or 3; see nsysprof/errors.py.
GATE_EXIT_CODES = {"pass": 0, "regression": 1, "inconclusive": 3}
# The version of what --json prints. It grows where a field goes or changes its meaning. 1: the first.
_JSON_VERSION = 1
# The width of a line (characters) where there is no terminal.
_WIDTH_WITHOUT_TERMINAL = 120


def print_json(data: Mapping[str, object]) -> None:
    """Print a result for `--json`: every number with all of its digits, and null where one is unknown.

    The version of its format comes first. A result that has a version of its own keeps that.
    """
    mark_saved(saved=False)  # no file has this text
    typer.echo(encode_json({"format_version": _JSON_VERSION, **data}).decode(), nl=False)


def print_report(report: Report) -> None:
    """Print a report. A terminal, also one behind a pipe (`| less`), would break a long sentence within a word.

    Where there is no terminal, such as in a log, and COLUMNS is not set, a sentence is one line.
    """
    from nsysprof.report.document import Table
    from nsysprof.report.formats.console import render_console

    width = terminal_width()
    text = render_console(report, width)
    if sys.stdout.isatty() or _terminal_columns() or "COLUMNS" in os.environ:
        text = wrap_sentences(text, width)
    titles = {section.title for section in report.sections} | {
        part.title for section in report.sections for part in section.parts if isinstance(part, Table)
    }
    typer.echo(paint(text, titles) if has_colors() else text)


def has_colors() -> bool:
    """Return whether standard output shows colours: a terminal, and nobody asked for none (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_BOLD, _RED, _YELLOW, _GREEN, _CYAN = 1, 31, 33, 32, 36
# What stands at the beginning of a line, and how it is shown: codes of findings, next steps, notes, results of a gate.
_PAINTED = (
    (re.compile(r"^\d+\. (?P<word>[\w-]+)(?= in |: )"), _BOLD),
    (re.compile(r"^(?P<word>error: |This trace lost every kernel\.)"), _RED),
    (re.compile(r"^(?P<word>warning: )"), _YELLOW),
    (re.compile(r"^\S.*: (?P<word>pass)(?= \()"), _GREEN),
    (re.compile(r"^\S.*: (?P<word>regression)(?= \()"), _RED),
    (re.compile(r"^\S.*: (?P<word>inconclusive)(?= \()"), _YELLOW),
)


def paint(text: str, titles: Collection[str]) -> str:
    """Return a report with the weight and the colours of a terminal: titles, findings, next steps, what is wrong."""
    lines, is_step = [], False
    for line in text.split("\n"):
        is_step = line.startswith("   -> ") or (is_step and line.startswith("   "))
        if line and line in titles:
            lines.append(_paint(line, _BOLD))
        elif is_step:
            lines.append(_paint(line, _CYAN))
        else:
            lines.append(_paint_word(line))
    return "\n".join(lines)


def _paint_word(line: str) -> str:
    for pattern, style in _PAINTED:
        if found := pattern.match(line):
            low, high = found.span("word")
            return line[:low] + _paint(line[low:high], style) + line[high:]
    return line


def _paint(text: str, style: int) -> str:
    return f"\x1b[{style}m{text}\x1b[0m"


def say_missing_figures(wanted: bool) -> None:
    """Say on stderr that no figures were drawn, where they were wanted and matplotlib is missing."""
    from nsysprof.report.figures.drawing import can_draw

    if wanted and not can_draw():
        say("No PNG figures: they need matplotlib. -> pip install 'nsysprof[figures]'", err=True)


def say(text: str, *, err: bool = False) -> None:
    """Print sentences. A terminal gets lines that are broken between words, so that paths and addresses stay whole."""
    if _terminal_columns():
        width = terminal_width()
        text = "\n".join(_fitted(line, width) for line in text.split("\n"))
    typer.echo(text, err=err)


def _fitted(line: str, width: int) -> str:
    indent = " " * (len(line) - len(line.lstrip(" ")))
    return textwrap.fill(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, expand_tabs=False
    )


def wrap_sentences(text: str, width: int) -> str:
    """Return a text whose lines are broken between words to fit `width`, and continue indented like their beginning."""
    from nsysprof.report.formats.console import wrap_text

    lines: list[str] = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip(" ")))
        whole = len(line) <= width
        lines += [line] if whole else wrap_text(line, width, "", indent)
    return "\n".join(lines)


def terminal_width() -> int:
    """Return the width of a line of the terminal (characters), also where standard output is a pipe."""
    return shutil.get_terminal_size((_terminal_columns() or _WIDTH_WITHOUT_TERMINAL, 40)).columns


def _terminal_columns() -> int:
    """Return the width of the terminal of output or errors (characters); 0 where neither is a terminal."""
    for stream in (sys.stdout, sys.stderr):
        try:
            return os.get_terminal_size(stream.fileno()).columns
        except (AttributeError, OSError, ValueError):  # no terminal, closed, or replaced by one without a number
            continue
    return 0


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
        say("\n".join(map(clean, text.split("\n"))), err=True)

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
