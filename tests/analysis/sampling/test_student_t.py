"""Our t distributions against scipy's."""

from __future__ import annotations

from math import inf, isnan, nan

import numpy as np
import pytest
from scipy import stats

from nsysprof.analysis.sampling.student_t import nct_sf, t_density, t_isf, t_sf

FREEDOMS = (0.6, 1, 1.5, 2, 7.3, 20, 199, 201, 1e4, 1e6)


@pytest.mark.parametrize("freedom", FREEDOMS)
def test_probabilities_quantiles_and_densities_are_those_of_scipy(freedom):
    for t in (-40, -1.3, 0, 1e-9, 1e-3, 0.5, 1, 2, 3.7, 10, 30):
        assert t_sf(t, freedom) == pytest.approx(float(stats.t.sf(t, freedom)), rel=1e-8, abs=1e-290)
        assert t_density(t, freedom) == pytest.approx(float(stats.t.pdf(t, freedom)), rel=1e-8, abs=1e-290)
    for p in (0.5, 0.4, 0.025, 0.005, 1e-4, 1e-8, 1e-12):
        assert t_isf(p, freedom) == pytest.approx(float(stats.t.isf(p, freedom)), rel=1e-8)


@pytest.mark.parametrize("freedom", [2, 3, 10, 58, 1998])
def test_the_power_of_a_t_test_is_that_of_scipy(freedom):
    for t in (2.0, 4.0, 12.7):
        for shift in (0.0, 0.5, 2.8, 6.0, 20.0):
            assert nct_sf(t, freedom, shift) == pytest.approx(float(stats.nct.sf(t, freedom, shift)), abs=1e-9)


def test_what_nothing_is_known_of_is_no_number():
    assert isnan(t_sf(1.0, 0))
    assert isnan(t_isf(0.025, 0))
    assert isnan(t_sf(nan, 3))
    assert t_sf(inf, 3) == 0
    assert t_sf(-inf, 3) == 1
    assert t_isf(0.5, 3) == 0
    assert t_sf(np.float64(2.0), 3) == t_sf(2.0, 3)
