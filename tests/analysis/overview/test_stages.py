"""The runner of stages: its results and errors, what it frees, and the table of stages of a summary."""

from __future__ import annotations

import gc
import inspect
import threading
import weakref
from collections.abc import Callable

import pytest

from nsysprof.analysis.overview import stages as module
from nsysprof.analysis.overview.stages import Stage, run_stages
from nsysprof.analysis.overview.summarize import STAGES, SummaryOptions
from nsysprof.trace.schema import Tables


class Large:
    """A result that can be watched."""


def fail(_number: int) -> int:
    raise ValueError("a stage failed")


def test_stages_run_in_order_and_are_timed() -> None:
    stages = (
        Stage("double", lambda number: 2 * number, ("number",)),
        Stage("thread", lambda _double: threading.current_thread(), ("double",), beside=True),
        Stage("sum", lambda number, double: number + double, ("number", "double")),
    )
    run = run_stages(stages, {"number": 7}, ("sum", "thread"))
    assert run.results["sum"] == 21
    assert sorted(time.stage for time in run.times) == ["double", "sum", "thread"]
    assert all(time.wall_s >= time.cpu_s * 0.5 >= 0 for time in run.times)


@pytest.mark.parametrize(("is_large", "processors"), [(True, 2), (False, 2), (True, 1)])
def test_a_second_thread_runs_where_the_trace_and_the_machine_are_worth_it(
    monkeypatch: pytest.MonkeyPatch, is_large: bool, processors: int
) -> None:
    monkeypatch.setattr(module, "_processors", lambda: processors)
    stages = (Stage("thread", lambda _number: threading.current_thread(), ("number",), beside=True),)
    thread = run_stages(stages, {"number": 1}, ("thread",), is_large=is_large).results["thread"]
    assert (thread is not threading.current_thread()) == (is_large and processors == 2)


@pytest.mark.parametrize("beside", [False, True])
def test_a_result_is_freed_after_the_last_stage_that_needs_it(beside: bool) -> None:
    alive: list[weakref.ref[Large]] = []

    def make(_number: int) -> Large:
        large = Large()
        alive.append(weakref.ref(large))
        return large

    def see(_number: int, *_done: object) -> bool:
        gc.collect()
        return alive[0]() is not None

    stages = (
        Stage("large", make, ("number",), beside=beside),
        Stage("used", lambda large: large is not None, ("large",), beside=beside),
        Stage("between", see, ("number", "used")),
        Stage("used again", lambda large: large is not None, ("large",), beside=beside),
        Stage("after", see, ("number", "used again")),
    )
    results = run_stages(stages, {"number": 1}, ("between", "after", "used again")).results
    assert results == {"between": True, "after": False, "used again": True}


@pytest.mark.parametrize("beside", [False, True])
def test_an_error_of_a_stage_is_raised(beside: bool) -> None:
    with pytest.raises(ValueError, match="a stage failed"):
        run_stages((Stage("failed", fail, ("number",), beside=beside),), {"number": 1}, ("failed",))


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_no_further_stage_begins(monkeypatch: pytest.MonkeyPatch, error: type[BaseException]) -> None:
    monkeypatch.setattr(module, "_processors", lambda: 2)
    begun, go_on, later = threading.Event(), threading.Event(), []

    def wait(_number: int) -> None:
        begun.set()
        go_on.wait()

    def interrupt(_number: int) -> None:
        begun.wait()
        threading.Timer(0.05, go_on.set).start()
        raise error

    stages = (
        Stage("waits", wait, ("number",), beside=True),
        Stage("later", later.append, ("number",), beside=True),
        Stage("interrupted", interrupt, ("number",)),
    )
    with pytest.raises(error):
        run_stages(stages, {"number": 1}, ("later",))
    assert later == []


def parameters(run: Callable[..., object]) -> list[str]:
    """Return the types of the parameters without a default."""
    listed = inspect.signature(run).parameters.values()
    return [str(parameter.annotation) for parameter in listed if parameter.kind != parameter.KEYWORD_ONLY]


def test_what_each_stage_of_a_summary_needs_was_given_before_and_has_the_type_that_it_takes() -> None:
    types = {"tables": Tables.__name__, "options": SummaryOptions.__name__}
    for stage in STAGES:
        assert [types[need] for need in stage.needs] == parameters(stage.run), stage.gives
        assert stage.gives not in types, "no two stages give the same"
        types[stage.gives] = str(inspect.signature(stage.run).return_annotation)
    needed = {need for stage in STAGES for need in stage.needs}
    assert set(types) - needed == {"analysis"}, "every other result has a user"
