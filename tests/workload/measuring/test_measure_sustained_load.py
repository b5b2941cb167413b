import itertools
import time

import pytest

pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.workload.measuring import measure
from nsysprof.workload.measuring.measure import has_settled, sustain


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(measure, "_EVERY_S", 0.001)
    monkeypatch.setattr(measure, "_CALLS_S", 0.001)
    monkeypatch.setattr(measure, "_LEAST_S", 0.05)
    monkeypatch.setattr(measure, "_MOST_S", 60.0)


def call():
    time.sleep(0.0005)


def test_it_goes_on_until_the_clock_has_settled():
    falling = itertools.chain(range(1980, 1500, -30), itertools.repeat(1500))
    ended, clock = sustain(call, "cpu", lambda: next(falling))
    assert ended.stable
    assert clock == 1500
    assert ended.calls > 20


def test_a_clock_that_never_settles_ends_by_its_time_and_says_so(monkeypatch):
    monkeypatch.setattr(measure, "_MOST_S", 0.5)
    jumping = itertools.cycle((1980, 1500))
    begin = time.perf_counter()
    ended, clock = sustain(call, "cpu", lambda: next(jumping))
    assert not ended.stable
    assert clock in range(1500, 1981)
    assert 0.5 <= time.perf_counter() - begin < 5


def test_without_readings_the_shortest_load_is_enough_and_the_clock_is_unknown():
    ended, clock = sustain(call, "cpu", lambda: None)
    assert clock is None
    assert not ended.stable


def test_ten_readings_within_one_percent():
    assert has_settled([1000, *[1500] * 9, 1510])
    assert not has_settled([1500] * 9)
    assert not has_settled([*[1500] * 9, 1530])
