import math
import random

import pytest

from nsysprof.analysis.sampling.student_t import t_isf
from nsysprof.results.samples import median_interval, stalls, student_t_975, time_interval, time_intervals


def interval(values):
    return median_interval(tuple(values))


def test_known_order_statistics():
    # Binomial tables: n = 6 gives (1st, 6th) at 96.9 %, n = 50 gives (18th, 33rd) at 96.7 %.
    assert interval((3, 1, 6, 2, 5, 4)) == (1, 6)
    assert interval(random.Random(2).sample(range(1, 51), 50)) == (18, 33)


def test_too_few_samples_have_no_interval():
    assert interval(range(5)) is None
    assert interval(()) is None


def test_equal_samples_have_an_interval_of_no_width():
    assert interval([7] * 20) == (7, 7)


def test_the_interval_covers_the_true_median_as_often_as_it_says():
    source = random.Random(1)
    hits = 0
    for _ in range(1000):
        low, high = interval(int(source.expovariate(1e-6)) for _ in range(30))
        hits += low <= 693147 <= high  # ln 2 of the scale
    assert hits >= 940


def test_a_time_is_never_negative_and_does_not_reach_down_to_nothing():
    values = [1000, 1010, 990, 1020, 60_000, 61_000, 62_000, 60_500]
    low, high = median_interval(values)
    assert (low, high > 62_000) == (0, True)
    assert 0 < time_interval(values)[0] <= 990
    assert 62_000 <= time_interval(values)[1] <= 1.25 * 62_000
    assert time_interval([0, 0, 0, 0, 0, 0, 0, 5]) == (0, 1)
    assert time_interval([1, 2]) is None


def test_samples_that_follow_their_neighbours_are_worth_fewer():
    source = random.Random(3)
    held = plain = 0
    for _ in range(300):
        values, kept = [], source.gauss(0, 1)
        for _ in range(50):
            kept = 0.8 * kept + 0.6 * source.gauss(0, 1)
            values.append(round(1e6 + 1e4 * kept))
        low, high = interval(values)
        held += low <= 1e6 <= high
        ordered = sorted(values)
        plain += ordered[17] <= 1e6 <= ordered[32]
    assert held >= 0.92 * 300
    assert plain < 0.7 * 300, "what order statistics alone would say"


# Ten samples (ms) each of math and flash on a CPU that another program began to use.
BUSY = (
    [2304, 4202, 4475, 3833, 2901, 3145, 3492, 2392, 2976, 2725],
    [260, 280, 291, 277, 278, 272, 267, 336, 522, 694],
)


def test_ten_samples_of_a_busy_machine_tell_a_factor_of_eleven():
    """Their trend once gave an interval from a quarter of the median to 25 times as much."""
    for slow, fast in (time_intervals(BUSY), [time_interval(values) for values in BUSY]):
        assert fast[1] < slow[0]
        assert fast[0] >= 260 / 1.25 - 1
        assert slow[1] <= 4475 * 1.25 + 1


def test_one_stalled_sample_does_not_decide_how_wide_an_interval_is():
    values = [1000, 1010, 990, 1005, 995, 1002, 998, 1008, 992, 1001]
    low, high = time_interval([*values[:-1], 60_000])
    assert 900 < low < high < 1100


def test_series_of_one_process_share_what_they_tell_of_neighbours():
    source = random.Random(5)
    held = alone = 0
    for _ in range(100):
        series = []
        for _ in range(4):
            kept, values = source.gauss(0, 1), []
            for _ in range(10):
                kept = 0.9 * kept + math.sqrt(1 - 0.81) * source.gauss(0, 1)
                values.append(round(1e6 * math.exp(0.02 * kept)))
            series.append(values)
        held += sum(low <= 1e6 <= high for low, high in time_intervals(series))
        alone += sum(low <= 1e6 <= high for low, high in map(time_interval, series))
    assert held >= 0.93 * 400
    assert held >= alone
    assert time_intervals([[7] * 20, [1, 2], []]) == [(7, 7), None, None]


def test_samples_stall_where_over_a_tenth_take_three_times_as_long():
    assert not stalls([10] * 9 + [31])
    assert stalls([10] * 8 + [31, 31])
    assert not stalls([10] * 8 + [29, 29])
    assert not stalls([])


@pytest.mark.parametrize("freedom", [1.0, 1.2, 1.7, 2.2, 3.5, 6.0, 15.0, 40.0, 1000.0])
def test_the_percentile_of_students_t(freedom):
    assert student_t_975(freedom) == pytest.approx(t_isf(0.025, freedom), rel=0.02)
