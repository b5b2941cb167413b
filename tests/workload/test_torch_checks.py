"""Torch itself is asked, on the CPU; what its CUDA checks say is canned here, and real in test_torch_checks_gpu."""

import os
import warnings

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

from nsysprof.attention.eligibility import (  # noqa: E402
    AttentionCall,
    EligibilityAnswer,
    EligibilityQuestion,
)
from nsysprof.files.plain_file import decode_json, encode_json  # noqa: E402
from nsysprof.workload import torch_checks  # noqa: E402
from nsysprof.workload.measuring.case_tensors import NoMemoryError, make_inputs  # noqa: E402
from nsysprof.workload.torch_checks import _naive, _sdpa, answer, collect_facts  # noqa: E402

CALL = AttentionCall(seq=16, kv_seq=16, heads=4, kv_heads=4, head_dim=8, dtype="fp32")
WAYS = [
    {},
    {"kv_heads": 2},
    {"kv_seq": 40},
    {"kv_seq": 40, "causal": False},
    {"causal": False, "mask": "bool"},
    {"causal": False, "mask": "float", "kv_seq": 8},
    {"causal": False, "mask": "learned"},
]


@pytest.mark.parametrize("fields", WAYS, ids=str)
def test_naive_computes_what_torch_does(fields):
    torch.manual_seed(0)
    inputs = make_inputs(replace(CALL, **fields), "cpu", fill=True)
    torch.testing.assert_close(_naive(inputs), _sdpa(inputs))


@pytest.mark.parametrize("fields", [*WAYS, {"pass_": "bwd"}, {"dtype": "bf16"}, {"dropout": 0.5}], ids=str)
@pytest.mark.parametrize("backend", ["math", "auto", "naive"])
def test_every_way_to_call_attention_runs(backend, fields):
    answered = answer(EligibilityQuestion(backend, replace(CALL, **fields)), "cpu")
    assert answered.eligible is True
    assert answered.ran.status == "ok", answered.ran.reason
    assert answered.ran.as_asked is True
    assert decode_json(encode_json(answered), EligibilityAnswer) == answered


def test_no_warning_of_torch_escapes_and_its_setting_is_as_before():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first, second = (answer(EligibilityQuestion("flash", replace(CALL, dropout=0.1)), "cpu") for _ in range(2))
    assert not caught
    assert first == second, "the second time torch still gives its reason"
    assert first.constraints[0].property == "dropout"
    assert [answer(EligibilityQuestion("flash", each), "cpu").eligible for each in first.nearest] == [True]
    assert not torch.is_warn_always_enabled()


def test_facts_name_torch():
    assert collect_facts("cpu")["torch_version"] == str(torch.__version__)


# The checks of a GPU, as torch on an H200 would answer: a warning through torch's own way, and False.
def refuse_wide(params, debug):
    assert debug, "else torch gives no reason"
    if params[0].shape[-1] > 256:
        warnings.warn(
            "Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256. Got "
            f"Query.size(-1): {params[0].shape[-1]}, Key.size(-1): 1, Value.size(-1): 1 instead. (Triggered internally "
            "at /pytorch/sdp_utils.cpp:129.)",
            stacklevel=1,
        )
        return False
    return True


@pytest.fixture
def gpu(monkeypatch):
    """Return the CUDA half of the module with checks of ours behind it, on tensors of the CPU."""
    monkeypatch.setattr(torch.backends.cuda, "can_use_flash_attention", refuse_wide)
    monkeypatch.setattr(torch.backends.cuda, "can_use_efficient_attention", lambda *_: False)
    monkeypatch.setattr(torch.backends.cuda, "can_use_cudnn_attention", lambda *_: True)
    monkeypatch.setattr(torch.backends.cuda, "SDPAParams", lambda *fields: fields)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch_checks, "make_inputs", lambda call, _device, *, fill: make_inputs(call, "cpu", fill=fill))
    torch_checks.support.cache_clear()
    yield
    torch_checks.support.cache_clear()


def test_the_case_of_head_dimension_8192(gpu):
    answered = torch_checks._ask("flash", replace(CALL, head_dim=8192), "cuda")
    assert answered.eligible is False
    (constraint,) = answered.constraints
    assert (constraint.property, constraint.value, constraint.bound) == ("head_dim", 8192, 256)
    assert "Triggered" not in constraint.text
    assert [each.head_dim for each in answered.nearest] == [256]


