"""The ratio within one series: its interval holds the truth, and is narrower than that of two series."""

import numpy as np
import pytest

from nsysprof.analysis.sampling.series_ratio import ratio_of_medians, ratio_within_run


def series(seed, rho, counts=(20, 20, 20), slower=1.0):
    """Return the values before, during and after, of which each keeps `rho` of the deviation of the one before."""
    rng = np.random.default_rng(seed)
    found = rng.normal(0, 0.02, sum(counts))
    for index in range(1, len(found)):
        found[index] = rho * found[index - 1] + np.sqrt(1 - rho**2) * found[index]
    values = (1e6 * np.exp(found)).astype(int)
    before, during, after = np.split(values, np.cumsum(counts)[:2])
    return before.tolist(), (during * slower).astype(int).tolist(), after.tolist()


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_the_interval_holds_the_truth(rho):
    held = 0
    for seed in range(120):
        _, low, high = ratio_within_run(*series(seed, rho, slower=1.1))
        held += low <= 1.1 <= high
    assert held >= 108  # docs/calibration.md counts more of them


def test_what_neighbours_share_makes_it_narrower():
    widths = []
    for seed in range(20):
        before, during, after = series(seed, 0.9)
        widths.append([high - low for _, low, high in (
            ratio_within_run(before, during, after), ratio_of_medians([*before, *after], during)
        )])  # fmt: skip
    assert np.median([within / apart for within, apart in widths]) < 0.5


@pytest.mark.parametrize("counts", [(40, 20, 0), (0, 20, 40)])
def test_one_side_is_enough(counts):
    ratio, low, high = ratio_within_run(*series(1, 0.5, counts, slower=2.0))
    assert low < ratio < high
    assert ratio == pytest.approx(2.0, rel=0.1)


def test_few_values_and_equal_ones():
    assert ratio_within_run([100] * 3, [200] * 9, [100] * 2) == (2.0, None, None)
    ratio, low, high = ratio_within_run([100] * 9, [200] * 9, [100] * 9)
    assert (ratio, low, high) == (2.0, pytest.approx(2.0), pytest.approx(2.0))
