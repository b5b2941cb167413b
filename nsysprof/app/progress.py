"""Define what a use case reports while it works. The class here is silent; nsysprof.cli has the terminal's."""

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
# A function that takes the pass and the state of a capture.
OnCase = Callable[[str, "CaptureState"], None]
# A function that takes the run, how many blocks are left, and the cell that is measured now (None before the first).
OnBlock = Callable[["BenchRun", int, "int | None"], None]


class Progress:
    """Receives what a long use case reports, and shows nothing."""

    def say(self, text: str) -> None:
        """Receive one line of text about the step that begins now."""

    def tell(self, text: str) -> None:
        """Receive a line that the user must see. It is passed to `say` unless a subclass overrides this."""
        self.say(text)

    @contextmanager
    def traces(self, count: int) -> Iterator[Callable[[int, str], None]]:
        """Return a callback that is called with how many more of `count` traces are done, and the name of the last."""
        yield lambda _more, _name: None

    @contextmanager
    def rows(self, title: str, count: int) -> Iterator[Callable[[int], None]]:
        """Return a callback that is called with how many more of `count` rows are written."""
        yield lambda _more: None

    @contextmanager
    def cases(self, count: int) -> Iterator[OnCase]:
        """Return the callback for a capture of `count` cases."""
        yield lambda _pass, _state: None

    @contextmanager
    def blocks(self, count: int) -> Iterator[OnBlock]:
        """Return the callback for a bench of `count` blocks."""
        yield lambda _run, _left, _cell: None

    @contextmanager
    def search(self, budget_s: float) -> Iterator[OnBlock]:
        """Return the callback for a tuning that may take `budget_s` seconds."""
        yield lambda _run, _left, _cell: None


SILENT = Progress()
