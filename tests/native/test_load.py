"""The compiled loops do what their Python does, and all of them are there or none."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from nsysprof.analysis.replay import replay
from nsysprof.native import load
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder

needs_loops = pytest.mark.skipif(load.native_problem() is not None, reason="the installation compiled nothing")


@needs_loops
def test_the_installation_has_all_functions() -> None:
    assert all(callable(load.loop(name)) for name in load.FUNCTIONS)


@pytest.mark.parametrize(
    ("environment", "library", "says"),
    [("0", load.LIBRARY, "NSYSPROF_NATIVE"), ("1", "no-such.so", "compiled nothing")],
)
def test_without_the_compiled_part_there_is_no_loop_at_all(
    monkeypatch: pytest.MonkeyPatch, environment: str, library: str, says: str
) -> None:
    monkeypatch.setenv("NSYSPROF_NATIVE", environment)
    monkeypatch.setattr(load, "LIBRARY", library)
    for cached in (load._library, load.native_problem):
        cached.cache_clear()
    try:
        assert says in str(load.native_problem())
        assert [load.loop(name) for name in load.FUNCTIONS] == [None] * len(load.FUNCTIONS)
    finally:
        for cached in (load._library, load.native_problem):
            cached.cache_clear()


def test_units_are_chosen_together(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(load, "is_wanted", lambda unit: bool(asked.append(unit)))
    assert [load.loop(name) for name in load.FUNCTIONS] == [None] * len(load.FUNCTIONS)
    assert {"list_ends", "encode", "read_events"}.isdisjoint(asked)


def test_a_large_trace_says_that_sqlite_read_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = TraceBuilder()
    builder.launch(0, 1)
    path = builder.write(tmp_path / "t.sqlite")
    monkeypatch.setattr("nsysprof.trace.tables.native_problem", lambda: "nothing is there")
    monkeypatch.setattr(load, "is_wanted", lambda _unit: False)
    with open_trace(path) as trace:
        assert read_tables(trace).notes == []
    monkeypatch.setattr("nsysprof.trace.open.LARGE_BYTES", 0)
    with open_trace(path) as trace:
        tables = read_tables(trace)
    assert tables.work.kernels == 1
    assert [note.code for note in tables.notes] == ["slow-reader"]


@needs_loops
def test_an_array_of_another_type_is_refused() -> None:
    numbers = np.zeros(4, dtype=np.int64)
    decode = load.loop("decode")
    with pytest.raises(ctypes.ArgumentError):
        decode(numbers, 0, 0, 0, numbers, 0, numbers, numbers, 0, numbers, 1, 1)
    with pytest.raises(ctypes.ArgumentError):
        load.loop("encode")(numbers[::2], 1, 1, 0, numbers, 0, numbers, 1, numbers, numbers)


def random_events(seed: int) -> list[np.ndarray]:
    """Return the arrays that a replay goes through, in which every kind of edge occurs."""
    random = np.random.default_rng(seed)
    calls, works, streams = 60, 90, 3
    first = np.sort(np.append(random.integers(0, works, calls - 1), [0, works]))
    earlier_call = random.integers(-1, np.arange(calls))
    of_work = np.searchsorted(first, np.arange(works), side="right") - 1
    times = [random.integers(0, 50, each) for each in (calls, calls, calls, works, works, works, works)]
    gap, cost, returns, issue, after_stream, after_other, duration = times
    waits = np.where(random.random(calls) < 0.2, np.maximum(first[1:] - 1, -1), -1)
    waits[first[1:] == 0] = -1
    other = np.where(random.random(works) < 0.3, random.integers(-1, np.arange(works)), -1)
    assert (of_work >= 0).all()
    arrays = [
        earlier_call, random.integers(-1, np.arange(calls)), gap, cost, waits, returns, first,
        random.integers(0, streams, works), issue, after_stream, after_other, other, duration,
        np.zeros(streams), np.array([random.integers(0, calls)]), np.zeros(calls), np.zeros(works),
    ]  # fmt: skip
    return [np.ascontiguousarray(each, dtype=np.int64) for each in arrays]


@needs_loops
@pytest.mark.parametrize("seed", range(5))
def test_a_replay_takes_as_long_as_in_python(seed: int) -> None:
    arrays = random_events(seed)
    expected = replay._run(*(each.tolist() for each in arrays))
    *before, first_calls, ended, finished = arrays
    assert load.loop("replay")(len(arrays[2]), *before, int(first_calls[0]), ended, finished) == expected
    assert expected > 0
    assert ended.any()
    assert finished.any()
