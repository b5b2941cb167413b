from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.case import Case  # noqa: E402
from nsysprof.workload.measure import measure_latency, prepared, sample_count  # noqa: E402
from nsysprof.workload.refusal import IneligibleError  # noqa: E402


@pytest.mark.parametrize("pass_", ["fwd", "bwd", "fwdbwd"])
def test_raw_samples_of_every_pass(pass_):
    measured = measure_latency(Case("math", 16, dtype="fp32", pass_=pass_), "cpu", 12, 5.0, 2)
    assert len(measured["values_ns"]) == 12
    assert min(measured["values_ns"]) > 0
    assert measured["peak_allocated_bytes"] is None, "torch counts no CPU memory: unknown, not zero"


@pytest.mark.parametrize("pass_", ["bwd", "fwdbwd"])
def test_the_backward_passes_return_the_gradients_of_q_k_v(pass_):
    case = Case("math", 16, heads=2, head_dim=4, dtype="fp32", pass_=pass_)
    with prepared(case, "cpu") as call:
        gradients = call()
    assert [tuple(g.shape) for g in gradients] == [(1, 2, 16, 4)] * 3
    assert all(g.abs().sum() > 0 for g in gradients)


@pytest.mark.parametrize("backend", ["math", "flash", "auto", "naive"])
def test_grouped_queries(backend):
    case = Case(backend, 16, heads=4, head_dim=4, dtype="fp32", pass_="fwdbwd", kv_heads=2)
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


def test_fewer_samples_when_they_would_take_too_long_but_never_under_ten():
    assert sample_count(50, 3.0, 0.001) == 50
    assert sample_count(50, 3.0, 0.1) == 30
    assert sample_count(50, 3.0, 60.0) == 10
    assert sample_count(5, 3.0, 60.0) == 5
