"""The compiled loops do what their Python does, and are made of the source beside them."""

import ctypes
import hashlib
from pathlib import Path

import numpy as np
import pytest

import nsysprof
from nsysprof import arrays
from nsysprof.analysis.replay import replay
from nsysprof.arrays import machine_code

FOLDER = Path(nsysprof.__file__).parent


@pytest.fixture(params=["installation", "llvmlite"], autouse=True)
def maker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the code from what the installation compiled, and from llvmlite."""
    if request.param == "llvmlite":
        pytest.importorskip("llvmlite")
        monkeypatch.setattr(arrays, "_library", lambda: None)
    elif arrays._library() is None:
        pytest.skip("the installation compiled nothing")


def test_each_maker_has_all_functions() -> None:
    for name in arrays._FUNCTIONS:
        machine_code(name)


def test_the_instructions_were_made_of_the_source_beside_them() -> None:
    digest = hashlib.sha256((FOLDER / "machine_code.c").read_bytes()).hexdigest()
    with (FOLDER / "machine_code.ll").open(encoding="utf-8") as lines:
        assert digest in next(lines), "run scripts/build_machine_code"


def test_the_instructions_suit_every_processor_and_version_of_llvm() -> None:
    text = (FOLDER / "machine_code.ll").read_text(encoding="utf-8")
    for word in ("target ", "attributes", "x86", "captures(", "lifetime", "!tbaa", " x i64>"):
        assert word not in text, word


def test_an_array_of_another_type_is_refused() -> None:
    numbers = np.zeros(4, dtype=np.int64)
    decode = machine_code("decode")
    with pytest.raises(ctypes.ArgumentError):
        decode(numbers, 0, 0, 0, numbers, 0, numbers, numbers, 0, numbers, 1, 1)
    with pytest.raises(ctypes.ArgumentError):
        machine_code("encode")(numbers[::2], 1, 1, 0, numbers, 0, numbers, 1, numbers, numbers)


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


@pytest.mark.parametrize("seed", range(5))
def test_a_replay_takes_as_long_as_in_python(seed: int) -> None:
    arrays = random_events(seed)
    expected = replay._run(*(each.tolist() for each in arrays))
    *before, first_calls, ended, finished = arrays
    assert machine_code("replay")(len(arrays[2]), *before, int(first_calls[0]), ended, finished) == expected
    assert expected > 0
    assert ended.any()
    assert finished.any()
