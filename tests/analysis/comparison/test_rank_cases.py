import pandas as pd
import pytest

from nsysprof.analysis.comparison.rank_cases import rank_cases

SHAPE = dict(
    seq=1024,
    kv_seq=1024,
    batch=1,
    heads=8,
    kv_heads=8,
    head_dim=64,
    dtype="fp16",
    causal=True,
    mask="none",
    layout="bhsd",
    head_dim_v=64,
    softcap=0.0,
    sinks=False,
    kv_dtype="same",
    page_size=0,
)


def results(*cases, **same):
    """cases: backend, median, low, high, kernel time of a call (ns)."""
    rows = [
        {**SHAPE, "pass": "fwd", "status": "ok", "backend": backend, "latency_median_ns": median,
         "latency_ci_low_ns": low, "latency_ci_high_ns": high, "kernel_total_ns": kernel, "traced_calls": 1, **same}
        for backend, median, low, high, kernel in cases
    ]  # fmt: skip
    return pd.DataFrame(rows)


def names(cases):
    return [case.backend for case in cases]


def test_what_overlaps_or_differs_by_less_than_two_percent_is_as_fast_as_the_best():
    table = results(
        ("math", 3e6, 2.9e6, 3.1e6, 3e6), ("near", 1.019e6, 1.018e6, 1.02e6, 1e6),
        ("best", 1e6, 0.99e6, 1.001e6, 1e6), ("wide", 1.5e6, 0.9e6, 2e6, 1e6),
    )  # fmt: skip
    (ranking,) = rank_cases(table, on_gpu=True)
    assert names(ranking.fastest) == ["best", "near", "wide"]
    assert names(ranking.slower) == ["math"]
    assert ranking.slower[0].times_best == 3
    assert ranking.dispatch_bound == ()


def test_where_the_gpu_waits_for_the_cpu_only_more_kernel_time_makes_a_case_slower():
    table = results(("auto", 30e3, 29e3, 31e3, 5e3), ("cudnn", 41e3, 40e3, 42e3, 5e3), ("math", 90e3, 89e3, 91e3, 40e3))
    (ranking,) = rank_cases(table, on_gpu=True)
    assert names(ranking.fastest) == ["auto", "cudnn"]
    assert names(ranking.dispatch_bound) == ["auto", "cudnn"]
    assert names(ranking.slower) == ["math"]
    (ranking,) = rank_cases(table, on_gpu=False)
    assert names(ranking.fastest) == ["auto"], "a CPU has nothing to wait for"


@pytest.mark.parametrize("bounds", [(None, None), (float("nan"), float("nan"))])
def test_an_interval_that_is_unknown_could_be_anywhere(bounds):
    table = results(("a", 1e6, *bounds, 1e6), ("b", 2e6, *bounds, 2e6))
    assert names(rank_cases(table, on_gpu=True)[0].fastest) == ["a", "b"]


def test_other_work_has_its_own_ranking_and_what_failed_has_none():
    table = pd.concat(
        [
            results(("a", 1e6, 1e6, 1e6, 1e6)),
            results(("a", 9e6, 9e6, 9e6, 9e6), seq=2048, kv_seq=2048),
            results(("b", 1e6, 1e6, 1e6, 1e6), status="failed"),
        ]
    )
    rankings = rank_cases(table, on_gpu=True)
    found = [(ranking.shape, ranking.positions) for ranking in rankings]
    assert found == [({"seq": 1024}, (0,)), ({"seq": 2048}, (1,))]


def test_a_lossy_backend_is_ranked_by_itself():
    rankings = rank_cases(results(("math", 3e6, 3e6, 3e6, 3e6), ("sage", 1e6, 1e6, 1e6, 1e6)), on_gpu=True)
    assert [names(ranking.fastest) for ranking in rankings] == [["math"], ["sage"]]
