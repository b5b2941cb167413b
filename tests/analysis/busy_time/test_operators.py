"""Kernels get their operators in the recorded step and, by their order, in all others."""

import lzma
import re
from dataclasses import replace

import pandas as pd
import pytest

from nsysprof.app.analyze import analyze_trace
from nsysprof.app.trace_analysis.assemble import AnalysisOptions, assemble
from nsysprof.capture.manifest import program_manifest, write_manifest
from nsysprof.report.pages.analysis import _distance_text, findings_sections, overview_sections
from nsysprof.report.write import summary_json
from tests.analysis.attribution.test_calls_graph_work import create, replay
from tests.builders.build_trace import TID, TraceBuilder
from tests.builders.operator_steps import ELEMENTWISE, Launched, analyze_steps, tensor
from tests.conftest import REPOSITORY

# Tensor FLOP of a step, counted by ncu on the same GPU: sm__ops_path_tensor_src_{bf16_dst_fp32,fp16}.sum.
COUNTED = {"gpt": 5_727_338_889_216, "unet": 128_043_712_512}


@pytest.fixture(scope="module")
def captures(trace_path, tmp_path_factory):
    """Return the folders of two captures of an H200 with operators."""
    folders = {}
    for name in COUNTED:
        folders[name] = folder = tmp_path_factory.mktemp(name)
        (folder / "nsys.sqlite").symlink_to(trace_path(f"h200-operators/{name}"))
        packed = REPOSITORY / "traces/h200-operators" / f"{name}.operators.json.xz"
        (folder / "nsys.operators-4.json").write_bytes(lzma.decompress(packed.read_bytes()))
    return folders


@pytest.fixture(scope="module")
def analyses(captures):
    return {name: assemble(folder, folder / "nsys.sqlite").analysis for name, folder in captures.items()}


@pytest.mark.parametrize("name", COUNTED)
def test_the_flop_of_a_step_are_those_that_ncu_counts(analyses, name):
    work = analyses[name].step_work
    assert work.step_flops == pytest.approx(COUNTED[name], rel=0.02)
    assert work.mfu_pct == pytest.approx(100 * work.step_flops / (work.step_ns / 1e9) / 989.4e12)


@pytest.mark.parametrize("name", COUNTED)
def test_all_kernel_time_of_a_step_has_an_operator(analyses, name):
    analysis = analyses[name]
    operators, steps = analysis.operators, analysis.step_times.steps
    parts = steps[steps["is_busy"]] if "is_busy" in steps else steps
    assert operators["kernel_total_ns"].sum() > 0 and len(parts)
    # Twenty steps; the first one calls other kernels.
    share = operators["kernel_total_ns"].sum() * 20 / analysis.kernels["total_ns"].sum()
    assert share == pytest.approx(1, abs=0.06)


def test_rounding_makes_no_floor_nothing(tmp_path):
    one = tensor((1,), 8)
    analysis = analyze_steps(tmp_path, [Launched("aten::fill_", ELEMENTWISE, 700, [one], [one])] * 3)
    assert analysis.operators["floor_ns"].tolist() == [1]
    assert set(analysis.work["floor_ns"]) == {1}


def test_no_operator_is_faster_than_its_floor(analyses):
    for analysis in analyses.values():
        table = analysis.operators[analysis.operators["floor_ns"].notna()]
        assert (table["kernel_total_ns"] > 0.85 * table["floor_ns"]).all()  # what the caches hold is faster


def test_operators_have_layers_and_passes(analyses):
    table = analyses["gpt"].operators
    products = table[table["operator"].isin(["aten::mm", "aten::addmm"])]
    assert set(products["pass"]) == {"forward", "backward"}
    assert {"blocks.0.qkv", "blocks.5.down", "head"} <= set(products["layer"])
    of_optimizer = table[table["pass"] == "optimizer"]
    assert "aten::_fused_adamw_" in set(of_optimizer["operator"])


def test_the_ledger_has_floors_where_operators_are_known(analyses):
    work = analyses["gpt"].work
    whole = work[work["range"].isna()]
    gemm = whole[whole["category"] == "gemm"].iloc[0]
    assert 0.5 * gemm["busy_ns"] < gemm["floor_ns"] < gemm["busy_ns"]
    assert whole["busy_ns"].sum() == analyses["gpt"].totals.gpu_busy_ns


def test_recorded_steps_are_not_timed(analyses):
    """The program ran 20 steps; the sixth to the eighth were recorded, and took up to four times as long."""
    steps = analyses["gpt"].step_times.steps
    timed = steps.loc[~steps["is_warmup"], "wall_ns"]
    assert len(timed) == 11
    assert timed.max() < 1.3 * timed.min()
    assert steps["wall_ns"].max() > 3 * timed.max()


