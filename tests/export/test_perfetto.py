import sys
import time
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from nsysprof.errors import MissingToolError, OutputError
from nsysprof.export.perfetto import write_perfetto
from nsysprof.trace.table_readers.gpus import LONGEST_RANGE_NAME
from tests.builders.build_trace import OTHER_PID, OTHER_TID, TraceBuilder
from tests.conftest import REPOSITORY
from tests.export.contents import content_of
from tests.export.perfetto_reader import read_perfetto

TRACES = [
    "sdpa",
    "mp",
    "mem",
    "graph_node",
    "graph_whole",
    "ddp_rank0",
    "gm10k",
    "two_gpus",
    "pools",
    "managed",
    "sdpa22",
]


def export(content, path):
    counts = write_perfetto(content, path, lambda _more: None)
    read = read_perfetto(path)
    assert read.problems == []
    return counts.rows, read


def built(builder, tmp_path):
    return export(content_of(builder.write(tmp_path / "t.sqlite")), tmp_path / "t.pftrace")[1]


@pytest.mark.parametrize("name", TRACES)
def test_every_row_of_a_real_trace_is_there_once_to_the_nanosecond(name, trace_path, tmp_path):
    content = content_of(trace_path(name))
    counts, read = export(content, tmp_path / "t.pftrace")
    timeline, shift = content.analysis.timeline, content.shift_ns
    for table, kinds in ((timeline.gpu, {"kernel", "memcpy", "memset", "graph"}), (timeline.api, {"cuda_api"})):
        found = Counter((s.name, s.start_ns - shift, s.end_ns - shift) for s in read.slices if s.category in kinds)
        assert found == Counter(zip(table["name"], table["start_ns"], table["end_ns"], strict=True))
    ranges = Counter((s.name, s.start_ns - shift, s.end_ns - shift) for s in read.slices if s.category == "nvtx")
    nvtx = timeline.nvtx
    assert ranges == Counter(zip(nvtx["name"], nvtx["start_ns"], nvtx["end_ns"], strict=True))
    assert sum(map(len, read.samples.values())) == len(timeline.memory) + sum(map(len, content.metrics))
    assert sum(v for k, v in counts.items() if k not in ("flow", "note")) == content.rows
    assert len(read.instants) == len(content.analysis.notes)


@pytest.mark.parametrize("name", ["sdpa", "mp", "graph_node", "ddp_rank0"])
def test_arrows_lead_from_the_call_that_launched_to_the_work(name, trace_path, tmp_path):
    content = content_of(trace_path(name))
    _, read = export(content, tmp_path / "t.pftrace")
    gpu, api = content.analysis.timeline.gpu, content.analysis.timeline.api
    sources = {flow: s for s in read.slices for flow in s.out}
    targets = {flow: s for s in read.slices for flow in s.into}
    assert sources.keys() == targets.keys()
    known = gpu[gpu["call"] >= 0]
    assert len(targets) == len(known) > 0
    calls = api.iloc[known["call"].to_numpy()]
    expected = Counter(zip(calls["name"], calls["start_ns"], known["name"], known["start_ns"], strict=True))
    found = Counter((sources[f].name, sources[f].start_ns, t.name, t.start_ns) for f, t in targets.items())
    assert found == expected


def test_totals_are_those_of_the_analysis(trace_path, tmp_path):
    content = content_of(trace_path("sdpa"))
    _, read = export(content, tmp_path / "t.pftrace")
    kernels = [s for s in read.slices if s.category == "kernel"]
    assert len(kernels) == content.analysis.totals.kernel_count == 1086
    assert sum(s.end_ns - s.start_ns for s in kernels) == content.analysis.totals.kernel_total_ns
    set_bytes = sum(s.annotations["bytes"] for s in read.slices if s.category == "memset")
    assert set_bytes == content.analysis.totals.memset_bytes
    assert {s.annotations["role"] for s in kernels} >= {"attention", "gemm", "softmax"}
    (memory,) = [track for track in read.samples if read.path(track)[-1] == "VRAM used"]
    assert max(value for _, value in read.samples[memory]) == content.analysis.totals.peak_vram_bytes[0]


def test_tracks_are_grouped_by_device_and_process(trace_path, tmp_path):
    _, read = export(content_of(trace_path("mp")), tmp_path / "t.pftrace")
    paths = {read.path(slice_.track) for slice_ in read.slices}
    tops = {path[0] for path in paths}
    assert len([top for top in tops if top.startswith("process ")]) == 2
    assert len([top for top in tops if top.startswith("GPU 0: NVIDIA H200")]) == 1
    assert {path[2] for path in paths if len(path) == 3} == {"NVTX", "CUDA API"}
    assert any(path[1] == "NVTX start/end" for path in paths)
    assert any(path[1].endswith("stream 7") for path in paths)


