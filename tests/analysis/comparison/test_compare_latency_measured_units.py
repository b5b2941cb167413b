import numpy as np

from nsysprof.analysis.comparison.compare_latency import cut_stretches
from tests.analysis.noise import autocorrelated


def test_stretches_are_as_long_as_what_one_sample_tells_of_the_next():
    rng = np.random.default_rng(14)
    loose, tight = (list(np.exp(autocorrelated(rng, 400, 0.01, rho)) * 1e5) for rho in (0.0, 0.97))
    assert len(cut_stretches(loose)) == 20
    assert len(cut_stretches(tight)) < 12
    for values in (loose, tight, loose[:7], loose[:1], [5] * 60):
        pieces = cut_stretches(values)
        assert [value for piece in pieces for value in piece] == list(values)
