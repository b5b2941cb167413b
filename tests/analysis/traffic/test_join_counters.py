"""What ncu counted on an H200, joined with the trace of the same capture, and what follows from it."""

from dataclasses import replace

import pandas as pd
import pytest

from nsysprof.analysis.comparison.rank_cases import fill_results
from nsysprof.analysis.traffic.join_counters import (
    KERNEL_COUNTER_COLUMNS,
    counted_table,
    fill_counters,
    of_this_gpu,
    with_kernel_counters,
)
from nsysprof.analysis.traffic.roofline import ROOFLINE_COLUMNS, fill_roofline
from nsysprof.app.analyze import analyze_trace
from nsysprof.app.trace_analysis.assemble import read_record
from nsysprof.capture.collect import read_counters
from nsysprof.results.kernel_counters import Run
from nsysprof.results.roof import MEMORY, OCCUPANCY, UNKNOWN, roof_of
from nsysprof.trace.inputs.resolve_input import resolve_input
from tests.conftest import REPOSITORY

CAPTURE = REPOSITORY / "traces" / "h200-roofline"


@pytest.fixture(scope="module")
def analysis(tmp_path_factory):
    return analyze_trace(resolve_input(CAPTURE, None, tmp_path_factory.mktemp("trace")))


@pytest.fixture(scope="module")
def record():
    return read_record(CAPTURE)


@pytest.fixture(scope="module")
def kernels():
    return read_counters(CAPTURE / "counters.csv")


def filled(record, analysis, kernels):
    counted = counted_table(kernels)
    results, notes = fill_counters(fill_results(record.results, analysis), counted)
    return fill_roofline(results, counted, roof_of(record.environment), on_gpu=True).set_index("range"), notes


def test_a_case_is_the_sum_of_its_kernels(record, analysis, kernels):
    results, notes = filled(record, analysis, kernels)
    assert notes == []
    for name, row in results.iterrows():
        mine = [kernel for kernel in kernels if kernel.range == name and kernel.run is Run.TRAFFIC]
        assert row["counted_kernels"] == len(mine) == row["kernel_count"] / row["traced_calls"]
        assert row["counted_read_bytes"] == sum(kernel.values["dram_read_bytes"] for kernel in mine)
        assert row["counted_write_bytes"] == sum(kernel.values["dram_write_bytes"] for kernel in mine)


def test_time_under_ncu_is_that_of_the_trace(record, analysis, kernels):
    results, _ = filled(record, analysis, kernels)
    long = results[results["kernel_total_ns"] / results["traced_calls"] > 300_000]
    ratio = long["counted_time_ns"] / (long["kernel_total_ns"] / long["traced_calls"])
    assert len(long) > 15
    assert ratio.between(0.95, 1.05).all(), ratio


def test_tensor_cores_do_what_the_formula_says_and_the_diagonal_blocks(record, analysis, kernels):
    """Blocks on the diagonal are computed whole, so that the counted FLOP come down to the formula as S grows."""
    results, _ = filled(record, analysis, kernels)
    fused = results[results["backend"].isin(["flash", "cudnn", "efficient"])]
    ratio = (fused["counted_flops"] / fused["flops"]).groupby(fused["seq"])
    assert ratio.min().min() > 1
    assert ratio.max().loc[8192] < 1.05
    assert ratio.mean().is_monotonic_decreasing


def test_counted_and_sampled_agree_where_there_is_traffic(record, analysis, kernels):
    results, _ = filled(record, analysis, kernels)
    for name, row in results.iterrows():
        counted = row["counted_read_bytes"] + row["counted_write_bytes"]
        sampled = (row["sampled_read_bytes"] + row["sampled_write_bytes"]) / row["traced_calls"]
        error = (row["sampled_read_error_bytes"] + row["sampled_write_error_bytes"]) / row["traced_calls"]
        if counted > 8 << 20:
            assert abs(counted - sampled) <= error, name


def test_the_roof_and_what_limits(record, analysis, kernels):
    results, _ = filled(record, analysis, kernels)
    assert set(ROOFLINE_COLUMNS) <= set(results.columns)
    assert not results["above_roof"].any()
    math = results.loc["RUN::math::S8192::pass=fwd"]
    assert math["limiter"] == MEMORY
    assert "TB/s" in math["why"]
    flash = results.loc["RUN::flash::S8192::pass=fwd"]
    assert flash["limiter"] == OCCUPANCY
    assert "255 registers" in flash["why"]
    assert results.loc["RUN::flash::S512::pass=bwd", "limiter"] == "launch-bound"
    assert (results["flops_per_s_low"] <= results["flops_per_s"]).all()