def floor_line(analysis):
    (section,) = overview_sections(analysis)
    return next(text for text in section.parts[0].texts if text.startswith("Operators: "))


def test_the_page_says_how_far_a_step_is_from_its_floor_where_the_rest_is_and_at_which_rates(analyses, captures):
    line = floor_line(analyses["gpt"])
    assert "at the least time of each operator they would take" in line
    assert "(rates of the datasheet). Most above it: " in line and " mm" in line.partition("Most above it: ")[2]
    # A machine that reaches half of the datasheet: the floors are higher, and MFU is a share of what it reaches.
    ceilings = {"bytes_per_s": 2.4e12, "flops": {"bf16": 494.7e12, "tf32": 247e12}, "gpu_name": "NVIDIA H200"}
    write_manifest(captures["gpt"], program_manifest(("train",), {"ceilings": ceilings}))
    measured = assemble(captures["gpt"], captures["gpt"] / "nsys.sqlite").analysis
    assert "(rates measured on this machine)" in floor_line(measured)
    known = analyses["gpt"].operators["floor_ns"].sum()
    assert measured.operators["floor_ns"].sum() == pytest.approx(2 * known, rel=0.01)
    assert measured.step_work.mfu_pct == pytest.approx(2 * analyses["gpt"].step_work.mfu_pct)
    found = summary_json(measured)
    assert found["floor_source"] == "measured on this machine"
    assert found["peak_source"] == "measured on this machine, bf16"
    assert found["peak_flops_per_s"] == 494.7e12


def verdict(analysis):
    (section,) = findings_sections(analysis)
    return section.parts[0].texts[0]


def test_where_nothing_is_found_the_page_says_how_far_the_step_is_from_its_floor_and_where_the_rest_is(analyses):
    analysis = analyses["unet"]
    text = verdict(analysis)
    assert text.startswith("Nothing was found above 1 %")
    # The four convolutions and all operators between them, by hand from operators.csv.
    operators = analysis.operators
    assert re.search(r"would be 31[0-9] us", text) and "The GPU works for 1.11 ms of a step" in text
    assert "(rates of the datasheet). The rest is 233 us in layout, 202 us in elementwise" in text
    own = operators[operators["operator"].str.contains("convolution")]
    share = 100e9 * own["flops"].sum() / own["kernel_total_ns"].sum() / 989.4e12
    assert f"in which they reach {share:.3g} % of 989 TFLOP/s (datasheet, dense bf16)." in text


def test_where_floors_are_not_known_the_page_says_that_and_what_tells_them(trace_path, analyses):
    text = verdict(analyze_trace(trace_path("h200-busy/resnet-none")))
    assert "Nothing was found" in text and "The least time is not known: capture --operators records" in text
    # Half of the work has a floor: the rest of it is unknown, and the step as a whole.
    analysis = analyses["unet"]
    work = analysis.work.copy()
    work.loc[work["category"].isin(["convolution", "layout"]), "floor_ns"] = pd.NA
    text = verdict(replace(analysis, work=work))
    assert "The least time of 51 % of this work is not known" in text


def test_the_distance_is_told_without_steps_and_of_a_part(trace_path, captures):
    """A trace without steps said that nothing was found, and no more."""
    text = verdict(analyze_trace(trace_path("h200-busy/products-none")))
    assert "The GPU works for 23.4 ms of the trace. The least time is not known" in text
    options = AnalysisOptions(step=4)
    part = assemble(captures["unet"], captures["unet"] / "nsys.sqlite", options).analysis
    assert (
        _distance_text(part) == " The GPU works for 1.11 ms of step 4. The least time is known of whole traces alone."
    )


def test_the_overview_says_whose_least_time_is_not_known(analyses):
    analysis = analyses["unet"]
    operators = analysis.operators.copy()
    operators.loc[operators["operator"].str.contains("convolution"), "floor_ns"] = pd.NA
    assert re.search(r"^Operators: .* kernels is not known, most of it of \w*conv", overview(analysis, operators), re.M)
    operators["floor_ns"], operators["shapes"] = pd.NA, None
    assert "known, because the sizes of their tensors were not recorded." in overview(analysis, operators)


def overview(analysis, operators):
    return "\n".join(overview_sections(replace(analysis, operators=operators))[0].parts[0].texts)


