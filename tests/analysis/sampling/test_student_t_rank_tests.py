"""Our tests by ranks against scipy's, over samples of every size with and without ties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nsysprof.analysis.sampling.student_t import average_ranks, kendall_p, mann_whitney, theil_sen_slope


def samples(seed):
    """Return two samples and a series with a trend, of random lengths, in every third case with ties."""
    random = np.random.default_rng(seed)
    first, second = random.normal(size=random.integers(4, 30)), random.normal(seed % 4, size=random.integers(4, 30))
    at = np.arange(random.integers(5, 60), dtype=float)
    values = random.normal(size=len(at)) + at * random.choice([0, 0.1, 5])
    if seed % 3 == 0:
        return np.round(first, 1), np.round(second, 1), np.round(at / 3), np.round(values)
    return first, second, at, values


@pytest.mark.parametrize("seed", range(90))
def test_they_are_those_of_scipy(seed):
    first, second, at, values = samples(seed)
    u, p = mann_whitney(first, second)
    expected = stats.mannwhitneyu(first, second, alternative="two-sided")
    assert u == expected.statistic
    assert p == pytest.approx(expected.pvalue, rel=1e-9)
    assert kendall_p(at, values) == pytest.approx(stats.kendalltau(at, values).pvalue, rel=1e-9)
    assert theil_sen_slope(at, values) == pytest.approx(stats.theilslopes(values, at).slope, rel=1e-9)
    assert average_ranks(values).tolist() == stats.rankdata(values).tolist()


def test_samples_apart_and_in_order_are_as_rare_as_they_can_be():
    assert mann_whitney(np.arange(4.0), np.arange(4.0) + 10) == (0.0, pytest.approx(2 / 70))
    assert kendall_p(np.arange(5.0), np.arange(5.0)) == pytest.approx(2 / 120)
    assert kendall_p(np.arange(5.0), np.array([2.0, 0.0, 4.0, 1.0, 3.0])) == pytest.approx(
        stats.kendalltau(np.arange(5.0), [2.0, 0.0, 4.0, 1.0, 3.0]).pvalue
    )
