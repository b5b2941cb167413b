import pytest

from nsysprof.trace.open import open_trace
from nsysprof.trace.recorded import read_recorded
from tests.builders.build_trace import OTHER_PID, PID, TraceBuilder


def look(path):
    with open_trace(path) as trace:
        return read_recorded(trace)


def test_a_real_trace_has_everything(trace_path):
    found = look(trace_path("sdpa"))
    assert found.kernels
    assert found.gpu_work
    assert found.launches
    assert found.ranges
    assert found.calls


def test_launches_whose_kernels_were_lost(tmp_path):
    builder = TraceBuilder()
    builder.call(10, 20, 1)
    found = look(builder.write(tmp_path / "t.sqlite"))
    assert found.launches
    assert found.calls
    assert not found.kernels
    assert not found.gpu_work


def test_ranges_alone(tmp_path):
    builder = TraceBuilder()
    builder.range("a", 10, 20)
    found = look(builder.write(tmp_path / "t.sqlite"))
    assert found.ranges
    assert not (found.calls or found.kernels or found.launches)


def test_nothing_at_all(tmp_path):
    found = look(TraceBuilder().write(tmp_path / "t.sqlite"))
    assert not (found.ranges or found.calls or found.kernels or found.launches)


@pytest.mark.parametrize("name", ["ddp_rank0", "graph_whole"])
def test_graphs_recorded_as_wholes_are_work_too(trace_path, name):
    assert look(trace_path(name)).gpu_work


def test_messages_on_helper_processes_are_apart(tmp_path):
    builder = TraceBuilder("2025.3")
    builder.launch(0, 1)
    for pid, text in ((PID, "mine"), (OTHER_PID, "of a shell"), (0, "of the session")):
        builder.put("DIAGNOSTIC_EVENT", severity=2, text=text, globalPid=pid)
    found = look(builder.write(tmp_path / "t.sqlite"))
    assert [text for _, text in found.diagnostics] == ["mine", "of the session"]
    assert [text for _, text in found.helper_diagnostics] == ["of a shell"]
