"""What all calls took is told from the mean of those that were timed."""

from nsysprof.workload.program_start.attention_calls.seen_call import Seen, TimedCalls


def test_the_time_of_all_calls_is_the_mean_of_the_timed_ones_times_their_number():
    timed = TimedCalls()
    assert timed.total_ns(16) == 0
    timed.add(100, end_ns=5_000, calls=2)
    timed.add(300, end_ns=9_000, calls=18)
    assert (timed.total_ns(18), timed.end_ns, timed.calls) == (3_600, 9_000, 18)


def test_the_size_of_values_is_in_the_name_only_where_it_is_their_own():
    same, other = (Seen("sdpa", {"head_dim": 64, "head_dim_v": size}, "") for size in (64, 128))
    assert same.names["fwd"] == "attention::fwd::sdpa::D=64"
    assert other.names["fwd"] == "attention::fwd::sdpa::D=64::DV=128"
