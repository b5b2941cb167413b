"""Real torch on the CPU, where math and flash are what it has."""

import threading
import warnings

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

import torch.nn.functional as F  # noqa: E402
from torch.profiler import ProfilerActivity, profile  # noqa: E402

import nsysprof  # noqa: E402
from nsysprof.attention.policy_file import PolicyFile, PolicyRule, write_policy  # noqa: E402
from nsysprof.errors import PolicyError  # noqa: E402

RULE = PolicyRule("math", batch=2, heads=4, seq=32, head_dim=16, dtype="fp32")
TORCH = F.scaled_dot_product_attention


@pytest.fixture
def write(tmp_path):
    def write(*rules, **fields):
        version = {"torch_version": str(torch.__version__), **fields}
        write_policy(tmp_path / "p.json", PolicyFile(rules, "cpu", None, cudnn_version=None, **version))
        return tmp_path / "p.json"

    return write


def inputs(seq=32, batch=2, heads=4, grad=False):
    return [torch.randn(batch, heads, seq, 16, requires_grad=grad) for _ in range(3)]


def family_of(call):
    """Which backend of torch's a call ran, by its inner operator."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        call()
    names = {event.key for event in profiler.key_averages()}
    if any("attention_math" in name for name in names):
        return "math"
    return "flash" if any("flash_attention_for_cpu" in name for name in names) else None


def family(*args, **fields):
    return family_of(lambda: F.scaled_dot_product_attention(*args, **fields))


def test_the_tuned_backend_runs_and_only_within_the_block(write):
    q, k, v = inputs()
    assert family(q, k, v, is_causal=True) == "flash"
    with nsysprof.policy(write(RULE)) as policy:
        assert family(q, k, v, is_causal=True) == "math"
        assert (policy.calls, policy.left) == (1, 0)
    assert F.scaled_dot_product_attention is TORCH
    assert family(q, k, v, is_causal=True) == "flash"


def test_the_result_is_torchs_own(write):
    q, k, v = inputs()
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    with nsysprof.policy(write(replace(RULE, backend="flash"))):
        torch.testing.assert_close(F.scaled_dot_product_attention(q, k, v, is_causal=True), expected)


@pytest.mark.parametrize(
    "fields",
    [
        {"is_causal": False},
        {"is_causal": True, "dropout_p": 0.5},
        {"attn_mask": torch.ones(32, 32, dtype=torch.bool)},
    ],
    ids=str,
)
def test_other_calls_are_left_to_torch_and_that_is_said_once(write, fields):
    q, k, v = inputs()
    with warnings.catch_warnings(record=True) as caught, nsysprof.policy(write(RULE)) as policy:
        warnings.simplefilter("always")
        for _ in range(3):
            F.scaled_dot_product_attention(q, k, v, **fields)
    assert policy.left == 3
    said = [str(each.message) for each in caught if each.category is nsysprof.PolicyWarning]
    assert len(said) == 1
    assert "does not match any rule of the policy" in said[0]


@pytest.mark.parametrize("fields", [{"seq": 33}, {"batch": 1}, {"heads": 8}])
def test_other_shapes_are_left_to_torch(write, fields):
    with pytest.warns(nsysprof.PolicyWarning), nsysprof.policy(write(RULE)) as policy:
        F.scaled_dot_product_attention(*inputs(**fields), is_causal=True)
    assert (policy.calls, policy.left) == (0, 1)


def test_training_has_rules_of_its_own(write):
    path = write(RULE, replace(RULE, pass_="bwd", backend="flash"), replace(RULE, pass_="fwdbwd", backend="math"))
    q, k, v = inputs(grad=True)
    with nsysprof.policy(path) as policy:
        assert family(q, k, v, is_causal=True) == "math"
        F.scaled_dot_product_attention(q, k, v, is_causal=True).sum().backward()
        with torch.no_grad():
            assert family(q, k, v, is_causal=True) == "math"
    assert policy.left == 0
    assert q.grad is not None
    with pytest.warns(nsysprof.PolicyWarning), nsysprof.policy(write(RULE)) as policy:
        F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert policy.left == 1


def test_auto_is_torchs_choice_and_no_fallback(write):
    with nsysprof.policy(write(replace(RULE, backend="auto"))) as policy:
        assert family(*inputs(), is_causal=True) == "flash"
    assert (policy.calls, policy.left) == (1, 0)


def test_a_backend_that_refuses_is_left_to_torch(write):
    with (
        pytest.warns(nsysprof.PolicyWarning, match="efficient refused"),
        nsysprof.policy(write(replace(RULE, backend="efficient"))) as policy,
    ):
        out = F.scaled_dot_product_attention(*inputs(), is_causal=True)
        F.scaled_dot_product_attention(*inputs(), is_causal=True)
    assert out.shape == (2, 4, 32, 16)
    assert (policy.calls, policy.left) == (0, 2), "it is not asked again, and neither call ran as its rule says"


def test_errors_of_the_call_itself_pass(write):
    q, k, _ = inputs()
    with nsysprof.policy(write(RULE)), pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(q, k, torch.randn(2, 4, 32, 16, dtype=torch.float64), is_causal=True)


def test_the_flags_are_as_before(write):
    flags = torch.backends.cuda
    flags.enable_math_sdp(False)
    try:
        with nsysprof.policy(write(replace(RULE, backend="flash"))):
            F.scaled_dot_product_attention(*inputs(), is_causal=True)
            assert not flags.math_sdp_enabled()
    finally:
        flags.enable_math_sdp(True)
    assert flags.flash_sdp_enabled()
    assert flags.mem_efficient_sdp_enabled()


def test_another_torch_is_said_once_and_nothing_is_changed(write):
    path = write(RULE, torch_version="1.0")
    with pytest.warns(nsysprof.PolicyWarning, match=r"torch is .*, tuned on 1\.0"), nsysprof.policy(path):
        assert F.scaled_dot_product_attention is TORCH
    with pytest.raises(PolicyError, match=r"tuned on 1\.0"), nsysprof.policy(path, strict=True):
        pass
    assert F.scaled_dot_product_attention is TORCH


def test_a_policy_of_a_gpu_where_there_is_none(tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    path = tmp_path / "p.json"
    write_policy(path, PolicyFile((RULE,), "cuda", "NVIDIA H200", "2.11", "9.19.0"))
    with pytest.warns(nsysprof.PolicyWarning, match="no GPU, tuned on NVIDIA H200"), nsysprof.policy(path):
        F.scaled_dot_product_attention(*inputs(), is_causal=True)


def test_blocks_nest_and_an_error_in_one_restores(write):
    policy = nsysprof.policy(write(RULE))
    with policy, policy:
        F.scaled_dot_product_attention(*inputs(), is_causal=True)
    assert F.scaled_dot_product_attention is TORCH
    with pytest.raises(ValueError, match="boom"), policy:
        raise ValueError("boom")
    assert F.scaled_dot_product_attention is TORCH
    assert policy.calls == 1


def test_threads_share_a_policy(write):
    with nsysprof.policy(write(RULE)) as policy:
        threads = [
            threading.Thread(
                target=lambda: [F.scaled_dot_product_attention(*inputs(), is_causal=True) for _ in range(5)]
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert policy.left == 0
    assert torch.backends.cuda.flash_sdp_enabled()


def test_torchs_own_modules_use_it(write):
    module = torch.nn.MultiheadAttention(64, 4, batch_first=True).train()
    rule = replace(RULE, causal=False, pass_="fwdbwd")
    x = torch.randn(2, 32, 64)
    with nsysprof.policy(write(rule)) as policy:
        module(x, x, x, need_weights=False)
    assert policy.calls == 1


def test_a_compiled_function_runs_the_tuned_backend(write):
    q, k, v = inputs()
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True) * 2

    torch._dynamo.reset()
    with nsysprof.policy(write(RULE)):
        compiled = torch.compile(attend, backend="eager")
        torch.testing.assert_close(compiled(q, k, v), expected * 2)
        assert family_of(lambda: compiled(q, k, v)) == "math"


def test_blocks_of_several_threads_end_in_any_order(write):
    first = nsysprof.policy(write(RULE))
    second = nsysprof.policy(write(replace(RULE, seq=64, kv_seq=64)))
    first.__enter__()
    second.__enter__()
    F.scaled_dot_product_attention(*inputs(seq=64), is_causal=True)
    first.__exit__(None, None, None)
    F.scaled_dot_product_attention(*inputs(seq=64), is_causal=True)
    assert (second.calls, first.calls) == (2, 0)
    second.__exit__(None, None, None)
    assert F.scaled_dot_product_attention is TORCH


def test_torchs_own_errors_of_a_call_pass(write):
    warnings.simplefilter("ignore")
    with nsysprof.policy(write(RULE)), pytest.raises(TypeError):
        F.scaled_dot_product_attention("q", "k", "v", is_causal=True)
