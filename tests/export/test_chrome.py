import gzip
import json

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.export.chrome import write_chrome
from nsysprof.trace.inputs.kineto_json import convert_kineto_json
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.builders.build_trace import TraceBuilder
from tests.export.contents import content_of


def export(content, path):
    write_chrome(content, path, lambda _more: None)
    raw = path.read_bytes()
    return json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)


def back_again(content, tmp_path):
    """Return the analysis of what the export became when it was read as a trace of torch.profiler."""
    export(content, tmp_path / "t.json")
    convert_kineto_json(tmp_path / "t.json", tmp_path / "back.sqlite")
    with open_trace(tmp_path / "back.sqlite") as trace:
        return summarize(read_tables(trace))


def records(table, columns, key):
    chosen = table[columns].sort_values(key, kind="stable")
    return chosen.reset_index(drop=True).to_dict("records")


@pytest.mark.parametrize("name", ["sdpa", "mp", "mem", "gm10k", "ddp_rank0", "two_gpus", "managed"])
def test_what_reads_kineto_counts_the_same(name, trace_path, tmp_path):
    content = content_of(trace_path(name))
    once, again = content.analysis, back_again(content, tmp_path)
    durations = ["total_ns", "min_ns", "max_ns"]
    for table, count in (("kernels", "instances"), ("api", "calls")):
        columns = ["name", count, *durations]
        expected = getattr(once, table).assign(name=getattr(once, table)["name"].str.replace(r"_v\d+$", "", regex=True))
        expected = expected.groupby("name", as_index=False).agg(
            {count: "sum", "total_ns": "sum", "min_ns": "min", "max_ns": "max"}
        )
        assert records(getattr(again, table), columns, "name") == records(expected, columns, "name")
    assert again.totals.launch_count == once.totals.launch_count
    assert again.totals.gpu_busy_ns == once.totals.gpu_busy_ns
    assert again.totals.memset_bytes == once.totals.memset_bytes
    migrations = {name for name in once.totals.memcpy_bytes if "Unified" in name}
    copied = {name: size for name, size in once.totals.memcpy_bytes.items() if name not in migrations}
    assert again.totals.memcpy_bytes == copied
    columns = ["range", "instances", "wall_ns", "kernel_count", "kernel_total_ns", "launch_count", "memcpy_bytes"]
    pushed = [table[table["style"] == "PushPop"].groupby("range", as_index=False)[columns[1:]].sum() for table in (
        once.ranges, again.ranges
    )]  # fmt: skip
    assert records(pushed[1], columns, "range") == records(pushed[0], columns, "range")


@pytest.mark.parametrize("name", ["mem", "mp", "pools", "two_gpus", "managed"])
def test_memory_and_copies_of_pageable_memory_come_back(name, trace_path, tmp_path):
    content = content_of(trace_path(name))
    once, again = content.analysis, back_again(content, tmp_path)
    assert again.trace.memory_kind == once.trace.memory_kind
    assert again.totals.peak_vram_bytes == once.totals.peak_vram_bytes
    columns = ["range", "instances", "peak_vram_bytes"]
    pushed = [found.ranges[found.ranges["style"] == "PushPop"] for found in (once, again)]
    assert records(pushed[1], columns, columns) == records(pushed[0], columns, columns)
    columns = ["operation", "count", "pageable_count", "pinned_count"]
    copies = [found.memops[found.memops["pinned_count"].notna()] for found in (once, again)]
    assert records(copies[1], columns, "operation") == records(copies[0], columns, "operation")
    table = [found.findings.table() if found.findings else None for found in (once, again)]
    pageable = [[] if rows is None else rows[rows["code"] == "pageable-copy"]["range"].tolist() for rows in table]
    assert pageable == [["h2d_pageable_2x16MiB"] if name == "mem" else []] * 2


def test_every_kind_of_event(trace_path, tmp_path):
    content = content_of(trace_path("mp"))
    trace = export(content, tmp_path / "t.json")
    events = trace["traceEvents"]
    timeline = content.analysis.timeline
    by_phase = {phase: [e for e in events if e["ph"] == phase] for phase in "XMCbesfi"}
    assert sum(map(len, by_phase.values())) == len(events)
    pushed = (timeline.nvtx["style"] == "PushPop").sum()
    assert len(by_phase["X"]) == len(timeline.gpu) + len(timeline.api) + pushed
    assert len(by_phase["b"]) == len(by_phase["e"]) == len(timeline.nvtx) - pushed > 0
    assert len(by_phase["C"]) == len(timeline.memory) <= len(by_phase["i"])
    assert len(by_phase["f"]) == (timeline.gpu["call"] >= 0).sum()
    assert {e["id"] for e in by_phase["s"]} == {e["id"] for e in by_phase["f"]}
    assert trace["nsysprof"]["sha256"] == content.analysis.trace.sha256


def test_times_are_exact_decimals(tmp_path):
    builder = TraceBuilder()
    builder.kernel(9_007_199_254_740_993, 9_007_199_254_740_994, None)
    write_chrome(content_of(builder.write(tmp_path / "t.sqlite")), tmp_path / "t.json", lambda _more: None)
    assert '"ts":9007199254740.993,"dur":0.001' in (tmp_path / "t.json").read_text()


def test_hostile_names_stay_text(tmp_path):
    builder = TraceBuilder()
    names = ['"},{"ph":"X', "</script>", "a\x00b\\", "line\nbreak \u2028"]
    for number, name in enumerate(names):
        builder.kernel(number, number + 1, None, name)
    trace = export(content_of(builder.write(tmp_path / "t.sqlite")), tmp_path / "t.json")
    assert [e["name"] for e in trace["traceEvents"] if e["ph"] == "X"] == [f"{name}(int)" for name in names]


def test_compressed_by_the_name_and_the_same_twice(trace_path, tmp_path):
    content = content_of(trace_path("mem"))
    first = export(content, tmp_path / "a.json.gz")
    export(content, tmp_path / "b.json.gz")
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()
    assert first == export(content, tmp_path / "t.json")


def test_a_trace_of_operators_is_one_again(tmp_path):
    builder = TraceBuilder()
    builder.fact("NSYSPROF:WORK_KIND", "operator")
    builder.call(0, 10, 1, "aten::bmm")
    builder.kernel(0, 10, 1, "aten::bmm")
    again = back_again(content_of(builder.write(tmp_path / "t.sqlite")), tmp_path)
    assert again.trace.work_kind == "operator"
    assert again.kernels["name"].tolist() == ["aten::bmm(int)"]