def test_a_refusal_without_a_reason_is_still_a_refusal(gpu):
    answered = torch_checks._ask("efficient", CALL, "cuda")
    assert answered.eligible is False
    assert answered.constraints[0].text == "torch gave no reason"
    assert answered.nearest == ()


def test_build_and_architecture_are_asked_of_an_ordinary_call(gpu, monkeypatch):
    assert torch_checks.support("flash", "cuda") == (True, True)
    assert torch_checks.support("efficient", "cuda") == (True, None), "refused, and torch does not say for what"

    def refuse(text):
        def check(_params, _debug):
            warnings.warn(text, stacklevel=1)
            return False

        torch_checks.support.cache_clear()
        monkeypatch.setattr(torch.backends.cuda, "can_use_flash_attention", check)
        return torch_checks.support("flash", "cuda")

    assert refuse("Torch was not compiled with flash attention.") == (False, None)
    text = (
        "Flash attention only supports gpu architectures in the range [sm80, sm121]. Attempting to run on a sm 7.5 gpu."
    )
    assert refuse(text) == (True, False)


def test_a_torch_without_the_check_answers_unknown(gpu, monkeypatch):
    monkeypatch.delattr(torch.backends.cuda, "can_use_cudnn_attention")
    with pytest.raises(torch_checks.UnknownError, match="can_use_cudnn_attention"):
        torch_checks._ask("cudnn", CALL, "cuda")


def test_a_torch_without_the_choice_predicts_nothing(monkeypatch):
    monkeypatch.delattr(torch, "_fused_sdp_choice")
    answered = answer(EligibilityQuestion("auto", CALL), "cpu")
    assert answered.predicted is None
    assert (answered.ran.family, answered.ran.as_asked) == ("flash", None)


def test_inputs_that_cannot_exist_are_a_lack_of_memory():
    with pytest.raises(NoMemoryError, match="do not fit"):
        make_inputs(replace(CALL, seq=1 << 40, head_dim=1 << 40), "cpu", fill=False)


def test_what_a_backend_raises_is_an_answer(monkeypatch):
    def broken(*_):
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with ...")

    monkeypatch.setattr(torch_checks, "run_once", broken)
    answered = answer(EligibilityQuestion("math", CALL), "cpu")
    assert (answered.eligible, answered.ran.status) == (True, "error")
    assert answered.ran.reason.endswith("an illegal memory access was encountered")
    assert torch_checks.is_poisoned(answered)


# As torch 2.11 wrote them on an H200: the checks bypass the handler that makes Python warnings of native ones.
NATIVE = """\
[W1121 05:42:57.454124681 sdp_utils.cpp:180] Warning: Flash attention requires q,k,v to have the same last dimension \
and to be less than or equal to 256. Got Query.size(-1): 8192, Key.size(-1): 8192, Value.size(-1): 8192 instead. \
(function check_head_dim_size_flash)
something else
[W1121 05:42:57.460157423 sdp_utils.cpp:522] Warning: head_dim should be no more than 256 (function check_cudnn)
"""


def test_warnings_that_native_code_writes_to_standard_error_are_reasons_too(monkeypatch, capfd):
    def refuse(_backend, _call):
        os.write(2, NATIVE.encode())
        return False

    monkeypatch.setattr(torch_checks, "_can_use", refuse)
    call = replace(CALL, head_dim=8192)
    verdict = torch_checks._verdict("flash", call, "cuda")
    found = [(each.property, each.value, each.relation, each.bound) for each in verdict.constraints]
    assert found == [("head_dim", 8192, "at most", 256)] * 2
    assert "function" not in verdict.constraints[0].text
    assert capfd.readouterr().err == "", "none of it reaches the terminal"


def test_standard_error_is_given_back_when_a_check_raises(monkeypatch, capfd):
    def fail(_backend, _call):
        raise RuntimeError("CUDA error")

    monkeypatch.setattr(torch_checks, "_can_use", fail)
    with pytest.raises(RuntimeError):
        torch_checks._verdict("flash", CALL, "cuda")
    os.write(2, b"still here")
    assert capfd.readouterr().err == "still here"
