"""The use of SMs, tensor pipes and buses by range: the mean of the samples, with a bound that holds."""

import numpy as np
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.analysis.ranges.range_traffic import unit_use_in_groups
from nsysprof.trace.open import open_trace
from nsysprof.trace.schema import GpuMetrics, UseSeries
from nsysprof.trace.tables import read_tables

PERIOD = 100_000
USED = np.array([[1, 0], [1, 1]])


def series(values, *, gpu=0, metric="SMs Active", period=PERIOD):
    values = np.asarray(values, dtype=np.int16)
    return UseSeries(metric, gpu, gpu, period, np.arange(len(values), dtype=np.int64) * period, values)


def use_of(all_series, start, end, used=USED[:1]):
    count = len(start)
    pid = np.ones(count, np.int64)
    metrics = GpuMetrics((), tuple(all_series))
    return unit_use_in_groups(metrics, np.array(start), np.array(end), np.arange(count), count, pid, used)


def test_the_mean_is_that_of_the_samples_and_its_bound_holds_the_truth():
    random = np.random.default_rng(5)
    truth = np.repeat(random.uniform(0, 100, 50), 20)  # 1,000 samples, steady for 2 ms each
    found = use_of([series(np.rint(truth))], [3 * PERIOD + 7], [900 * PERIOD + 11])[0]
    exact = truth[3:900].mean()
    assert found.mean_pct[0] == pytest.approx(exact, abs=0.5)
    assert 0.5 <= found.error_pct[0] < 0.8
    assert abs(found.mean_pct[0] - exact) <= found.error_pct[0]


def test_the_mean_of_a_process_is_over_its_gpus():
    two = [series([10] * 100), series([30] * 100, gpu=1)]
    assert use_of(two, [0], [100 * PERIOD], USED)[0].mean_pct[0] == pytest.approx(20)
    assert use_of(two, [0], [100 * PERIOD], USED[:1])[0].mean_pct[0] == pytest.approx(10)


def test_what_was_not_sampled_is_unknown():
    found = use_of([series([50] * 10)], [0, 0], [PERIOD // 2, 20 * PERIOD])[0]
    assert np.isnan(found.mean_pct).tolist() == [True, True]
    assert np.isnan(found.error_pct).all()


def test_units_of_a_real_trace_agree_with_its_kernels(trace_path):
    with open_trace(trace_path("gm10k")) as trace:
        analysis = summarize(read_tables(trace))
    use = analysis.gpu_use[analysis.gpu_use["range"].isna()].set_index("metric")
    assert {"GR Active", "SMs Active", "SM Issue", "Tensor Active"} <= set(use.index)
    # The graphics engine is active while kernels, copies or fills are; the SMs are at most as long.
    busy = 100 * analysis.totals.gpu_busy_ns / analysis.totals.gpu_span_ns
    assert use.loc["GR Active", "mean_pct"] >= busy - use.loc["GR Active", "error_pct"]
    assert use.loc["SMs Active", "mean_pct"] <= use.loc["GR Active", "mean_pct"] + use.loc["SMs Active", "error_pct"]
    by_range = analysis.gpu_use[analysis.gpu_use["range"].notna()]
    assert by_range["mean_pct"].between(0, 101).all()


def test_without_samples_there_is_no_row(trace_path):
    with open_trace(trace_path("sdpa")) as trace:
        analysis = summarize(read_tables(trace))
    assert len(analysis.gpu_use) == 0
