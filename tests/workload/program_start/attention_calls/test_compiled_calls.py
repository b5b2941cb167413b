"""Kernels that torch's compiler makes of attention run in ranges, and are saved as they are."""

import pickle

import pytest

torch = pytest.importorskip("torch")

from nsysprof.workload.program_start import attention_facts  # noqa: E402
from nsysprof.workload.program_start.attention_calls.attention_calls import AttentionCalls  # noqa: E402
from nsysprof.workload.program_start.attention_calls.compiled_calls import wrap_triton  # noqa: E402

pytestmark = pytest.mark.torch


def test_a_compiled_kernel_of_flex_attention_has_a_range_and_is_saved_as_it_is(monkeypatch):
    monkeypatch.setattr(Kernel, "precompile", Kernel.precompile)  # put back what wrap_triton changes
    events = []
    calls = AttentionCalls(torch, attention_facts, (events.append, lambda: events.append("end"), "test"))
    wrap_triton(calls, Kernel)
    kernel = Kernel("triton_tem_fused_flex_attention_backward_1")
    kernel.precompile()
    q = torch.randn(1, 2, 16, 8)
    assert kernel.run(q, q, q, 1, stream=0) == ("ran", 1)
    assert kernel.run(q, torch.zeros(1, 2, 16), 1, stream=0) == ("ran", 1)
    assert [event.split("::")[1] if event != "end" else event for event in events] == ["bwd", "end"] * 2
    assert events[0].partition("::at=")[0] == events[2].partition("::at=")[0]
    assert pickle.loads(pickle.dumps(kernel)).run(q, q, q, 1, stream=0) == ("ran", 1)
    assert [event.split("::")[1] if event != "end" else event for event in events] == ["bwd", "end"] * 2
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
