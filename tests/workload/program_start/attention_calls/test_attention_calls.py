"""Ranges of attention open and close in pairs, also around the many nodes of a backward pass in pieces."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from nsysprof.workload.program_start import attention_facts  # noqa: E402
from nsysprof.workload.program_start.attention_calls.attention_calls import AttentionCalls  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def recorder():
    events = []
    marker = (events.append, lambda: events.append("end"), "test")
    calls = AttentionCalls(torch, attention_facts, marker)
    return events, calls, calls.wrap_function(torch.nn.functional.scaled_dot_product_attention, "sdpa")


def passes(events):
    return [event.split("::")[1] if event != "end" else "end" for event in events]


@pytest.mark.parametrize("backends", [[SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], [SDPBackend.MATH] * 2])
def test_one_line_with_several_backends_has_whole_ranges(recorder, backends):
    events, calls, attention = recorder
    start = torch.randn(1, 2, 16, 8, requires_grad=True)
    q = start * 1.0
    q.register_hook(lambda gradient: events.append("attention::q::"))
    for backend in backends:
        with sdpa_kernel(backend):
            attention(q, q, q, is_causal=True).sum().backward(retain_graph=True)
    assert passes(events) == ["fwd", "end", "bwd", "end", "q"] * 2
    (call,) = calls.to_json()["calls"]
    assert (call["forward"], call["backward"]) == (2, 2)


def test_a_call_that_fails_closes_its_range(recorder):
    events, _, attention = recorder
    q = torch.randn(1, 2, 16, 8)
    with pytest.raises(RuntimeError):
        attention(q, torch.randn(1, 2, 16, 9), q)
    assert passes(events) == ["fwd", "end"]


def test_arguments_reach_torch_as_they_were_given(recorder):
    events, calls, attention = recorder
    original = torch.nn.functional.scaled_dot_product_attention
    q, mask = torch.randn(1, 2, 16, 8), torch.randn(1, 1, 16, 16)
    ways = [((q, q, q, mask), {}), ((q, q, q), {"attn_mask": mask, "scale": 0.5}), ((q, q, q, None, 0.0, True), {}),
            ((q, q), {"value": q, "is_causal": True}), ((q, q[:, :1], q[:, :1]), {"enable_gqa": True})]  # fmt: skip
    for args, kwargs in ways * 2:
        torch.testing.assert_close(attention(*args, **kwargs), original(*args, **kwargs))
    found = [(call["mask"], call["causal"], call["scale"], call["forward"]) for call in calls.to_json()["calls"]]
    assert found == [("float:11qk", False, None, 2), ("float:11qk", False, 0.5, 2), ("none", True, None, 4),
                     ("none", False, None, 2)]  # fmt: skip
    for args, kwargs in [((q, q), {}), ((q, q, q), {"dropout_p": None}), ((q, q, q), {"causal": True})]:
        with pytest.raises(TypeError):
            attention(*args, **kwargs)
    assert events.count("end") == len(events) / 2


def test_a_subclass_of_tensors_is_given_its_arguments_by_name(recorder):
    given = []

    class Own(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            if function.__name__ == "scaled_dot_product_attention":
                given.append((len(args), kwargs))
            return super().__torch_function__(function, types, args, kwargs)

    _, _, attention = recorder
    q = torch.randn(1, 2, 16, 8).as_subclass(Own)
    attention(q, q, q, is_causal=True, scale=0.5)
    assert given == [(3, {"is_causal": True, "scale": 0.5})]


def test_a_second_derivative_closes_no_range_that_it_has_not_opened(recorder):
    events, _, attention = recorder
    q = torch.randn(1, 2, 4, 8, requires_grad=True)
    with sdpa_kernel(SDPBackend.MATH):
        (first,) = torch.autograd.grad(attention(q, q, q).sum(), q, create_graph=True)
    first.sum().backward()
    assert events.count("end") == len(events) - events.count("end")
