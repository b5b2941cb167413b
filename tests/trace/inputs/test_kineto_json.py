import gzip
import json
import random
import sqlite3
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nsysprof.app.analyze import analyze_trace
from nsysprof.errors import NsysprofError, TraceDamagedError, TraceEmptyError, TraceError, TraceForeignError
from nsysprof.torchprof import kineto_events
from nsysprof.trace.inputs.kineto_json import convert_kineto_json, merge_kineto_files

REAL = Path(__file__).parents[3] / "traces/inputs.json.gz"


def event(category, start_us, duration_us, name="thing", **fields):
    arguments = fields.pop("args", {})
    return {"ph": "X", "cat": category, "name": name, "pid": 100, "tid": 100, "ts": start_us, "dur": duration_us,
            "args": arguments, **fields}  # fmt: skip


def launch(start_us, correlation, name="kernel(int)", duration_us=5):
    """Return a launch call and its kernel, 10 us later."""
    call = event("cuda_runtime", start_us, 1, "cudaLaunchKernel", args={"correlation": correlation})
    args = {"correlation": correlation, "device": 0, "context": 1, "stream": 7, "grid": [1, 1, 1], "block": [32, 1, 1]}
    return [call, event("kernel", start_us + 10, duration_us, name, pid=0, tid=7, args=args)]


def memory(at_us, address, size, total):
    args = {"Device Type": 1, "Device Id": 0, "Addr": address, "Bytes": size, "Total Allocated": total}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 100,
        "tid": 100,
        "ts": at_us,
        "args": args,
    }


def write(path, events, **header):
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], **header, "traceEvents": events}
    path.write_text(json.dumps(document))
    return path


def analyze(path, tmp_path):
    target = tmp_path / "made.sqlite"
    target.unlink(missing_ok=True)
    return analyze_trace(convert_kineto_json(path, target), identity=path)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    path = tmp_path_factory.mktemp("kineto") / "inputs.json"
    path.write_bytes(gzip.decompress(REAL.read_bytes()))
    return path


def test_a_real_trace_counts_what_nsys_counted_of_the_same_program(tmp_path, real, trace_path):
    ours, nsys = analyze(real, tmp_path), analyze_trace(trace_path("inputs"))
    columns = ["kernel_count", "launch_count", "memcpy_bytes", "memset_bytes"]
    for style in ("StartEnd", "PushPop"):  # a range of torch's is both; nsys saw push/pop
        mine = ours.ranges[ours.ranges["style"] == style].set_index("range")
        pd.testing.assert_frame_equal(mine[columns], nsys.ranges.set_index("range")[columns])
    names = ["short_name", "instances"]
    assert ours.range_kernels.instances.sum() == 2 * nsys.range_kernels.instances.sum()
    assert list(ours.memops.operation) == list(nsys.memops.operation)
    assert ours.memops.total_bytes.sum() == nsys.memops.total_bytes.sum()
    assert set(ours.kernels[names].short_name) <= set(nsys.kernels[names].short_name)
    assert ours.coverage.kernels == ours.coverage.attributed_kernels + sum(ours.coverage.reasons.values())


def test_a_real_trace_sums_to_what_its_json_sums_to(tmp_path, real):
    raw = json.loads(real.read_text())["traceEvents"]
    kernels = [e for e in raw if e.get("cat") == "kernel"]
    analysis = analyze(real, tmp_path)
    assert analysis.totals.kernel_count == len(kernels)
    assert analysis.totals.kernel_total_ns == sum(round(e["dur"] * 1000) for e in kernels)
    assert analysis.api.calls.sum() == sum(e.get("cat") in ("cuda_runtime", "cuda_driver") for e in raw)
    assert analysis.trace.tool == "torch"
    assert analysis.trace.path_name == "inputs.json"


