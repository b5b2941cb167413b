"""Kernels get their operators in the recorded step and, by their order, in all others."""

import lzma

import pytest

from nsysprof.app.trace_analysis.analyze_trace import analyze_trace
from nsysprof.app.trace_analysis.assemble import assemble
from tests.builders.build_trace import TID, TraceBuilder
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


def test_ranges_of_the_recording_are_none_of_the_program(analyses):
    names = set(analyses["gpt"].ranges["range"])
    assert not [name for name in names if name.startswith(("aten::", "nsysprof "))]


def built(tmp_path, orders, marked=0):
    """Return the analysis of a program whose steps launch kernels in some orders, operators recorded in one step."""
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