def test_ranges_of_the_recording_are_none_of_the_program(analyses):
    names = set(analyses["gpt"].ranges["range"])
    assert not [name for name in names if name.startswith(("aten::", "nsysprof "))]


def built(tmp_path, orders, marked=0, named=False):
    """Return the analysis of a program whose steps launch kernels in some orders, operators recorded in one step.

    named: whether each step behind the first has a range.
    """
    trace, now, correlation = TraceBuilder(), 1_000, 1
    trace.gpu()
    for step, order in enumerate(orders):
        begin = now
        for number, kernel in enumerate(order):
            if step == marked:
                trace.range(now - 5, now + 50, f"aten::{kernel}, op_id = {number + 1}, sizes = [[4]]")
            trace.launch(now, correlation, name=kernel)
            now, correlation = now + 200, correlation + 1
        if step == marked:
            trace.range(begin - 20, now, "nsysprof operators", kind=60)
        if named and step:
            trace.range(begin - 30, now, "step")
        now += 1_000
    return analyze_trace(trace.write(tmp_path / "t.sqlite"))


def test_other_orders_are_unknown(tmp_path):
    analysis = built(tmp_path, [["a", "b", "c"], ["a", "b", "c"], ["a", "c", "b"], ["a", "b", "c"]])
    table = analysis.operators.set_index("operator")
    assert table["calls"].to_dict() == {"aten::a": 1, "aten::b": 1, "aten::c": 1}
    assert table["kernel_total_ns"].to_dict() == {"aten::a": 50, "aten::b": 50, "aten::c": 50}
    assert analysis.operators["flops"].isna().all()
    assert analysis.step_work.mfu_pct is None and analysis.step_work.unknown_because


def test_a_trace_without_operators_says_so(trace_path):
    analysis = analyze_trace(trace_path("sdpa"))
    assert (analysis.operators, analysis.step_work) == (None, None)


def test_operators_of_a_program_that_emits_them_itself_stay_ranges(tmp_path):
    trace = TraceBuilder()
    trace.gpu()
    trace.range(900, 1_200, "aten::mm, seq = 3, op_id = 4, sizes = [[8, 8], [8, 8]]", tid=TID)
    trace.launch(1_000, 1, name="gemm")
    analysis = analyze_trace(trace.write(tmp_path / "t.sqlite"))
    assert analysis.operators["operator"].tolist() == ["aten::mm"]
    assert analysis.ranges["range"].tolist() == ["aten::mm"]


def test_kernels_of_a_graph_have_the_operators_that_were_open_when_they_were_captured(tmp_path):
    """Two operators with three kernels are captured at 1,000 ns and replayed three times; a step is one replay."""
    trace = TraceBuilder()
    trace.gpu()
    trace.range(900, 2_000, "capture")
    trace.range(1_000, 1_400, "aten::mm, op_id = 1, sizes = [[8, 8], [8, 8]]")
    trace.range(1_500, 1_900, "aten::add, op_id = 2, sizes = [[8, 8], [8, 8]]")
    for number, at in enumerate((1_100, 1_200, 1_600)):
        create(trace, at, 100 + number)
        create(trace, 3_000 + number, 200 + number, 100 + number)
    for step in range(3):
        replay(trace, 5_000 + 2_000 * step, 1 + step, 200)
    analysis = analyze_trace(trace.write(tmp_path / "t.sqlite"))
    table = analysis.operators.set_index("operator")
    assert table["kernel_count"].to_dict() == {"aten::mm": 2, "aten::add": 1}
    assert table["calls"].to_dict() == {"aten::mm": 1, "aten::add": 1}
    assert table["kernel_total_ns"].to_dict() == {"aten::mm": 100, "aten::add": 50}
    assert set(table["range"]) == {"capture"}


def test_a_graph_that_a_step_replays_twice_counts_twice(tmp_path):
    trace = TraceBuilder()
    trace.gpu()
    trace.range(1_000, 1_400, "aten::mm, op_id = 1, sizes = [[8, 8], [8, 8]]")
    create(trace, 1_100, 200)
    now, correlation = 5_000, 1
    for step in range(3):
        if step == 0:
            trace.range(now - 5, now + 3_500, "aten::step, op_id = 7, sizes = [[4]]")
        trace.launch(now, correlation, name="eager")
        for number in (1, 2):
            at = now + 1_000 * number
            trace.call(at, at + 10, correlation + number, "cudaGraphLaunch_v10000")
            trace.kernel(at + 100, at + 150, correlation + number, "k", node=200)
        trace.launch(now + 3_400, correlation + 3, name="last")
        now, correlation = now + 5_000, correlation + 4
    table = analyze_trace(trace.write(tmp_path / "t.sqlite")).operators.set_index("operator")
    assert table["calls"].to_dict() == {"aten::mm": 2, "aten::step": 1}
    assert table["kernel_count"].to_dict() == {"aten::mm": 2, "aten::step": 2}