def test_what_torch_exports_here_on_the_cpu(tmp_path):
    torch = pytest.importorskip("torch", reason="needs the extra [torch]")
    from torch.profiler import ProfilerActivity, profile, record_function

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler, record_function("step"):
        torch.ones(8, 8) @ torch.ones(8, 8)
    path = tmp_path / "cpu.json"
    profiler.export_chrome_trace(str(path))
    analysis = analyze(path, tmp_path)
    assert analysis.trace.work_kind == "operator"
    counted = analysis.kernels.set_index("name").instances.to_dict()
    assert counted["aten::mm"] == 1
    assert sum(count for name, count in counted.items() if "ones" in name or "fill" in name) == 2
    assert set(analysis.ranges["range"]) == {"step"}


def test_times_keep_their_nanoseconds(tmp_path):
    # As floats, microseconds of this size have steps of a quarter of a microsecond.
    path = tmp_path / "t.json"
    text = json.dumps({"schemaVersion": 1, "traceEvents": launch(0, 1)}).replace(
        '"ts": 0', '"ts": 1790857026000123.456'
    )
    path.write_text(text.replace('"ts": 10', '"ts": 1790857026000133.459').replace('"dur": 5', '"dur": 0.003'))
    analysis = analyze(path, tmp_path)
    assert analysis.totals.kernel_total_ns == 3
    with sqlite3.connect(tmp_path / "made.sqlite") as made:
        assert made.execute("SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone() == (10_003,)


def test_old_names_of_categories(tmp_path):
    old = {"cuda_runtime": "Runtime", "kernel": "Kernel"}
    events = [{**e, "cat": old[e["cat"]]} for e in launch(0, 1)]
    analysis = analyze(write(tmp_path / "t.json", events), tmp_path)
    assert (analysis.totals.kernel_count, analysis.totals.launch_count) == (1, 1)


def test_a_kernel_without_correlation_is_kept_and_said(tmp_path):
    events = launch(0, 1) + launch(100, 2)
    del events[3]["args"]["correlation"]
    analysis = analyze(write(tmp_path / "t.json", [*events, event("user_annotation", 0, 200, "step")]), tmp_path)
    assert analysis.coverage.kernels == 2
    assert analysis.coverage.attributed_kernels + sum(analysis.coverage.reasons.values()) == 2
    step = analysis.ranges.set_index(["range", "style"]).loc["step"]
    assert list(step.kernel_count) == [1, 1]


def test_memory_held_before_the_session_counts(tmp_path):
    events = [*launch(0, 1), memory(1, 0x1000, 512, 1536), memory(2, 0x1000, -512, 1024), memory(3, 0x2000, -1024, 0)]
    analysis = analyze(write(tmp_path / "t.json", events), tmp_path)
    assert list(analysis.totals.peak_vram_bytes.values()) == [1536]


def test_events_that_are_none_are_passed_over(tmp_path):
    junk = [None, 7, "x", [], {}, {"ph": "X"}, {"ph": "X", "cat": ["kernel"], "name": {}}, {"cat": "kernel", "ph": "B"}]
    analysis = analyze(write(tmp_path / "t.json", [*junk, *launch(0, 1), *junk]), tmp_path)
    assert analysis.totals.kernel_count == 1


@pytest.mark.parametrize("field", ["ts", "dur"])
@pytest.mark.parametrize("value", [None, "soon", -1e300, 2**70, float("nan"), [1], True, "1e999999999"])
def test_impossible_times_are_counted_apart_or_kept(tmp_path, field, value):
    events = launch(0, 1) + launch(50, 2)
    events[3][field] = value
    analysis = analyze(write(tmp_path / "t.json", events), tmp_path)
    assert analysis.totals.kernel_count in (1, 2)
    assert analysis.totals.kernel_total_ns >= 5_000
    assert analysis.totals.kernel_total_ns < 2**62


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("", TraceEmptyError, "empty"),
        ("[]", TraceForeignError, "no traceEvents"),
        ('{"a": 1}', TraceForeignError, "no traceEvents"),
        ("not json", TraceForeignError, "no traceEvents"),
        ("\x00" * 4096, TraceForeignError, "no traceEvents"),
        ('{"traceEvents": []}', TraceForeignError, "not one of torch.profiler"),
        ('{"schemaVersion": 1, "traceEvents": []}', TraceEmptyError, "no operator"),
        ('{"schemaVersion": 1, "traceEvents": [', TraceDamagedError, "truncated"),
        ('{"schemaVersion": 1, "traceEvents": [{}, {"a"', TraceDamagedError, "truncated"),
        ('{"schemaVersion": 1, "traceEvents": [' + "[" * 200_000, TraceDamagedError, "value"),
        ('{"schemaVersion": 1, "traceEvents": [' + "9" * 10_000 + "]}", TraceDamagedError, "value"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:1", TraceForeignError, "git-lfs"),
    ],
)
def test_what_is_no_trace(tmp_path, text, error, says):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(error, match=says) as caught:
        convert_kineto_json(path, tmp_path / "made.sqlite")
    assert caught.value.next_step
    assert "\n" not in caught.value.text


