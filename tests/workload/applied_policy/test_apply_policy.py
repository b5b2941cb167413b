"""Real torch on the CPU: which calls have a rule, what the compiler makes of it, and what is left to torch."""

import sys
import warnings
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch", reason="needs the extra [torch]")

import torch.nn.functional as F  # noqa: E402

from nsysprof.attention.policy_file import PolicyFile, PolicyRule  # noqa: E402
from nsysprof.workload.applied_policy.apply_policy import (  # noqa: E402
    AppliedPolicy,
    begin_policy,
    end_policy,
    machine_differences,
)

SIZES = {"batch": 2, "heads": 4, "seq": 32, "head_dim": 16, "dtype": "fp32"}
HERE = str(torch.__version__)


@pytest.fixture
def applied():
    """Return a function that puts rules in force until the test ends; what they say lands in `.told`."""
    begun = []

    def begin(*rules):
        told = []
        policy = AppliedPolicy(PolicyFile(rules, "cpu", None, HERE, None), told.append)
        policy.told = told
        begin_policy(policy)
        begun.append(policy)
        return policy

    yield begin
    for policy in begun:
        end_policy(policy)


def inputs(seq=32, dtype=torch.float32, grad=False):
    return [torch.randn(2, 4, seq, 16, dtype=dtype, requires_grad=grad) for _ in range(3)]


def test_a_scale_counts_for_no_rule(applied):
    policy = applied(PolicyRule("math", **SIZES))
    q, k, v = inputs()
    F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    assert (policy.calls, policy.left) == (1, 0)


def test_autocast_decides_the_dtype(applied):
    policy = applied(PolicyRule("math", **{**SIZES, "dtype": "bf16"}))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        F.scaled_dot_product_attention(*inputs(), is_causal=True)
    F.scaled_dot_product_attention(*inputs(), is_causal=True)
    assert (policy.calls, policy.left) == (1, 1)


def test_only_plain_tensors_of_four_dimensions_have_rules(applied):
    policy = applied(PolicyRule("math", **SIZES))
    F.scaled_dot_product_attention(*(torch.randn(4, 32, 16) for _ in range(3)), is_causal=True)
    warnings.simplefilter("ignore")  # nested tensors are a prototype
    nested = torch.nested.nested_tensor([torch.randn(4, 3, 16), torch.randn(4, 5, 16)])
    F.scaled_dot_product_attention(nested, nested, nested)
    assert (policy.calls, policy.left) == (0, 2)


def test_masks_and_keys_of_another_length_have_rules(applied):
    """A mask counts by its kind: bool or float. Keys may be longer than queries."""
    shape = {**SIZES, "causal": False, "kv_seq": 48}
    policy = applied(PolicyRule("math", mask="bool:b11k", **shape), PolicyRule("math", **shape))
    q, (k, v) = torch.randn(2, 4, 32, 16), (torch.randn(2, 4, 48, 16) for _ in range(2))
    mask = torch.ones(2, 1, 1, 48, dtype=torch.bool)
    F.scaled_dot_product_attention(q, k, v)
    F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert (policy.calls, policy.left) == (2, 0)
    F.scaled_dot_product_attention(q, k, v, attn_mask=mask.float())
    F.scaled_dot_product_attention(q, k[:, :, :40], v[:, :, :40])
    assert (policy.calls, policy.left) == (2, 2)


def test_a_mask_that_needs_a_gradient_has_rules_of_its_own(applied):
    """Torch's fused kernels take a mask, but not one that needs a gradient."""
    shape = {**SIZES, "causal": False, "pass_": "fwdbwd"}
    policy = applied(PolicyRule("math", mask="learned:11qk", **shape))
    learned = torch.zeros(32, 32, requires_grad=True)
    F.scaled_dot_product_attention(*inputs(grad=True), attn_mask=learned.detach())
    assert (policy.calls, policy.left) == (0, 1)
    F.scaled_dot_product_attention(*inputs(grad=True), attn_mask=learned).sum().backward()
    F.scaled_dot_product_attention(*inputs(), attn_mask=learned * 1).sum().backward()
    assert (policy.calls, policy.left) == (2, 1), "a gradient of the mask alone is one too"


