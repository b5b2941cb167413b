"""Run a command that measures: print its plan and stop, or measure, print the result and raise its failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from nsysprof.cli.terminal import mark_saved, show_progress

if TYPE_CHECKING:
    from nsysprof.app.progress import Progress
    from nsysprof.errors import NsysprofError


class MeasurementResult(Protocol):
    """The result of a use case that may be incomplete."""

    @property
    def failure(self) -> NsysprofError | None:
        """Return why the result is incomplete; None where everything was measured."""


Request = TypeVar("Request")
Result = TypeVar("Result", bound=MeasurementResult)


def run_measurement(
    request: Request,
    measure: Callable[[Request, Progress], Result],
    *,
    print_plan: Callable[[Request, bool], None],
    print_result: Callable[[Result, bool], None],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Run a use case and print its result; with `dry_run`, only print its plan.

    Raises the failure of the result.
    """
    if dry_run:
        print_plan(request, as_json)
        return
    result = measure(request, show_progress(quiet=as_json))
    mark_saved()
    print_result(result, as_json)
    if result.failure is not None:
        raise result.failure