def test_truncated_anywhere(tmp_path, real):
    data, path = real.read_bytes(), tmp_path / "cut.json"
    for size in random.Random(1).sample(range(len(data) - 2), 40):
        path.write_bytes(data[:size])
        with pytest.raises(TraceError):
            analyze(path, tmp_path)


def test_damaged_anywhere_is_an_error_of_ours_or_a_result(tmp_path, real):
    data, path, rng = real.read_bytes(), tmp_path / "bad.json", random.Random(2)
    for _ in range(40):
        changed = bytearray(data)
        for position in rng.sample(range(len(data)), 3):
            changed[position] = rng.randrange(256)
        path.write_bytes(changed)
        try:
            analyze(path, tmp_path)
        except NsysprofError as error:
            assert "\n" not in error.text


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_where_the_file_is_cut_into_chunks_does_not_matter(tmp_path, real, monkeypatch, chunk):
    whole = list(kineto_events.read_events(real))[:300]
    monkeypatch.setattr(kineto_events, "_CHUNK", chunk)
    events = kineto_events.read_events(real)
    assert [next(events) for _ in range(300)] == whole


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
CATEGORIES = st.sampled_from(["kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cpu_op", "user_annotation"])
ARGUMENTS = st.dictionaries(
    st.sampled_from(["correlation", "device", "stream", "bytes", "grid", "context", "Bytes", "Addr", "Device Type"]),
    JSON,
)
EVENTS = st.fixed_dictionaries(
    {"ph": st.just("X"), "cat": CATEGORIES},
    optional={"name": JSON, "pid": JSON, "tid": JSON, "ts": JSON, "dur": JSON, "args": ARGUMENTS | JSON},
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(EVENTS, max_size=6))
def test_any_values_are_an_error_of_ours_or_a_result_that_adds_up(tmp_path, events):
    try:
        analysis = analyze(write(tmp_path / "t.json", events), tmp_path)
    except NsysprofError:
        return
    coverage = analysis.coverage
    assert coverage.kernels == coverage.attributed_kernels + sum(coverage.reasons.values())


def test_files_of_several_processes_become_one_trace_on_one_clock(tmp_path):
    one = write(tmp_path / "1.json", launch(1000, 3, "first(int)"), baseTimeNanoseconds=5_000_000)
    second = [{**each, "pid": 200 if each["pid"] == 100 else each["pid"]} for each in launch(1000, 3, "second(int)")]
    two = write(tmp_path / "2.json", second, baseTimeNanoseconds=7_000_000)
    target = tmp_path / "both.sqlite"
    assert merge_kineto_files([one, two], target) == {one: 2, two: 2}
    with sqlite3.connect(target) as database:
        kernels = database.execute(
            "SELECT start, (globalPid >> 24) & 0xffffff, value FROM CUPTI_ACTIVITY_KIND_KERNEL "
            "JOIN StringIds ON id = demangledName ORDER BY start"
        ).fetchall()
    database.close()
    assert kernels == [(10_000, 100, "first(int)"), (2_010_000, 200, "second(int)")]
    assert analyze_trace(target).kernels.set_index("name").instances.to_dict() == {"first(int)": 1, "second(int)": 1}
