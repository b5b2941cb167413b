import random

from nsysprof.results.samples import median_interval


def interval(values):
    return median_interval(tuple(values))


def test_known_order_statistics():
    # Binomial tables: n = 6 gives (1st, 6th) at 96.9 %, n = 50 gives (18th, 33rd) at 96.7 %.
    assert interval(range(1, 7)) == (1, 6)
    assert interval(range(1, 51)) == (18, 33)


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