def test_without_counters_sampling_alone_may_show_memory_and_else_it_is_unknown(record, analysis):
    results, notes = filled(record, analysis, [])
    assert notes == []
    assert results["counted_kernels"].isna().all()
    assert set(results["dram_source"]) == {"sampled"}
    assert results.loc["RUN::flash::S8192::pass=fwd", "limiter"] == UNKNOWN
    assert "no hardware counters" in results.loc["RUN::flash::S8192::pass=fwd", "why"]
    assert results["limiter"].isin([UNKNOWN, MEMORY, "launch-bound"]).all()


def test_a_kernel_that_was_not_counted_makes_the_sums_unknown_and_is_said(record, analysis, kernels):
    name = "RUN::math::S4096::pass=fwd"
    part = [k for k in kernels if not (k.range == name and k.run is Run.DETAIL and k.position > 5)]
    results, notes = filled(record, analysis, part)
    assert pd.isna(results.loc[name, "counted_l2_bytes"])
    assert pd.isna(results.loc[name, "counted_flops"])
    assert results.loc[name, "counted_read_bytes"] > 0, "its traffic was counted whole"
    assert [note.code for note in notes] == ["counted-other-kernels"]
    assert name in notes[0].text


def test_what_was_replayed_says_nothing_of_a_cases_traffic(record, analysis, kernels):
    replayed = [replace(kernel, passes=3) if kernel.run is Run.TRAFFIC else kernel for kernel in kernels]
    results, _ = filled(record, analysis, replayed)
    assert results["counted_read_bytes"].isna().all()
    assert results["counted_l2_bytes"].notna().all()


def test_counters_of_another_gpu_are_left_out(kernels):
    other = [replace(kernel, gpu="NVIDIA L4") for kernel in kernels]
    table, notes = of_this_gpu(counted_table(other), "NVIDIA H200")
    assert len(table) == 0
    assert [note.code for note in notes] == ["counters-of-another-gpu"]
    assert of_this_gpu(counted_table(kernels), "NVIDIA H200")[1] == []


def test_kernels_have_the_means_of_their_launches(analysis, kernels):
    joined, notes = with_kernel_counters(analysis, counted_table(kernels), {})
    assert notes == []
    assert list(joined.kernels.columns[-len(KERNEL_COUNTER_COLUMNS) :]) == list(KERNEL_COUNTER_COLUMNS)
    rows = joined.range_kernels
    name = "RUN::flash::S8192::pass=fwd"
    row = rows[(rows["range"] == name) & (rows["style"] == "StartEnd")].iloc[0]
    (one,) = [k for k in kernels if k.range == name and k.run is Run.TRAFFIC]
    assert row["dram_read_bytes"] == one.values["dram_read_bytes"]
    assert row["registers"] == 255
    assert joined.kernels["counted_instances"].notna().all()
    before = analysis.kernels.columns
    pd.testing.assert_frame_equal(joined.kernels[before], analysis.kernels)


def test_a_kernel_that_the_trace_does_not_name_is_said(analysis, kernels):
    unnamed = [replace(kernel, kernel="", symbol="_Z7unknownv", name="unknown()") for kernel in kernels[:3]]
    joined, notes = with_kernel_counters(analysis, counted_table(unnamed), {})
    assert [note.code for note in notes] == ["counted-not-traced"]
    assert joined.kernels["counted_instances"].isna().all()


def test_the_same_kernels_by_their_mangled_names(analysis, kernels):
    by_name = {}
    for number, kernel in enumerate({kernel.kernel for kernel in kernels}):
        by_name[kernel] = f"_Z{number}"
    mangled = [replace(kernel, kernel="", symbol=by_name[kernel.kernel]) for kernel in kernels]
    symbols = {name: frozenset({symbol}) for name, symbol in by_name.items()}
    ours, _ = with_kernel_counters(analysis, counted_table(kernels), {})
    theirs, notes = with_kernel_counters(analysis, counted_table(mangled), symbols)
    assert notes == []
    pd.testing.assert_frame_equal(ours.kernels, theirs.kernels)
