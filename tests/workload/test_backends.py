import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.workload.backends import (  # noqa: E402
    IneligibleError,
    eligibility,
    load_attention,
    refusal_reasons,
)


def attention(backend, **shape):
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, 3, 32, 16, generator=generator) for _ in range(3))
    select, function = load_attention(backend)
    with select, eligibility(backend):
        return function(q, k, v, shape.get("causal", True))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("backend", ["flash", "auto", "naive"])
def test_backends_compute_the_same_attention(backend, causal):
    torch.testing.assert_close(attention(backend, causal=causal), attention("math", causal=causal))


def test_a_backend_the_cpu_lacks_is_ineligible_with_a_reason():
    with pytest.raises(IneligibleError, match="No (viable|available)"):
        attention("cudnn")


def test_other_runtime_errors_pass_through():
    with pytest.raises(RuntimeError, match="shapes"), eligibility("math"):
        raise RuntimeError("shapes do not match")


def test_callables_of_the_user_are_loaded_by_name():
    _, function = load_attention("operator:add")
    assert function(1, 2) == 3


# The text of a refusal at head dimension 8192, as torch 2.8 gives it on a GPU.
WARNINGS = [
    "Memory efficient kernel not used because: (Triggered internally at /pytorch/sdp_utils.cpp:858.)",
    "Memory Efficient attention has been runtime disabled. (Triggered internally at /pytorch/sdp_utils_cpp.h:552.)",
    "Flash attention kernel not used because: (Triggered internally at /pytorch/sdp_utils.cpp:860.)",
    "Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256. Got "
    "Query.size(-1): 8192 instead. (Triggered internally at /pytorch/sdp_utils.cpp:129.)",
    "CuDNN attention kernel not used because: (Triggered internally at /pytorch/sdp_utils.cpp:862.)",
    "CuDNN attention has been runtime disabled. (Triggered internally at /pytorch/sdp_utils.cpp:592.)",
]


def test_reasons_are_kept_apart_by_backend():
    flash = refusal_reasons("flash", WARNINGS)
    assert flash.startswith("Flash attention requires")
    assert "Triggered" not in flash
    assert "Got Query.size(-1): 8192 instead." in flash
    assert refusal_reasons("cudnn", WARNINGS) == ""
    assert refusal_reasons("efficient", WARNINGS) == ""