def test_gpu_metrics_are_counters_under_their_names(trace_path, tmp_path):
    _, read = export(content_of(trace_path("gm10k")), tmp_path / "t.pftrace")
    names = {read.path(track)[-1]: track for track in read.samples}
    assert {"DRAM Read Bandwidth [Throughput %]", "Tensor Active [Throughput %]"} <= names.keys()
    assert read.tracks[names["DRAM Read Bandwidth [Throughput %]"]].counter.unit_name == "%"
    times = [time for time, _ in read.samples[names["Tensor Active [Throughput %]"]]]
    assert min(times) >= 0


def test_a_metric_without_a_unit_is_not_said_to_have_one(tmp_path):
    builder = TraceBuilder()
    builder.sampled_gpu()
    builder.launch(10, 1)
    builder.json_sample(10, '{"SM Active": 80}')
    read = built(builder, tmp_path)
    (track,) = read.samples
    assert read.path(track)[-1] == "SM Active"
    assert (read.tracks[track].counter.unit, read.tracks[track].counter.unit_name) == (0, "")


def test_a_clock_that_nsys_records_in_hertz_is_not_called_mhz(trace_path):
    names = {series.name: series for series in content_of(trace_path("gm10k")).metrics}
    assert int(np.median(names["GPC Clock Frequency [Hz]"].value)) > 10**8
    assert "GPC Clock Frequency [MHz]" not in names


def test_overlapping_work_of_one_stream_keeps_its_ends(tmp_path):
    builder = TraceBuilder()
    builder.kernel(0, 100, None, "first")
    builder.kernel(90, 200, None, "second")
    builder.kernel(95, 98, None, "inside")
    builder.kernel(200, 200, None, "empty")
    builder.kernel(200, 210, None, "last")
    read = built(builder, tmp_path)
    found = {s.name: (s.start_ns, s.end_ns) for s in read.slices}
    assert found == {
        "first(int)": (0, 100), "second(int)": (90, 200), "inside(int)": (95, 98), "empty(int)": (200, 200),
        "last(int)": (200, 210),
    }  # fmt: skip
    assert {read.path(s.track)[-1] for s in read.slices} == {"stream 7"}
    assert len({s.track for s in read.slices}) == 2


def test_thousands_of_ranges_that_all_cross_take_a_moment(tmp_path):
    builder = TraceBuilder()
    for number in range(3000):
        builder.range(number, 10_000 + number, f"range {number}", kind=60)
    begin = time.monotonic()
    read = built(builder, tmp_path)
    assert time.monotonic() - begin < 20
    assert {s.name: (s.start_ns, s.end_ns) for s in read.slices} == {
        f"range {number}": (number, 10_000 + number) for number in range(3000)
    }


def test_samples_of_a_gpu_that_the_trace_does_not_name(tmp_path):
    builder = TraceBuilder()
    builder.launch(10, 1)
    builder.metric_names(gpu=5)
    builder.sample(10, (1, 2, 3, 4), gpu=5)
    read = built(builder, tmp_path)
    assert {read.path(track)[0] for track in read.samples} == {"GPU 5"}


def test_ranges_nest_on_their_thread_and_process_wide_ones_lie_apart(tmp_path):
    builder = TraceBuilder()
    builder.launch(10, 1)
    builder.range(0, 100, "outer")
    builder.range(5, 50, "inner")
    builder.range(5, 60, "elsewhere", tid=OTHER_TID)
    builder.range(1, 70, "shared", kind=60)
    builder.range(30, 90, "overlapping", kind=60)
    read = built(builder, tmp_path)
    found = {s.name: (read.path(s.track)[1:], s.depth) for s in read.slices if s.category == "nvtx"}
    assert found == {
        "outer": (("thread 1", "NVTX"), 0), "inner": (("thread 1", "NVTX"), 1),
        "elsewhere": (("thread 2", "NVTX"), 0),
        "shared": (("NVTX start/end",), 0), "overlapping": (("NVTX start/end",), 0),
    }  # fmt: skip


def test_processes_of_two_machines_with_one_pid_stay_apart(tmp_path):
    builder = TraceBuilder()
    elsewhere = (2 << 48) | (100 << 24)
    builder.launch(10, 1, name="here")
    builder.call(10, 20, 1, tid=elsewhere | 1)
    builder.kernel(120, 130, 1, "there", pid=elsewhere)
    read = built(builder, tmp_path)
    calls = [read.path(s.track)[0] for s in read.slices if s.category == "cuda_api"]
    assert sorted(calls) == ["process 100", "process 101"]


