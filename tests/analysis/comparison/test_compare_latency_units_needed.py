import numpy as np

from nsysprof.analysis.comparison.compare_latency import units_needed


def test_how_many_more_is_what_the_power_says():
    # Two-sided t test, beyond 0.5 %: d = 0.83, power 0.8: 24 a group at alpha 0.05, 46 at 0.0025.
    assert units_needed(np.log1p(0.03), 3.0, 1) == 24
    assert units_needed(np.log1p(0.03), 3.0, 20) == 46
    assert units_needed(0.0, 3.0, 1) == 2
    assert units_needed(0.02, 3.0, 20) > units_needed(0.02, 3.0, 1) > 2


def test_more_processes_of_one_run_are_not_advised_where_runs_differ():
    between_runs = np.log1p(0.02) / 1.96
    assert units_needed(0.005, 3.0, 20) < 7
    assert units_needed(0.005, 3.0, 1, between_runs) == 1001, "one run a side never has the power"
    assert units_needed(0.01, 4.0, 1, between_runs) > units_needed(0.01, 4.0, 1)
    assert units_needed(0.0, 4.0, 1, between_runs) == 2
