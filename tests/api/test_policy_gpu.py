"""On a real GPU: the kernels that run are those of the policy's backend."""

import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

import torch.nn.functional as F  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

import nsysprof  # noqa: E402
from nsysprof.attention.kernel_family import kernel_family  # noqa: E402
from nsysprof.attention.policy_file import PolicyFile, PolicyRule, write_policy  # noqa: E402
from nsysprof.workload.applied_policy.apply_policy import loaded_cudnn  # noqa: E402

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")]


def family(q, k, v):
    warnings.simplefilter("ignore")  # the profiler's own, at its first use in a process
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
        torch.cuda.synchronize()
    return kernel_family(event.key for event in profiler.key_averages() if event.device_type.name == "CUDA")


@pytest.mark.parametrize("backend", ["math", "flash", "efficient", "cudnn"])
def test_the_tuned_backend_runs(tmp_path, backend):
    q, k, v = (torch.randn(2, 8, 512, 64, device="cuda", dtype=torch.float16) for _ in range(3))
    rule = PolicyRule(backend, batch=2, seq=512)
    version = (torch.cuda.get_device_name(), str(torch.__version__), loaded_cudnn())
    write_policy(tmp_path / "p.json", PolicyFile((rule,), "cuda", *version))
    before = family(q, k, v)
    with nsysprof.policy(tmp_path / "p.json") as policy:
        # The first call of a shape runs torch's choice too, to compare the results.
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
        assert family(q, k, v) == backend
    assert (policy.calls, policy.left) == (2, 0)
    assert family(q, k, v) == before