def test_a_step_that_replays_one_graph_again_and_again_has_all_of_its_operators(tmp_path):
    """A token is one replay, and a step of the program's range generates five."""
    trace = TraceBuilder()
    trace.gpu()
    trace.range(1_000, 1_400, "aten::mm, op_id = 1, sizes = [[8, 8], [8, 8]]")
    create(trace, 1_100, 200)
    now, correlation = 5_000, 1
    for _ in range(6):
        trace.range(now - 5, now + 4_900, "generate")
        for _ in range(5):
            trace.call(now, now + 10, correlation, "cudaGraphLaunch_v10000")
            trace.kernel(now + 100, now + 150, correlation, "k", node=200)
            now, correlation = now + 900, correlation + 1
        now += 500
    analysis = analyze_trace(trace.write(tmp_path / "t.sqlite"))
    (row,) = analysis.operators.to_dict("records")
    assert analysis.step_times.per == "generate"
    assert (row["calls"], row["kernel_count"], row["kernel_total_ns"]) == (5, 5, 250)


def test_kernels_of_a_warm_up_do_not_make_a_recorded_step_unusual(tmp_path):
    """What a compiler measures before the steps is no part of them."""
    usual = ["a", "b", "c"]
    analysis = built(tmp_path, [["tried"] * 10, *[usual] * 8], marked=1, named=True)
    assert analysis.step_work.covered_pct == 100


@pytest.mark.parametrize("each_step", [True, False])
def test_a_graph_beside_one_eager_operator_has_its_operators(tmp_path, each_step):
    """The eager operator has tensors in one step only, and runs in each step or in that one alone."""
    trace = TraceBuilder()
    trace.gpu()
    trace.range(1_000, 1_400, "aten::mm, op_id = 1, sizes = [[8, 8], [8, 8]]")
    create(trace, 1_100, 200)
    now, correlation = 5_000, 1
    for step in range(4):
        if step == 1:
            trace.range(now - 5, now + 300, "aten::fill_, op_id = 7, sizes = [[4]]")
        if each_step or step == 1:
            trace.launch(now, correlation, name="fill")
        trace.call(now + 1_000, now + 1_010, correlation + 1, "cudaGraphLaunch_v10000")
        trace.kernel(now + 1_100, now + 1_150, correlation + 1, "k", node=200)
        now, correlation = now + 5_000, correlation + 2
    table = analyze_trace(trace.write(tmp_path / "t.sqlite")).operators.set_index("operator")
    assert table.loc["aten::mm", ["calls", "kernel_count", "kernel_total_ns"]].tolist() == [1, 1, 50]
    assert ("aten::fill_" in table.index) == each_step


def test_a_recorded_step_that_is_unlike_the_others_is_not_taken_for_a_usual_one(tmp_path):
    usual = ["a", "b", "c"]
    analysis = built(tmp_path, [usual, ["fill"], usual, usual, usual], marked=1)
    assert analysis.operators["operator"].tolist() == ["aten::fill"]
    assert analysis.step_work.covered_pct == pytest.approx(100 / 13)
    assert (analysis.step_work.step_flops, analysis.step_work.mfu_pct) == (None, None)
    assert "7.7 % of the kernels' time" in analysis.step_work.unknown_because
    (overview,) = [section for section in overview_sections(analysis) if section.title == "Overview"]
    said = [text for text in overview.parts[0].texts if text.startswith("Operators:")]
    assert len(said) == 1 and said[0].endswith("so it is not taken for a usual step.")
    (tmp_path / "other").mkdir()
    usually = built(tmp_path / "other", [usual, usual, usual, usual], marked=1)
    assert usually.step_work.covered_pct == 100


def test_steps_whose_kernels_follow_the_size_have_their_operators(tmp_path):
    """As in a decode whose cache grows: the template of the softmax has a number for its length."""
    softmax = "softmax_warp_forward<float, float, float, (int){}, (bool)0>"
    orders = [["a", softmax.format(5 + step // 3), "c"] for step in range(9)]
    assert built(tmp_path, orders, marked=1).step_work.covered_pct == 100
    (tmp_path / "other").mkdir()
    orders = [["a", "b" if step < 3 else "d", "c"] for step in range(9)]
    assert built(tmp_path / "other", orders, marked=1).step_work.covered_pct < 50
