import numpy as np
import pytest

from nsysprof.analysis.sampling.significance import Prior, estimate, fit, fit_prior, limit_freedom


def draws(rng, cases, freedom, prior_freedom, prior_variance):
    truth = prior_freedom * prior_variance / rng.chisquare(prior_freedom, cases)
    return [(float(v * rng.chisquare(freedom) / freedom), freedom) for v in truth]


def test_the_prior_that_made_the_variances_is_found():
    found = fit_prior(draws(np.random.default_rng(1), 4000, 4, 6.0, 1e-4))
    assert found.freedom == pytest.approx(6, rel=0.25)
    assert found.variance == pytest.approx(1e-4, rel=0.1)


def test_equal_variances_are_pooled():
    rng = np.random.default_rng(2)
    found = fit_prior([(float(1e-4 * rng.chisquare(4) / 4), 4) for _ in range(400)])
    assert found.variance == pytest.approx(1e-4, rel=0.15)
    assert found.freedom > 12


def test_few_cases_and_none_repeated_say_nothing():
    assert fit_prior([]) == Prior(0.0, 0.0)
    assert fit_prior([(1e-4, 4), (1e-4, 4)]) == Prior(0.0, 0.0)
    assert Prior(0.0, 0.0).moderate(0.0, 0) is None
    assert Prior(0.0, 0.0).moderate(2e-4, 4) == (2e-4, 4)


def test_a_case_is_drawn_towards_the_others():
    variance, freedom = Prior(4.0, 1e-4).moderate(9e-4, 4)
    assert (variance, freedom) == (pytest.approx(5e-4), 8)


def test_variances_of_zero_are_taken():
    found = fit_prior([(0.0, 2)] * 5)
    assert np.isfinite(found.variance)
    assert found.moderate(0.0, 2)[0] >= 0


@pytest.mark.parametrize(("shared", "own", "least", "most"), [(0.0, 0.01, 30, 45), (0.08, 0.003, 2, 2.1)])
def test_cases_that_share_effects_of_processes_count_once(shared, own, least, most):
    rng = np.random.default_rng(3)
    limits = []
    for _ in range(100):
        values = rng.normal(0, shared, 3) + rng.normal(0, own, (20, 3))
        limits.append(limit_freedom(list(values - values.mean(axis=1, keepdims=True)), 2))
    assert least < np.median(limits) < most


@pytest.mark.parametrize(("shared", "own"), [(0.0, 0.01), (0.005, 0.005), (0.02, 0.003), (0.27, 0.01)])
def test_intervals_hold_where_cases_share_effects_of_processes(shared, own):
    rng = np.random.default_rng(4)
    held = []
    for _ in range(400):
        values = rng.normal(0, shared, 3) + rng.normal(0, own, (10, 3))
        prior = fit(list(values))
        held += [abs(level.value) <= level.reach() for level in (estimate(row, prior) for row in values)]
    assert 0.925 < np.mean(held) < 0.975
