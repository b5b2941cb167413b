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
    with pytest.raises((AttributeError, IndexError)):
        pop()
