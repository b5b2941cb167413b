import numpy as np
import pytest

from nsysprof.analysis.sampling.series_ratio import LEAST_INSTANCES, ratio_of_medians
from tests.analysis.noise import autocorrelated


def test_the_interval_covers_the_true_ratio_as_often_as_it_says():
    generator, inside = np.random.default_rng(1), 0
    for _ in range(400):
        old, new = ((scale * generator.lognormal(0, 0.2, 15) * 1e6).astype(int).tolist() for scale in (1, 1.3))
        _, low, high = ratio_of_medians(old, new)
        inside += low <= 1.3 <= high
    assert inside / 400 > 0.93


def test_instances_that_resemble_their_neighbours_are_worth_fewer():
    generator, inside = np.random.default_rng(2), 0
    for _ in range(300):
        old, new = (np.exp(autocorrelated(generator, 60, 0.02, 0.8)) * 1e6 for _ in "ab")
        _, low, high = ratio_of_medians(old.astype(int).tolist(), new.astype(int).tolist())
        inside += low <= 1 <= high
    assert inside / 300 > 0.93


def test_few_values_have_no_interval():
    few = list(range(100, 100 + LEAST_INSTANCES - 1))
    assert ratio_of_medians(few, [200] * 9) == (pytest.approx(200 / 102), None, None)
