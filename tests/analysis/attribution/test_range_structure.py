import numpy as np
import pytest

from nsysprof.analysis.attribution.range_structure import count_warm_up, mark_warm_up, steady_medians

NOISE = np.random.default_rng(1).normal(0, 0.02, 64)


def walls(*levels):
    """(level, how many) after each other, each with 2 % of noise."""
    values = np.concatenate([np.full(count, float(level)) for level, count in levels])
    return (1e6 * values * (1 + NOISE[: len(values)])).astype(np.int64)


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (walls((10, 30)), 0),
        (walls((500, 1), (40, 11)), 1),
        (walls((500, 1), (200, 1), (60, 1), (40, 17)), 3),
        (walls((100, 12), (10, 28)), 12),
        (walls((40, 8), (90, 1), (40, 11)), 0),  # a slow one in the middle
        (walls((90, 4), (40, 1), (90, 3), (40, 20)), 8),  # one that is alike by chance
        (walls((5, 4), (40, 20)), 4),  # the CPU runs ahead until the queue is full
        (walls((40, 10), (60, 10)), 0),  # two phases
        (walls((500, 1), (40, 9), (60, 10)), 1),
        (walls((500, 1), (40, 2)), 1),
        (walls((500, 1), (40, 1)), 0),  # two alone do not tell
        (walls((9, 12), (4, 8)), 12),
    ],
)
def test_the_change_point_ends_the_warm_up(series, expected):
    assert count_warm_up(series) == expected


def test_noise_and_alternation_are_no_warm_up():
    random = np.random.default_rng(7)
    for _ in range(200):
        assert count_warm_up(random.lognormal(10, 0.05, 40).astype(np.int64)) == 0
    assert count_warm_up(np.tile([40, 90], 12).astype(np.int64) * 1000) == 0


def test_each_series_settles_by_itself_and_medians_leave_the_warm_up_out():
    series = np.array([0, 1] * 5)
    wall = np.array([900, 30, 10, 30, 10, 30, 10, 30, 12, 30])
    marked = mark_warm_up(series, wall)
    assert marked.tolist() == [True] + [False] * 9
    median, known = steady_medians(np.append(series, 2), np.append(wall, 5), np.append(marked, True), 3)
    assert median[:2].tolist() == [10, 30] and known.tolist() == [True, True, False]