def test_the_first_call_is_checked_and_a_wrong_backend_is_dropped(applied, monkeypatch):
    """The planted fault: what runs alone gets other inputs, as a kernel with a wrong scale would compute."""
    from nsysprof.workload.applied_policy import apply_policy

    policy = applied(PolicyRule("math", **SIZES))
    calls = []

    original = apply_policy._ORIGINAL[0]
    tensors = inputs()
    expected = original(*tensors, is_causal=True)

    def spoil(_now, wanted):
        calls.append(wanted != (True, True, True, True))

    monkeypatch.setattr(apply_policy, "_set_allowed", spoil)
    attend = apply_policy.make_function(
        lambda q, *rest, **more: original(q * (1.5 if calls and calls[-1] else 1.0), *rest, **more),
    )
    attend(*tensors, is_causal=True)
    torch.testing.assert_close(attend(*tensors, is_causal=True), expected)
    assert (policy.calls, policy.left) == (0, 2), "the rule holds for neither call"
    assert "differs from torch's own choice" in policy.told[0]
    assert policy.checks[0].errors["out"] > policy.checks[0].tolerances["out"]


def test_gradients_are_checked_but_not_inside_checkpointing(applied):
    policy = applied(PolicyRule("math", pass_="fwdbwd", **SIZES))

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    tensors = inputs(grad=True)
    torch.utils.checkpoint.checkpoint(attend, *tensors, use_reentrant=False).sum().backward()
    assert set(policy.checks[0].errors) == {"out"}, "checkpointing counts what is saved"
    policy = applied(PolicyRule("math", pass_="fwdbwd", **SIZES))
    attend(*tensors).sum().backward()
    (check,) = policy.checks
    assert set(check.errors) == {"out", "dq", "dk", "dv"}
    assert all(error <= check.tolerances[name] for name, error in check.errors.items())


def test_sizes_that_the_compiler_keeps_open_do_not_compile_again(applied):
    """A look into the rules by an open size would pin the graph to it, and each new length would compile anew."""
    policy = applied(PolicyRule("math", **SIZES))
    graphs = []

    def count(graph, _inputs):
        graphs.append([node.name for node in graph.graph.nodes])
        return graph

    torch._dynamo.reset()
    compiled = torch.compile(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True) * 2, backend=count, fullgraph=True
    )
    for seq in (32, 40, 48, 56):
        compiled(*inputs(seq=seq))
    assert len(graphs) == 2
    assert any("sdpa_kernel" in name for name in graphs[0])
    assert not any("sdpa_kernel" in name or name == "item" for name in graphs[1])
    assert policy.compiled == 1
    assert any("stay open" in text for text in policy.told)


def test_a_bool_mask_has_the_rule_that_compiled_code_was_tuned_for(applied):
    """The compiler turns a bool mask into one of numbers, which is what is recorded of a compiled program."""
    shape = {**SIZES, "causal": False}
    policy = applied(PolicyRule("math", mask="float:11qk", **shape))
    mask = torch.ones(32, 32, dtype=torch.bool)

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    torch._dynamo.reset()
    torch.compile(attend, backend="eager", fullgraph=True)(*inputs())
    assert (policy.compiled, policy.told) == (1, [])
    attend(*inputs())
    assert policy.left == 1, "outside of compiled code, bool is another kind of mask"


def test_a_call_that_its_backend_refuses_later_is_left_to_torch(applied):
    """The planted fault: at the second call math is forbidden too, so that torch has no kernel left."""
    from torch.backends import cuda

    policy = applied(PolicyRule("math", **SIZES))
    tensors = inputs()
    expected = F.scaled_dot_product_attention(*tensors, is_causal=True)
    (key,) = policy.rules
    name, flash, _, _ = policy.rules[key]
    policy.rules[key] = (name, flash, torch._C._set_sdp_use_math, torch._C._set_sdp_use_mem_efficient)
    torch.testing.assert_close(F.scaled_dot_product_attention(*tensors, is_causal=True), expected)
    assert (policy.calls, policy.left) == (1, 1)
    assert policy.told == ["math refused a call that it was tuned for; that shape is left to torch."]
    assert cuda.math_sdp_enabled() and cuda.flash_sdp_enabled() and cuda.mem_efficient_sdp_enabled()


