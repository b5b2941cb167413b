import dataclasses

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.attention.shape import Case  # noqa: E402
from nsysprof.workload.job import Job  # noqa: E402
from nsysprof.workload.measuring.measure import (  # noqa: E402
    _time_graph,
    measure_block,
    prepared,
    sample_count,
)
from nsysprof.workload.refusal import IneligibleError  # noqa: E402


def job(**fields):
    usual = {"samples": 12, "least_samples": 10, "sample_seconds": 5.0, "warmup_calls": 2, "flush": False}
    return Job((), (), "timed", "none", "cpu", 60.0, "", "", 0, **{**usual, **fields})


@pytest.mark.parametrize("pass_", ["fwd", "bwd", "fwdbwd"])
def test_raw_samples_of_every_pass(pass_):
    measured = measure_block(Case("math", seq=16, dtype="fp32", pass_=pass_), job())
    assert len(measured["values_ns"]) == len(measured["offsets_ns"]) == 12
    assert min(measured["values_ns"]) > 0
    assert measured["warmup_calls"] == 3, "one, and then as many as asked for"
    assert len(measured["other_caches_ns"]) == 6
    assert min(measured["other_caches_ns"]) > 0
    assert 0 <= measured["empty_ns"] < min(measured["values_ns"]), "no call takes less than any call"
    assert measured["graph_reason"] == "there are no CUDA graphs on a CPU"
    assert measured["peak_bytes"] is None, "torch counts no CPU memory: unknown, not zero"


@pytest.mark.parametrize("pass_", ["bwd", "fwdbwd"])
def test_the_backward_passes_return_the_gradients_of_q_k_v(pass_):
    case = Case("math", seq=16, heads=2, head_dim=4, dtype="fp32", pass_=pass_)
    with prepared(case, "cpu") as call:
        gradients = call()
    assert [tuple(g.shape) for g in gradients] == [(1, 2, 16, 4)] * 3
    assert all(g.abs().sum() > 0 for g in gradients)


@pytest.mark.parametrize("backend", ["math", "flash", "auto", "naive"])
def test_grouped_queries(backend):
    case = Case(backend, seq=16, heads=4, head_dim=4, dtype="fp32", pass_="fwdbwd", kv_heads=2)
    torch.manual_seed(3)  # the gradient of the result
    try:
        with prepared(case, "cpu") as call:
            gradients = call()
    except IneligibleError:
        pytest.skip(f"this torch has no grouped queries in {backend} on the CPU")
    torch.manual_seed(3)
    with prepared(replace(case, backend="math"), "cpu") as call:
        expected = call()
    assert [tuple(g.shape) for g in gradients] == [(1, 4, 16, 4), (1, 2, 16, 4), (1, 2, 16, 4)]
    torch.testing.assert_close(gradients, expected)


@pytest.mark.parametrize("share", [0.3, None])
def test_a_search_captures_only_calls_that_are_largely_launching(share):
    asked = dataclasses.replace(job(), device="cuda", graph="short")
    found = _time_graph(lambda: None, asked, 3, None, first=False, share=share)
    assert found == ((), "launching takes too little of a call")


def test_fewer_samples_when_they_would_take_too_long_but_never_under_the_least():
    assert [sample_count(job(samples=50, sample_seconds=3.0), seconds) for seconds in (0.001, 0.1, 60.0)] == [
        50,
        30,
        10,
    ]
    assert sample_count(job(samples=5, sample_seconds=3.0), 60.0) == 5
    assert sample_count(job(samples=50, sample_seconds=3.0, least_samples=1), 60.0) == 1
