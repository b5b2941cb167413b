"""What all calls took is told from the mean of those that were timed."""

import pytest

from nsysprof.workload.program_start.attention_calls.seen_call import Seen, TimedCalls


def test_calls_that_were_interrupted_do_not_count_for_the_mean():
    timed = TimedCalls()
    assert (timed.mean_ns(), timed.least_ns()) == (0.0, 0)
    for number in range(99):
        timed.add(100 + 2 * (number % 2), end_ns=5_000, calls=2)
    timed.add(1_000_000, end_ns=9_000, calls=18)
    assert timed.mean_ns() == pytest.approx(101.0, abs=0.1)
    assert (timed.least_ns(), timed.end_ns, timed.calls) == (100, 9_000, 18)


def test_the_size_of_values_is_in_the_name_only_where_it_is_their_own():
    same, other = (Seen("sdpa", {"head_dim": 64, "head_dim_v": size}, "") for size in (64, 128))
    assert same.forward_name == "attention::fwd::sdpa::D=64"
    assert other.forward_name == "attention::fwd::sdpa::D=64::DV=128"
