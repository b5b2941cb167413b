"""Where torch's own profiler records, ranges of attention are its ranges."""

import pytest

torch = pytest.importorskip("torch")

from nsysprof.workload.program_start.attention_calls.range_marker import find_marker  # noqa: E402

pytestmark = pytest.mark.torch


def test_ranges_of_torchs_profiler_nest_and_close(monkeypatch, tmp_path):
    monkeypatch.setenv("NSYSPROF_TORCH_FOLDER", str(tmp_path))
    push, pop, whose = find_marker(torch)
    assert whose == "profiler"
    with torch.autograd.profiler.profile() as found:
        push("outer")
        push("inner")
        pop()
        pop()
    assert sorted(event.name for event in found.function_events) == ["inner", "outer"]
    pop()  # more than was opened, as around a node of the backward pass that ran alone


def test_a_mode_that_refuses_a_range_does_not_reach_the_program(monkeypatch, tmp_path):
    monkeypatch.setenv("NSYSPROF_TORCH_FOLDER", str(tmp_path))
    push, pop, _ = find_marker(torch)

    class Strict(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            raise NotImplementedError(str(function))

    with Strict():
        push("refused")
        pop()
