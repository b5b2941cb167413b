import itertools
import time

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.workload.measuring.timing import make_flush, time_calls, warm_up  # noqa: E402


def test_a_warm_up_ends_when_times_are_stable():
    warm = warm_up(lambda: time.sleep(0.002), "cpu", 5.0)
    assert warm.stable
    assert 3 <= warm.calls < 500, "five seconds would hold 2,500"
    assert warm.call_s == pytest.approx(0.002, rel=0.5)


def test_a_warm_up_of_unstable_times_ends_by_its_time_and_says_so():
    pauses = iter([0.002, 0.02, 0.005, 0.03] * 100)
    begin = time.perf_counter()
    warm = warm_up(lambda: time.sleep(next(pauses)), "cpu", 0.3)
    assert not warm.stable
    assert time.perf_counter() - begin < 1.0


def test_a_call_that_speeds_up_is_not_taken_for_warm():
    pauses = itertools.chain([0.03, 0.02, 0.013, 0.009, 0.006, 0.004], itertools.repeat(0.002))
    warm = warm_up(lambda: time.sleep(next(pauses)), "cpu", 5.0)
    assert warm.call_s < 0.004
    assert warm.calls >= 9


def test_a_warm_up_of_no_time_calls_once():
    assert warm_up(lambda: None, "cpu", 0.0).calls == 1


def test_the_flush_runs_before_each_sample_and_is_not_in_it():
    order = []
    timed = time_calls(lambda: order.append("call"), "cpu", 3, lambda: (order.append("flush"), time.sleep(0.01)))
    assert order == ["flush", "call"] * 3
    assert max(timed.values_ns) < 5_000_000
    assert timed.offsets_ns[1] - timed.offsets_ns[0] >= 10_000_000
    assert list(timed.offsets_ns) == sorted(timed.offsets_ns)


def test_the_flush_of_a_cpu_writes_a_buffer_larger_than_its_cache():
    assert make_flush("cpu")().numel() >= 64 << 20