def test_times_before_the_session_are_shifted_and_nothing_wraps_around(tmp_path):
    builder = TraceBuilder()
    builder.kernel(-500, -400, None, "early")
    builder.kernel(10, 20, None, "late")
    read = built(builder, tmp_path)
    assert [(s.name, s.start_ns, s.end_ns) for s in read.slices] == [("early(int)", 0, 100), ("late(int)", 510, 520)]


def test_hostile_names_are_kept_as_text(tmp_path):
    builder = TraceBuilder()
    names = [
        "</script><script>alert(1)</script>",
        "{0.__class__}",
        "a\x00b\x1b[2J",
        "x" * LONGEST_RANGE_NAME,
        "\U0001f600 \u202e",
    ]
    for number, name in enumerate(names):
        builder.range(number, number + 1, name)
    read = built(builder, tmp_path)
    assert [s.name for s in read.slices] == names


@pytest.mark.slow
def test_memory_does_not_grow_with_the_trace(tmp_path):
    builder = TraceBuilder()
    for number in range(100_000):
        builder.kernel(number * 10, number * 10 + 5, None)
    content = content_of(builder.write(tmp_path / "t.sqlite"))
    _ = content.rows, content.shift_ns
    tracemalloc.start()
    write_perfetto(content, tmp_path / "t.pftrace", lambda _more: None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "t.pftrace").stat().st_size > 4_000_000
    assert peak < 60_000_000  # a chunk of packets and the columns' arrays


def test_progress_adds_up(trace_path, tmp_path):
    content = content_of(trace_path("mp"))
    told = []
    write_perfetto(content, tmp_path / "t.pftrace", told.append)
    assert sum(told) == content.rows


def test_an_interrupted_export_leaves_the_old_file(trace_path, tmp_path):
    target = tmp_path / "t.pftrace"
    target.write_bytes(b"old")

    def interrupt(_more):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_perfetto(content_of(trace_path("mp")), target, interrupt)
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["t.pftrace"]


def test_without_the_package_it_says_what_to_install(trace_path, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    with pytest.raises(MissingToolError) as failed:
        write_perfetto(content_of(trace_path("mem")), tmp_path / "t.pftrace", lambda _more: None)
    assert "nsysprof[perfetto]" in failed.value.next_step


def test_a_folder_that_is_not_there(trace_path, tmp_path):
    with pytest.raises(OutputError):
        write_perfetto(content_of(trace_path("mem")), tmp_path / "no" / "t.pftrace", lambda _more: None)


def test_work_of_two_processes_on_one_device(tmp_path):
    builder = TraceBuilder()
    builder.kernel(0, 10, None, "a")
    builder.kernel(5, 15, None, "b", pid=OTHER_PID)
    read = built(builder, tmp_path)
    assert {read.path(s.track) for s in read.slices} == {
        ("GPU 0", "pid 100 stream 7"), ("GPU 0", "pid 200 stream 7"),
    }  # fmt: skip
    assert not any(path.HasField("thread") for path in read.tracks.values())


@pytest.mark.browser
@pytest.mark.parametrize(
    "name", ["sdpa", *(pytest.param(name, marks=pytest.mark.slow) for name in ("mp", "graph_node", "gm10k"))]
)
def test_perfettos_ui_opens_it_and_its_trace_processor_counts_the_same(name, trace_path, tmp_path):
    from tests.export.perfetto_ui import opened

    content = content_of(trace_path(name))
    counts = write_perfetto(content, tmp_path / "t.pftrace", lambda _more: None).rows
    with opened(tmp_path / "t.pftrace") as query:
        rows = query("SELECT category, count(*) AS n, sum(dur) AS total FROM slice WHERE dur >= 0 GROUP BY 1")
        found = {row["category"]: (row["n"], row["total"]) for row in rows}
        documented = (REPOSITORY / "docs" / "export.md").read_text().split("```sql")[1].split("```")[0]
        for sql in documented.split(";")[:2]:
            assert len(query(sql)) > 0
        flows = query("SELECT count(*) AS n FROM flow")[0]["n"]
        samples = query("SELECT count(*) AS n FROM counter")[0]["n"]
        bad = {row["name"]: row["value"] for row in query("SELECT name, value FROM stats WHERE severity = 'error'")}
    assert not any(bad.values()), bad
    names = {"cuda_api": "api", "nvtx": "range"}
    assert {names.get(key, key): n for key, (n, _) in found.items() if key != "note"} == {
        key: n for key, n in counts.items() if key not in ("flow", "note", "memory", "metric sample")
    }
    assert flows == counts.get("flow", 0)
    assert samples == counts.get("memory", 0) + counts.get("metric sample", 0)
    assert found["kernel"][1] == content.analysis.totals.kernel_total_ns
