"""Define what a use case reports while it works. The class here is silent; the terminal's is in nsysprof.cli."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsysprof.capture import collect
    from nsysprof.capture.sampling import bench_run

    BenchRun = bench_run.BenchRun
    CaseOutcome = collect.CaseOutcome
    CaptureState = collect.CaseProgress

Say = Callable[[str], None]
# Called with the pass and the state of a capture.
OnCase = Callable[[str, "CaptureState"], None]
# Called with the run, how many blocks are left, and the cell that is measured now (None before the first).
OnBlock = Callable[["BenchRun", int, "int | None"], None]


class Progress:
    """Receive what a long use case reports, and show none of it."""

    def say(self, text: str) -> None:
        """Receive one line that names the step that begins now."""

    def tell(self, text: str) -> None:
        """Receive a line the user must see; calls `say` unless overridden."""
        self.say(text)

    @contextmanager
    def traces(self, count: int) -> Iterator[Callable[[int, str], None]]:
        """Give a callback that is told how many more of `count` traces are done, and the name of the last."""
        yield lambda _more, _name: None

    @contextmanager
    def rows(self, title: str, count: int) -> Iterator[Callable[[int], None]]:
        """Give a callback that is told how many more of `count` rows are written."""
        yield lambda _more: None

    @contextmanager
    def cases(self, count: int) -> Iterator[OnCase]:
        """Give the callback of a capture of `count` cases."""
        yield lambda _pass, _state: None

    @contextmanager
    def blocks(self, count: int) -> Iterator[OnBlock]:
        """Give the callback of a bench of `count` blocks."""
        yield lambda _run, _left, _cell: None

    @contextmanager
    def search(self, budget_s: float) -> Iterator[OnBlock]:
        """Give the callback of a tuning that may take `budget_s` seconds."""
        yield lambda _run, _left, _cell: None


SILENT = Progress()
