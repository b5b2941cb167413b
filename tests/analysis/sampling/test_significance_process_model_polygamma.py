"""Our derivatives of ln Γ against scipy's."""

from __future__ import annotations

import pytest
from scipy import special

from nsysprof.analysis.sampling.significance import digamma, inverse_trigamma, trigamma


@pytest.mark.parametrize("x", [1e-6, 0.01, 0.5, 1.0, 1.4616321449683622, 3.3, 11.9, 12.0, 1e3, 1e8])
def test_they_are_those_of_scipy(x):
    assert digamma(x) == pytest.approx(float(special.digamma(x)), rel=1e-12, abs=1e-14)
    assert trigamma(x) == pytest.approx(float(special.polygamma(1, x)), rel=1e-12)
    assert inverse_trigamma(trigamma(x)) == pytest.approx(x, rel=1e-9)
