"""Ranges of attention open and close in pairs, also around the many nodes of a backward pass in pieces."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from nsysprof.workload.program_start import attention_calls, attention_facts  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def recorder():
    events = []
    marker = (events.append, lambda: events.append("end"), "test")
    calls = attention_calls.AttentionCalls(torch, attention_facts, marker)
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


def test_a_compiled_kernel_of_flex_attention_has_a_range_and_is_saved_as_it_is(recorder):
    import pickle

    events, calls, _ = recorder
    calls.wrap_triton(Kernel)
    kernel = Kernel("triton_tem_fused_flex_attention_backward_1")
    kernel.precompile()
    q = torch.randn(1, 2, 16, 8)
    assert kernel.run(q, q, q, 1, stream=0) == ("ran", 1)
    assert kernel.run(q, torch.zeros(1, 2, 16), 1, stream=0) == ("ran", 1)
    assert passes(events) == ["bwd", "end"] * 2
    assert events[0].partition("::at=")[0] == events[2].partition("::at=")[0]
    assert pickle.loads(pickle.dumps(kernel)).run(q, q, q, 1, stream=0) == ("ran", 1)
    assert passes(events) == ["bwd", "end"] * 2
    other = Kernel("triton_poi_fused_add_1")
    other.precompile()
    assert "run" not in vars(other)


class Kernel:
    """As much of torch's CachingAutotuner as is wrapped, which cannot be made without a GPU."""

    def __init__(self, name):
        self.fn = Named(name)

    def precompile(self):
        pass

    def run(self, *args, stream):
        return "ran", args[-1]


class Named:
    def __init__(self, name):
        self.__name__ = name
