import itertools
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.workload.measuring import timing  # noqa: E402
from nsysprof.workload.measuring.timing import make_flush, time_calls, warm_up  # noqa: E402


@pytest.fixture
def clock(monkeypatch):
    """Stand in for the clock: time passes only where a call sleeps, so that other programs change nothing."""
    made = SimpleNamespace(now_s=0.0)

    def sleep(seconds):
        made.now_s += seconds

    made.sleep, made.perf_counter = sleep, lambda: made.now_s
    made.perf_counter_ns = lambda: round(made.now_s * 1e9)
    monkeypatch.setattr(timing, "time", made)
    return made


def test_a_warm_up_ends_when_times_are_stable(clock):
    warm = warm_up(lambda: clock.sleep(0.002), "cpu", 5.0)
    assert warm.stable
    assert 3 <= warm.calls < 500, "five seconds would hold 2,500"
    assert warm.call_s == pytest.approx(0.002)


def test_a_warm_up_of_unstable_times_ends_by_its_time_and_says_so(clock):
    pauses = iter([0.002, 0.02, 0.005, 0.03] * 100)
    warm = warm_up(lambda: clock.sleep(next(pauses)), "cpu", 0.3)
    assert not warm.stable
    assert 0.3 <= clock.now_s < 1.0


def test_a_call_that_speeds_up_is_not_taken_for_warm(clock):
    pauses = itertools.chain([0.03, 0.02, 0.013, 0.009, 0.006, 0.004], itertools.repeat(0.002))
    warm = warm_up(lambda: clock.sleep(next(pauses)), "cpu", 5.0)
    assert warm.call_s < 0.004
    assert warm.calls >= 9


def test_a_warm_up_of_no_time_calls_once():
    assert warm_up(lambda: None, "cpu", 0.0).calls == 1


def test_the_flush_runs_before_each_sample_and_is_not_in_it(clock):
    order = []

    def call():
        order.append("call")
        clock.sleep(0.001)

    timed = time_calls(call, "cpu", 3, lambda: (order.append("flush"), clock.sleep(0.01)))
    assert order == ["flush", "call"] * 3
    assert timed.values_ns == (1_000_000,) * 3
    assert timed.offsets_ns == (10_000_000, 21_000_000, 32_000_000)


def test_the_flush_of_a_cpu_writes_a_buffer_larger_than_its_cache():
    assert make_flush("cpu")().numel() >= 64 << 20