def test_a_scripted_function_still_compiles(applied):
    applied(PolicyRule("math", **SIZES))

    def attend(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.script(attend)
    assert scripted(inputs()[0]).shape == (2, 4, 32, 16)


def test_the_flags_are_set_for_the_call_alone(applied, monkeypatch):
    from torch.backends import cuda

    from nsysprof.workload.applied_policy import apply_policy

    applied(PolicyRule("math", **SIZES))
    seen = []

    def look(*arguments, **more):
        seen.append((cuda.math_sdp_enabled(), cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled()))
        return apply_policy._ORIGINAL[0](*arguments, **more)

    attend = apply_policy.make_function(look)
    for _ in range(2):
        attend(*inputs(), is_causal=True)
    assert seen[-1] == (True, False, False)
    assert (cuda.math_sdp_enabled(), cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled()) == (True, True, True)


def test_a_policy_of_a_gpu_does_not_hold_with_a_torch_without_cuda():
    if torch.version.cuda is not None:
        pytest.skip("this torch has CUDA")
    file = PolicyFile((), "cuda", "NVIDIA H200", HERE, "9.1.0")
    assert machine_differences(file, with_gpu=False) == ["the device is no GPU, tuned on NVIDIA H200"]


def test_heads_of_v_of_another_size_have_rules_of_their_own(applied):
    policy = applied(PolicyRule("math", **SIZES, head_dim_v=8))
    q, k, v = inputs()
    F.scaled_dot_product_attention(q, k, v, is_causal=True)
    F.scaled_dot_product_attention(q, k, v[..., :8], is_causal=True)
    assert (policy.calls, policy.left) == (1, 1)


def test_a_rule_of_several_lengths_holds_for_those_between(applied):
    policy = applied(PolicyRule("math", **SIZES, seq_to=64), PolicyRule("flash", **{**SIZES, "seq": 48}))
    for seq in (31, 32, 40, 48, 64, 65, 40):
        F.scaled_dot_product_attention(*inputs(seq), is_causal=True)
    assert (policy.calls, policy.left) == (5, 2)
    assert [check.backend for check in policy.checks] == ["math", "math", "flash", "math"]
    q, k, v = inputs(40)
    F.scaled_dot_product_attention(q[:, :, :36], k, v, is_causal=True)  # a rule for equal lengths
    assert policy.left == 3


def test_a_growing_cache_has_one_rule(applied):
    sizes = {**SIZES, "seq": 1, "causal": False}
    policy = applied(PolicyRule("math", **sizes, kv_seq=16, kv_seq_to=64))
    for keys in (15, 16, 33, 64, 65):
        k, v = (torch.randn(2, 4, keys, 16) for _ in range(2))
        F.scaled_dot_product_attention(torch.randn(2, 4, 1, 16), k, v)
    assert (policy.calls, policy.left) == (3, 2)


class FakeXformers:
    calls = 0

    def memory_efficient_attention(self, query, key, value, attn_bias):
        self.calls += 1
        q, k, v = (tensor.transpose(1, 2) for tensor in (query, key, value))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if attn_bias is not None:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        return (torch.softmax(scores, -1) @ v).transpose(1, 2)

    def LowerTriangularMask(self):
        return "lower"


def test_a_library_runs_the_calls_of_its_rule_once_it_agrees(applied, monkeypatch):
    library = FakeXformers()
    monkeypatch.setitem(sys.modules, "xformers", SimpleNamespace(ops=library))
    monkeypatch.setitem(sys.modules, "xformers.ops", library)
    policy = applied(PolicyRule("xformers", **SIZES), PolicyRule("xformers", **SIZES, pass_="fwdbwd"))
    q, k, v = inputs()
    expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True).float()
    for _ in range(3):
        torch.testing.assert_close(F.scaled_dot_product_attention(q, k, v, is_causal=True), expected)
    assert (policy.calls, library.calls) == (3, 4)  # the check is one of them
    F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)
    assert (policy.calls, policy.left, library.calls) == (3, 2, 4)
    leaves = inputs(grad=True)
    F.scaled_dot_product_attention(*leaves, is_causal=True).sum().backward()
    assert all(leaf.grad is not None for leaf in leaves)
    assert library.calls == 6


@pytest.mark.parametrize("backend", ["varlen", "flash3", "flashinfer", "te"])
def test_a_library_that_is_not_there_leaves_its_calls_to_torch(applied, backend):
    policy = applied(PolicyRule(backend, **SIZES))
    for _ in range(2):
        F.scaled_dot_product_attention(*inputs(), is_causal=True)
    assert (policy.calls, policy.left) == (0, 2)
    assert backend in policy.told[0]
