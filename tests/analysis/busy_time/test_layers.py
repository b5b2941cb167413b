"""Kernels belong to the innermost module around their launch; all rows add up to all kernels."""

import pandas as pd
import pytest

from nsysprof.app.analyze import analyze_trace
from tests.builders.build_trace import OTHER_TID, TID, TraceBuilder


@pytest.fixture(scope="module")
def recorded(trace_path):
    """Return the analysis of layers that ran eager, from a CUDA graph, and compiled, on an H200."""
    return analyze_trace(trace_path("h200-layers/graph_layers"))


def test_all_rows_add_up_to_all_kernels(recorded):
    layers, kernels = recorded.layers, recorded.kernels
    assert layers["kernel_count"].sum() == kernels["instances"].sum()
    assert layers["kernel_total_ns"].sum() == kernels["total_ns"].sum()


def test_layers_have_the_kernels_of_the_programs_own_ranges_captured_ones_included(recorded):
    tree = recorded.range_tree
    own = tree[tree["range"] == "layer#"]
    counted = int(own["kernel_count"].sum() + own["captured_kernel_count"].sum())
    forward = recorded.layers[(recorded.layers["pass"] == "forward") & (recorded.layers["layer"] != "Sequential")]
    assert forward["kernel_count"].sum() == counted == 360
    # Six replays of four layers.
    assert own["captured_kernel_count"].sum() == 144


def test_ranges_of_layers_are_none_of_the_programs_ranges(recorded):
    assert not recorded.ranges["range"].str.startswith("nsysprof ").any()


def build(tmp_path, ranges, kernels):
    """Write a trace with ranges (name, start, end, thread) and kernels (launch time, duration, thread)."""
    trace = TraceBuilder()
    for name, start, end, thread in ranges:
        trace.range(start, end, name, tid=thread)
    for number, (time, duration, thread) in enumerate(kernels, 1):
        trace.call(time, time + 1, number, tid=thread)
        trace.kernel(1000 * number, 1000 * number + duration, number)
    return analyze_trace(trace.write(tmp_path / "t.sqlite"))


def test_the_time_of_inner_modules_is_theirs_alone(tmp_path):
    analysis = build(
        tmp_path,
        [("nsysprof forward m (M)", 0, 100, TID), ("nsysprof forward m.a (A)", 10, 30, TID),
         ("nsysprof forward m.a (A)", 40, 60, TID), ("nsysprof backward m.a (A)", 200, 230, OTHER_TID),
         ("nsysprof backward-part m (M)", 230, 240, OTHER_TID), ("own", 0, 300, TID)],
        [(5, 7, TID), (15, 11, TID), (45, 13, TID), (120, 17, TID), (210, 19, OTHER_TID), (235, 23, OTHER_TID),
         (250, 29, OTHER_TID)],
    )  # fmt: skip
    rows = analysis.layers.fillna({"layer": "", "pass": ""}).set_index(["layer", "pass"])
    expected = {
        ("m", "forward"): (1, 60, 1, 7), ("m.a", "forward"): (2, 40, 2, 24), ("m.a", "backward"): (1, 30, 1, 19),
        ("m", "backward"): (0, 10, 1, 23), ("", "backward"): (None, None, 1, 29), ("", ""): (None, None, 1, 17),
    }  # fmt: skip
    columns = ["calls", "wall_ns", "kernel_count", "kernel_total_ns"]
    found = {key: tuple(None if pd.isna(x) else int(x) for x in row) for key, row in
             zip(rows.index, rows[columns].itertuples(index=False), strict=True)}  # fmt: skip
    assert found == expected
    assert analysis.layers["flops"].isna().all() and analysis.layers["peak_bytes"].isna().all()


def test_a_trace_without_layers_has_none(tmp_path):
    assert build(tmp_path, [("nsysprof forward", 0, 100, TID)], [(5, 7, TID)]).layers is None
