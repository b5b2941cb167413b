"""Latency before, during and after a recording."""

import random
from dataclasses import replace

from nsysprof.analysis.sampling.latency import compare_windows, summarize_window


def test_medians_ratios_and_intervals():
    # In no order: steps that rose would say less of their median.
    before = summarize_window([100 + 37 * k % 101 for k in range(101)], 10)
    during = summarize_window([200 + 2 * (37 * k % 101) for k in range(101)], 10)
    found = compare_windows("lines", before, during, before)
    assert (before.median_ns, before.p90_ns) == (150, 190)
    ratio, low, high = found.during_ratio
    assert ratio == 2.0
    assert low < 2.0 < high
    assert found.after_ratio[0] == 1.0
    assert found.unknown == ""


def test_the_interval_holds_the_true_median_as_often_as_it_says():
    random.seed(3)
    held = 0
    for _ in range(400):
        window = summarize_window([round(random.expovariate(1e-6)) for _ in range(50)], 1)
        held += window.median_low_ns <= 693_147 <= window.median_high_ns
    assert 0.93 < held / 400 < 0.995


def test_a_median_that_may_be_nothing_gives_a_ratio_no_bounds():
    steady = summarize_window([100 + k % 3 for k in range(40)], 1)
    drifting = replace(steady, median_low_ns=0)
    found = compare_windows("lines", drifting, steady, steady)
    assert found.during_ratio == found.after_ratio == (1.0, None, None)
    assert compare_windows("lines", steady, steady, steady).during_ratio[1] is not None


def test_unknown_durations_and_few_steps():
    few = summarize_window([5, None, 7], 1)
    assert (few.steps, few.median_ns, few.median_low_ns) == (3, 6, None)
    assert compare_windows("lines", few, few, few).during_ratio == (1.0, None, None)
    none = summarize_window([], 1)
    found = compare_windows("lines", few, few, none)
    assert found.after_ratio is None
    assert "no step" in found.unknown
    assert "--watch 0" in compare_windows("lines", None, few, None).unknown
