import shutil
import sys
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

import torch.nn.functional as F  # noqa: E402

from nsysprof.workload.backends import check_form, load_attention  # noqa: E402
from nsysprof.workload.refusal import (  # noqa: E402
    IneligibleError,
    UnusableBackendError,
    WrongResultError,
    eligibility,
    refusal_reasons,
)
from tests.builders.registering import our_backends, register  # noqa: E402


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


def test_a_registered_callable_is_loaded_by_its_name(tmp_path, monkeypatch):
    register(monkeypatch, tmp_path, {"mine": "operator:add", "nested": "tests.workload.test_backends:Kernels.second"})
    assert load_attention("mine")[1](1, 2) == 3
    assert load_attention("nested")[1](1, 2) == "second"


class Kernels:
    @staticmethod
    def second(*_):
        return "second"


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        ("no_such_module:attention", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("broken_module:attention", "broken_module cannot be imported: ZeroDivisionError"),
        ("operator:attention", "operator has no attention"),
        ("math:pi", "math:pi is of type float, which cannot be called"),
        ("vanished", "No installed package registers the backend vanished"),
    ],
)
def test_a_name_that_leads_to_nothing_callable_says_why(backend, reason, tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnusableBackendError, match=reason):
        load_attention(backend)


@pytest.mark.parametrize("backend", ["flash_attn", "xformers"])
def test_a_library_that_is_not_installed_is_ineligible_with_the_command(backend, tmp_path, monkeypatch):
    register(monkeypatch, tmp_path, our_backends())
    for module in ("flash_attn", "xformers"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(IneligibleError, match="pip install"):
        attention(backend)


def test_adapters_translate_the_layout_and_the_mask(tmp_path, monkeypatch):
    register(monkeypatch, tmp_path, our_backends())

    def memory_efficient_attention(query, key, value, attn_bias):
        if query.dim() == 5:
            query, key, value = (t.flatten(2, 3) for t in (query, key, value))
        q, k, v = (t.transpose(1, 2) for t in (query, key, value))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=attn_bias == "lower").transpose(1, 2)
        return out.unflatten(2, (-1, heads)) if heads else out

    library = SimpleNamespace(
        memory_efficient_attention=memory_efficient_attention, LowerTriangularMask=lambda: "lower"
    )
    monkeypatch.setitem(sys.modules, "xformers", SimpleNamespace(ops=library))
    monkeypatch.setitem(sys.modules, "xformers.ops", library)
    heads = 0
    for causal in (True, False):
        torch.testing.assert_close(attention("xformers", causal=causal), attention("math", causal=causal))
    heads = 2
    q, (k, v) = torch.randn(2, 4, 32, 16), torch.randn(2, 2, 2, 32, 16)
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    torch.testing.assert_close(load_attention("xformers")[1](q, k, v, True), expected)


@pytest.mark.slow  # test_case_tensors.py runs it as Python
@pytest.mark.filterwarnings("ignore")  # of the compiler
def test_flex_computes_the_same_attention_and_refuses_gradients_on_the_cpu(tmp_path, monkeypatch):
    if shutil.which("g++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    register(monkeypatch, tmp_path, our_backends())
    torch.testing.assert_close(attention("flex"), attention("math"))
    q = torch.randn(1, 1, 4, 4, requires_grad=True)
    with pytest.raises(IneligibleError, match="no gradients on the CPU"):
        load_attention("flex")[1](q, q, q, True)


@pytest.mark.parametrize(
    ("out", "said"),
    [
        (None, "returned a NoneType instead of a tensor"),
        (torch.zeros(2, 3, 4), r"\(2, 3, 4\) instead of \(2, 3, 4, 5\)"),
        (torch.zeros(2, 3, 4, 5).double(), "float64 instead of torch.float32"),
        (torch.zeros(2, 3, 4, 5, device="meta"), "on meta instead of cpu"),
    ],
)
def test_a_result_of_another_form_is_wrong(out, said):
    q, v = torch.zeros(2, 3, 4, 7), torch.zeros(2, 1, 4, 5)
    with pytest.raises(WrongResultError, match=said):
        check_form(out, q, v)
    assert check_form(torch.zeros(2, 3, 4, 5), q, v).shape == (2, 3, 4, 5)


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
