"""Every number that nsys stats prints of a real trace is ours too, to the last digit that it prints."""

import csv
from pathlib import Path

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.second_opinion.nsys_stats import as_printed

GOLDEN = Path(__file__).parents[1] / "golden"
TRACES = ("sdpa", "sdpa23", "graph_node", "mp", "mem", "ddp_rank0", "gm10k")
STATS = {
    "Total Time (ns)": "total_ns", "Avg (ns)": "avg_ns", "Med (ns)": "med_ns", "Min (ns)": "min_ns",
    "Max (ns)": "max_ns", "StdDev (ns)": "stddev_ns",
}  # fmt: skip


@pytest.fixture(scope="module", params=TRACES)
def traced(request, trace_path):
    with open_trace(trace_path(request.param)) as trace:
        return request.param, summarize(read_tables(trace))


def golden(name, report):
    """Return what `nsys stats -r REPORT -f csv` of nsys 2024.2.3 printed for the trace."""
    with (GOLDEN / f"{name}_{report}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def same(ours, theirs, columns):
    for nsys_name, name in columns.items():
        assert as_printed(float(ours[name]), theirs[nsys_name]) == float(theirs[nsys_name]), (theirs, name)


def test_kernels(traced):
    name, analysis = traced
    ours = {row["name"]: row for row in analysis.kernels.to_dict("records")}
    theirs = golden(name, "cuda_gpu_kern_sum")
    assert [row["Name"] for row in theirs] == list(ours), "the same kernels in the same order"
    for row in theirs:
        same(ours[row["Name"]], row, {"Instances": "instances", "Time (%)": "share_pct", **STATS})


def test_api_calls(traced):
    name, analysis = traced
    ours = {row["name"]: row for row in analysis.api.to_dict("records")}
    theirs = golden(name, "cuda_api_sum")
    assert len(theirs) == len(ours)
    for row in theirs:
        same(ours[row["Name"]], row, {"Num Calls": "calls", **STATS})


def test_copies_and_fills(traced):
    name, analysis = traced
    ours = {row["operation"]: row for row in analysis.memops.to_dict("records")}
    theirs = golden(name, "cuda_gpu_mem_time_sum")
    assert len(theirs) == len(ours)
    for row in theirs:
        same(ours[row["Operation"]], row, {"Count": "count", "Total Time (ns)": "total_ns"})


@pytest.mark.parametrize("name", ["sdpa", "mp", "mem", "ddp_rank0"])
def test_bytes_of_copies_and_fills(name, trace_path):
    with open_trace(trace_path(name)) as trace:
        ours = {row["operation"]: row for row in summarize(read_tables(trace)).memops.to_dict("records")}
    theirs = golden(name, "cuda_gpu_mem_size_sum")
    assert len(theirs) == len(ours) > 0
    for row in theirs:
        mine = ours[row["Operation"]]
        assert mine["count"] == int(row["Count"])
        for nsys_name, column in {
            "Total (MB)": "total_bytes",
            "Avg (MB)": "avg_bytes",
            "Max (MB)": "max_bytes",
        }.items():
            assert as_printed(mine[column] / 1e6, row[nsys_name]) == float(row[nsys_name])


def test_projected_ranges(traced):
    """Push/pop ranges agree. For start/end ranges nsys counts their own thread only; ours hold all of the process."""
    name, analysis = traced
    ours = {}
    for row in analysis.ranges.to_dict("records"):
        label = f"{row['domain']}:{row['range']}" if row["domain"] else row["range"]
        ours[label, row["style"]] = row
    columns = {"Range Instances": "instances", "Total Range Time (ns)": "wall_ns"}
    compared = 0
    for row in golden(name, "nvtx_gpu_proj_sum"):
        mine = ours[row["Range"].lstrip(":"), row["Style"]]
        same(mine, row, columns)
        if row["Style"] == "PushPop":
            same(mine, row, {"Total Proj Time (ns)": "projected_ns"})
            compared += 1
        else:
            assert mine["projected_ns"] >= int(row["Total Proj Time (ns)"])
    assert compared > 0 or name == "sdpa23"


def test_conservation(traced):
    _, analysis = traced
    coverage, totals = analysis.coverage, analysis.totals
    assert coverage.kernels == coverage.attributed_kernels + sum(coverage.reasons.values()) == totals.kernel_count
    assert analysis.kernels["total_ns"].sum() == totals.kernel_total_ns
    assert analysis.kernels["instances"].sum() == totals.kernel_count
    by_range = analysis.range_kernels.groupby(["range", "style"])["instances"].sum()
    for row in analysis.ranges.to_dict("records"):
        if row["kernel_count"] and row["domain"] == "":
            assert by_range[row["range"], row["style"]] >= row["kernel_count"]
        assert row["gpu_busy_ns"] <= row["projected_ns"] or row["instances"] > 1 or len(analysis.devices) > 1


KNOWN_PEAK = 1_474_654_964


def test_peak_memory_of_a_real_trace(trace_path):
    with open_trace(trace_path("sdpa")) as trace:
        analysis = summarize(read_tables(trace))
    assert analysis.totals.peak_vram_bytes == {0: KNOWN_PEAK}


@pytest.mark.parametrize(("name", "code"), [("sdpa22", "no-kernels"), ("sdpa23", "measured-ranges-empty")])
def test_a_profiler_that_lost_data_without_failing_is_an_error(trace_path, name, code):
    with open_trace(trace_path(name)) as trace:
        analysis = summarize(read_tables(trace))
    (note,) = [note for note in analysis.notes if note.severity.value == "error"]
    assert note.code == code
    assert "newer nsys" in note.next_step


def test_copies_of_known_size(trace_path):
    with open_trace(trace_path("mem")) as trace:
        analysis = summarize(read_tables(trace))
    found = analysis.ranges.set_index("range")
    mebi = 1 << 20
    assert found.loc["h2d_pinned_4x64MiB", "memcpy_bytes"] == 4 * 64 * mebi
    assert found.loc["d2h_3x64MiB", "memcpy_bytes"] == 3 * 64 * mebi
    assert found.loc["d2d_5x64MiB", "memcpy_bytes"] == 5 * 64 * mebi
    assert found.loc["h2d_pageable_2x16MiB", "memcpy_bytes"] == 2 * 16 * mebi
