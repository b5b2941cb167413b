"""The second thread of an analysis: its results and errors, and what becomes of its tasks after an error."""

from __future__ import annotations

import threading

import pytest

from nsysprof.analysis.overview import beside as module
from nsysprof.analysis.overview.beside import beside


def fail() -> int:
    raise ValueError("a task failed")


def test_tasks_run_in_order_beside_their_caller() -> None:
    done: list[str] = []
    with beside() as second:
        found = [second.start(done.append, each) for each in "abc"]
        thread = second.start(threading.current_thread)
        assert [each.result() for each in found] == [None] * 3
        assert thread.result() is not threading.current_thread()
    assert done == ["a", "b", "c"]


def test_an_error_of_a_task_is_raised_where_its_result_is_wanted() -> None:
    with beside() as second, pytest.raises(ValueError, match="a task failed"):
        second.start(fail).result()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_no_further_task_begins(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    monkeypatch.setattr(module, "_processors", lambda: 2)
    begun, go_on, later = threading.Event(), threading.Event(), []

    def wait() -> None:
        begun.set()
        go_on.wait()

    with pytest.raises(error), beside() as second:
        try:
            second.start(wait)
            cancelled = second.start(later.append, 1)
            begun.wait()
            raise error
        finally:
            # The task that runs may end only after the other one was cancelled.
            threading.Thread(target=lambda: (wait_for(cancelled), go_on.set())).start()
    assert cancelled.cancelled()
    assert later == []


def wait_for(future: object) -> None:
    """Return once a task was cancelled."""
    happened = threading.Event()
    future.add_done_callback(lambda _: happened.set())  # type: ignore[attr-defined]
    happened.wait()


@pytest.mark.parametrize(("alone", "processors"), [(True, 2), (False, 1)])
def test_alone_each_task_ends_before_its_caller_goes_on(
    monkeypatch: pytest.MonkeyPatch, alone: bool, processors: int
) -> None:
    monkeypatch.setattr(module, "_processors", lambda: processors)
    with beside(alone=alone) as second:
        assert second.start(lambda: 5).done()
        assert isinstance(second.start(fail).exception(timeout=0), ValueError)
