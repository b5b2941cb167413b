"""Time in which Python collects garbage is a cause of idle time, and a finding of its own."""

import pytest

from nsysprof.app.analyze import analyze_trace
from tests.builders.build_trace import OTHER_TID, TraceBuilder

# What a step of scripts/programs/collected_garbage.py took on an H200 without a profiler (ms), in three runs each: with
# collections, and with gc.freeze() and gc.disable() after warm-up.
WITH, FROZEN = (91.721, 71.560, 82.774), (4.672, 4.669, 4.692)
STEP_NS, STEPS, PAUSE_NS = 10_000_000, 40, 4_000_000


def build(tmp_path, *, collects, tid=None, name="nsysprof gc 2"):
    """Write a trace of steps: a kernel of 3 ms, then nothing for 4 ms, then a kernel of 3 ms."""
    trace = TraceBuilder()
    trace.gpu()
    for step in range(STEPS):
        start, number = step * STEP_NS, 2 * step + 1
        trace.range(start, start + STEP_NS - 1000, "step")
        trace.call(start + 1000, start + 6000, number)
        trace.kernel(start + 7000, start + 3_000_000, number, "first")
        if collects:
            trace.range(start + 3_000_000, start + 3_000_000 + PAUSE_NS, name, **({} if tid is None else {"tid": tid}))
        trace.call(start + 7_001_000, start + 7_006_000, number + 1)
        trace.kernel(start + 7_007_000, start + STEP_NS - 2000, number + 1, "second")
    return analyze_trace(trace.write(tmp_path / "t.sqlite"))


def causes(analysis):
    table = analysis.idle.table
    return table[table["range"] == ""].set_index("cause")["idle_ns"].to_dict()


def test_the_idle_time_of_collections_has_its_cause_and_its_finding(tmp_path):
    analysis = build(tmp_path, collects=True)
    assert causes(analysis)["python-gc"] == STEPS * PAUSE_NS
    assert sum(causes(analysis).values()) == sum(device.idle_ns for device in analysis.idle.devices)
    (finding,) = (item for item in analysis.findings.items if item.code == "python-gc")
    assert finding.saving_ns == pytest.approx(PAUSE_NS, rel=0.02)
    assert "4.00 ms" in finding.text and "gc.freeze()" in finding.next_step
    assert not any(item.code == "host-bound" for item in analysis.findings.items), "it is explained already"
    assert list(analysis.ranges["range"]) == ["step"]


@pytest.mark.parametrize("given", [
    {"collects": False}, {"collects": True, "tid": OTHER_TID}, {"collects": True, "name": "my nsysprof gc 2"},
])  # fmt: skip
def test_other_time_of_the_host_is_no_collection(tmp_path, given):
    analysis = build(tmp_path, **given)
    assert "python-gc" not in causes(analysis)
    assert [item.code for item in analysis.findings.items][:1] == ["host-bound"]


def test_what_freezing_saves_on_a_real_program_is_inside_the_interval(trace_path):
    analysis = analyze_trace(trace_path("h200-layers/collected_garbage"))
    (finding,) = (item for item in analysis.findings.items if item.code == "python-gc")
    truth_ns = 1e6 * (sum(WITH) / 3 - sum(FROZEN) / 3)
    assert finding.saving_low_ns <= truth_ns <= finding.saving_high_ns
    assert abs(finding.saving_ns - truth_ns) < 0.15 * 1e6 * sum(WITH) / 3
