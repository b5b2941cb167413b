import json

import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.report.pages.analysis import analysis_report
from nsysprof.report.write import analysis_json, findings_json, write_analysis
from nsysprof.trace.inputs.kineto_json import convert_kineto_json
from tests.builders.build_trace import TID, TraceBuilder

OSRT = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, "
    "nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, nestingLevel INTEGER"
)
MS = 1_000_000


def os_call(builder, start_ms, end_ms, name, *, tid=TID, level=0):
    builder.row("OSRT_API", OSRT, (start_ms * MS, end_ms * MS, 27, tid, builder.text(name), 0, level))


@pytest.fixture
def training(tmp_path):
    """Return the analysis of a training on the CPU, as nsys records it."""
    builder = TraceBuilder()
    for step in range(10):
        start = 10 * step
        builder.range(start * MS, (start + 10) * MS, "step")
        builder.range(start * MS, (start + 6) * MS, "data")
        builder.range((start + 6) * MS, (start + 9) * MS, "forward")
        os_call(builder, start, start + 5, "clock_nanosleep")
        os_call(builder, start + 1, start + 2, "read", level=1)
        os_call(builder, start + 6, start + 8, "futex", tid=TID + 1)
    os_call(builder, 0, 0, "OS runtime libraries profiling started")
    return analyze_trace(builder.write(tmp_path / "cpu.sqlite"))


def operators(tmp_path):
    """Return the analysis of a training on the CPU, as torch's profiler records it."""
    event = {"ph": "X", "pid": 100, "tid": 100}
    events = []
    for step in range(10):
        start = 10_000 * step
        events.append({**event, "cat": "user_annotation", "name": "step", "ts": start, "dur": 10_000})
        events.append({**event, "cat": "cpu_op", "name": "aten::mm", "ts": start + 1000, "dur": 6000, "args": {}})
        events.append({**event, "cat": "cpu_op", "name": "aten::add_", "ts": start + 8000, "dur": 500, "args": {}})
    source = tmp_path / "cpu.json"
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return analyze_trace(convert_kineto_json(source, tmp_path / "k.sqlite"), identity=source)


def lines(analysis):
    return analysis_report(analysis, None).sections[0].parts[0].texts


def test_it_says_what_a_recording_of_the_cpu_shows(training):
    assert lines(training) == (
        "The trace has no GPU work and no CUDA call: what follows is about the CPU.",
        "The range with the most time is step: 100 ms, 10 times, 10.0 ms on average. In it: data 60 %, forward 30 %.",
        "The calls of the OS runtime with the most time, of all threads together: clock_nanosleep 50.0 ms (10 calls), "
        "futex 20.0 ms (10 calls).",
    )


def test_calls_of_the_os_runtime_are_counted_once_each(training):
    table = training.os_calls.set_index("name")
    assert table["calls"].to_dict() == {"clock_nanosleep": 10, "futex": 10}, "read was called by another call"
    assert table["total_ns"].to_dict() == {"clock_nanosleep": 50 * MS, "futex": 20 * MS}
    assert table["threads"].to_dict() == {"clock_nanosleep": 1, "futex": 1}
    assert [row["name"] for row in analysis_json(training, None)["os_calls"]] == ["clock_nanosleep", "futex"]


def test_operators_of_the_cpu_are_said_by_kind(tmp_path):
    said = lines(operators(tmp_path))
    assert said[:2] == (
        "Nothing here ran on a GPU: what follows is about the CPU.",
        "Operators run for 65.0 ms, 67 % of the 97.5 ms from the first to the last of them: 60.0 ms gemm, "
        "5.00 ms elementwise.",
    )
    assert said[2].startswith("The range with the most time is step: 100 ms, 10 times, 10.0 ms on average.")


def test_operators_of_several_threads_are_told_by_thread(tmp_path):
    events = [
        {"ph": "X", "pid": 100, "tid": thread, "cat": "cpu_op", "name": "aten::mm", "ts": 10_000 * step, "dur": took}
        for step in range(10)
        for thread, took in ((100, 6000), (101, 3000), (102, 1000))
    ]
    source = tmp_path / "cpu.json"
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    said = lines(analyze_trace(convert_kineto_json(source, tmp_path / "k.sqlite"), identity=source))
    assert said[2] == "They run on 3 threads; of the sum of their times, the busiest have 60 %, 30 %, 10 %."


@pytest.mark.parametrize("kind", ["nsys", "torch"])
def test_nothing_is_said_about_a_gpu(training, tmp_path, kind):
    analysis = training if kind == "nsys" else operators(tmp_path)
    _, report = write_analysis(analysis, None, tmp_path / "out")
    page = (tmp_path / "out" / "report.md").read_text().partition("## Notes")[0]
    assert page.count("GPU") == 1, "the first line says that there is none"
    for word in ("API calls", "VRAM", "CUDA graph", "device 0", "outside CUDA", "kernels |"):
        assert word not in page, word
    assert findings_json(analysis)["idle"] is findings_json(analysis)["findings"] is None
    steps = " ".join(note.next_step for note in analysis.notes)
    assert "--cuda-memory-usage" not in steps
    assert "--gpu-metrics" not in steps
    assert "Findings" not in {section.title for section in report.sections}


def test_a_trace_with_cuda_calls_is_no_recording_of_the_cpu(tmp_path):
    builder = TraceBuilder()
    builder.range(0, 100, "step")
    builder.launch(1, 9)
    os_call(builder, 0, 5, "read")
    analysis = analyze_trace(builder.write(tmp_path / "gpu.sqlite"))
    assert analysis.os_calls is None
    assert not analysis.is_of_cpu
