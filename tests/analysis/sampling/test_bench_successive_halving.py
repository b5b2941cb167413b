"""The method that a report prints is the one by which backends are dropped."""

import re

import numpy as np

from nsysprof.analysis.sampling.bench import METHOD, survivors


def test_the_method_names_the_factor_at_which_a_backend_is_dropped():
    (factor,) = map(float, re.findall(r"more than ([0-9.]+) times the best's", METHOD))
    best = np.full(6, 1000.0)

    def kept(share):
        return "other" in survivors({"best": best, "second": best + 1, "other": best * factor * share}, ())

    assert kept(0.99)
    assert not kept(1.01)


def test_the_method_names_how_many_stay_whatever_comes():
    (count,) = map(int, re.findall(r"the best ([0-9]+) stay to the end", METHOD))
    medians = {f"b{i}": np.full(6, 10.0**i) for i in range(5)}
    assert survivors(medians, set(medians)) == list(medians)[:count]
