"""What fused attention saves: its bounds were measured, and every kernel that it does not need counts."""

import itertools
import json
import statistics
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nsysprof.analysis.findings.kernel_candidates import BACKWARD, FORWARD, LEAST_OF_FP32
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, US, Program

REPOSITORY = Path(__file__).parents[3]
# What an H200 moves and computes: 85 % of 4.8 TB/s, and 65 % of 989 TFLOP/s.
BYTES_PER_S, FLOPS_PER_S = 4.1e12, 650e12
SOFTMAX = "void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)0, (bool)0>(T2 *, const T1 *, int)"
BACKWARD_SOFTMAX = SOFTMAX.replace("forward", "backward")
COPY = "void at::native::elementwise_kernel<gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda>>(int)"
CAST = "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda, LoadWithCast<(int)1>>(int)"
SUM = "void at::native::reduce_kernel<(int)512, (int)1, at::native::ReduceOp<float, sum_functor<float>>>(T3)"
OTHER = "void at::native::vectorized_elementwise_kernel<MulFunctor<float>>(int)"


def measured() -> pd.DataFrame:
    """Return every measured shape of torch's choice whose products take long enough to tell, with both shares."""
    files = [REPOSITORY / "analysis/h200-tune" / each / "results.csv.xz" for each in ("wider", "grid")]
    files += sorted((REPOSITORY / "analysis/h200-optimize").glob("*/tuning.csv"))
    table = pd.concat([pd.read_csv(path).assign(study=path.parent.name) for path in files])
    half = table["dtype"].isin(["bf16", "fp16"])
    table = table[(table["backend"] == "auto") & (table["status"] == "ok") & half].copy()
    kv = table["kv_seq"].fillna(table["seq"])
    pairs = table["batch"] * table["heads"] * table["seq"] * kv
    operands = 2 * (pairs + table["batch"] * table["heads"] * (table["seq"] + kv) * table["head_dim"])
    table["product_ns"] = 1e9 * np.maximum(operands / BYTES_PER_S, 2 * pairs * table["head_dim"] / FLOPS_PER_S)
    table = table[(table["product_ns"] > 50_000) & (table["seq"] > 1)]
    shape = ["study", "seq", "batch", "heads", "head_dim", "causal", "kv_heads", "product_ns"]
    found = table.pivot_table(index=shape, columns="pass", values="median_ns").reset_index()
    found["forward"] = found["fwd"] / (2 * found["product_ns"])
    found["backward"] = (found["fwdbwd"] - found["fwd"]) / (4 * found["product_ns"])
    return found


def test_the_bounds_are_what_fused_kernels_took_for_every_measured_shape():
    table = measured()
    for share, name, least in ((FORWARD, "forward", 60), (BACKWARD, "backward", 24)):
        values = table[name].dropna()
        assert len(values) >= least
        assert share.least == pytest.approx(values.min(), rel=0.1)
        assert share.most == pytest.approx(values.max(), rel=0.1)
        assert share.least <= values.min()
        assert values.max() <= share.most
        causal = table[table["causal"]][name].dropna()
        assert causal.quantile(0.25) <= share.usual <= table[~table["causal"]][name].quantile(0.75)


def test_the_page_has_the_shares_that_the_code_has():
    page = (REPOSITORY / "docs/causes.md").read_text(encoding="utf-8")
    forward = f"take {FORWARD.usual} of the time of the products in a forward pass ({FORWARD.most} and {FORWARD.least})"
    assert f"{forward}, and {BACKWARD.usual} in a backward pass ({BACKWARD.most} and {BACKWARD.least})" in page
    assert f"a share of {LEAST_OF_FP32}" in page


def test_a_fused_kernel_took_no_smaller_share_of_products_in_fp32_than_the_bound():
    table = pd.read_csv(REPOSITORY / "analysis/h200-roofline/range_kernels.csv.xz")
    table["backend"] = table["range"].str.split("::").str[1]
    table["case"] = table["range"].str.split("::").str[2:].str.join("::")
    main = table[table["category"].isin(["softmax", "attention"])]
    calls = main.groupby("range")["instances"].min()
    table["each_ns"] = table["total_ns"] / table["range"].map(calls)
    gemms = table[(table["backend"] == "math") & (table["category"] == "gemm")].groupby("case")["each_ns"].sum()
    fused = table[table["backend"].isin(["flash", "efficient", "cudnn"])].groupby(["case", "backend"])["each_ns"].sum()
    best = fused.groupby("case").min()
    assert len(best) == 10
    assert (best / gemms).min() >= 0.8 * LEAST_OF_FP32
    assert (best / gemms).max() <= FORWARD.most


def found_in(findings, *, forward=(), backward=(), steps=8):
    program = Program()
    for _ in range(steps):
        begin = program.now
        for name, kernels in (("forward", forward), ("backward", backward)):
            program.host(1 * US)
            start = program.now
            for duration, kernel in kernels:
                program.launch(duration * US, kernel)
            program.builder.range(start, program.now, name)
        program.step(begin)
    return findings(program.builder).items[0]


def test_a_backward_pass_has_four_products_and_the_copies_and_sums_beside_them_are_not_needed(findings):
    backward = [
        (400, "gemm_output"), (50, OTHER), (30, COPY), (100, "gemm_dv"), (100, "gemm_dp"), (300, BACKWARD_SOFTMAX),
        (100, "gemm_dq"), (100, "gemm_dk"), (40, SUM), (40, SUM), (50, OTHER), (400, "gemm_qkv"),
    ]  # fmt: skip
    item = found_in(findings, backward=backward)
    assert item.code == "unfused-attention"
    gone = 300 + 30 + 2 * 40 + 4
    assert item.saving_ns == pytest.approx((gone + (1 - BACKWARD.usual) * 400) * US, rel=0.01)
    # The lower bound keeps them, because a program may need them elsewhere.
    assert item.saving_low_ns == pytest.approx((300 + 1 + (1 - BACKWARD.most) * 400) * US, rel=0.02)
    assert "the products 400 us, copies and sums beside them 110 us" in item.text
    assert "fused kernels should take about 280 us in all" in item.text


def test_a_forward_pass_is_one_kernel_and_a_conversion_stays(findings):
    forward = [
        (400, "gemm_qkv"), (50, OTHER), (60, CAST), (30, COPY), (30, COPY), (100, "gemm_qk"), (300, SOFTMAX),
        (100, "gemm_pv"), (20, "void cublasLt::splitKreduce_kernel<(int)32>(int)"), (30, COPY), (400, "gemm_output"),
    ]  # fmt: skip
    item = found_in(findings, forward=forward)
    gone = 300 + 3 * 30 + 6
    assert item.saving_ns == pytest.approx((gone + (1 - FORWARD.usual) * 220) * US, rel=0.01)
    assert "the products 220 us" in item.text


# The attention of Whisper in fp32, for an eager step on an H200 (us), whose sdpa saved 9.1 ms of 95.5 without TF32.
# With TF32, sdpa took 5 ms longer.
SGEMM, TF32 = "ampere_sgemm_128x64_tn", "cutlass_80_tensorop_s1688gemm_128x128_16x5_nn_align4"
WHISPER_SAVED_US, WHISPER_STEP_US = 9_100, 95_500


def whisper(product, faster=1.0):
    """Return the kernels of both passes, with products that are faster by so much."""
    first, second, last = (int(took / faster) for took in (3_972, 2_948, 3_187))
    forward = [(int(44_000 / faster), product), (first, product), (3_637, SOFTMAX), (second, product)]
    backward = [(last, product)] * 2 + [(7_274, BACKWARD_SOFTMAX)] + [(last, product)] * 2
    return {"forward": forward, "backward": [(700, COPY), *backward, (23_000, OTHER)]}


def test_fused_attention_in_fp32_saves_what_it_saved(findings):
    item = found_in(findings, **whisper(SGEMM))
    assert item.code == "unfused-attention"
    assert item.saving_ns / US == pytest.approx(WHISPER_SAVED_US, abs=0.05 * WHISPER_STEP_US)
    assert item.saving_low_ns < WHISPER_SAVED_US * US < item.saving_high_ns
    assert "they are far faster in 16 bit" in item.text


def test_fused_attention_in_fp32_saves_nothing_where_tf32_is_allowed(findings):
    program = Program()
    for _ in range(8):
        begin = program.now
        for duration, kernel in itertools.chain(*whisper(TF32, 4.5).values()):
            program.launch(duration * US, kernel)
        program.step(begin)
    assert "unfused-attention" not in [item.code for item in findings(program.builder).items]


def test_the_code_to_change_is_the_forward_pass(findings):
    forward = [(100, "gemm_qk"), (300, SOFTMAX), (100, "gemm_pv")]
    backward = [(100, "gemm_dv"), (100, "gemm_dp"), (300, BACKWARD_SOFTMAX), (100, "gemm_dq"), (100, "gemm_dk")]
    assert found_in(findings, forward=forward, backward=backward).range == "forward"
    assert found_in(findings, backward=backward).range == "backward"


def test_memory_that_is_allocated_for_the_softmax_goes_with_it_and_its_copy_may_be_faster(findings):
    program = Program()
    for number in range(8):
        begin = program.now
        program.copy(256 << 20, (10 if number == 0 else 25) * MS)
        program.launch(100 * US, "gemm_qk")
        program.call("cudaMalloc_v3020", 5 * MS)
        program.launch(9 * MS, SOFTMAX)
        program.launch(100 * US, "gemm_pv")
        program.wait()
        program.call("cudaFree_v3020", 2 * MS, waits=True)
        program.step(begin)
    found = {item.code: item for item in findings(program.builder).items}
    attention, allocations = found["unfused-attention"], found["alloc-in-loop"]
    assert 14 * MS < attention.saving_ns < 15 * MS
    assert 9 * MS < attention.saving_low_ns < 10 * MS
    # The copy took 10 ms before any memory was given back.
    assert attention.saving_high_ns > attention.saving_ns + 14 * MS
    assert allocations.saving_high_ns > 7 * MS + 14 * MS
    assert allocations.saving_low_ns < 4 * MS
    # Without the sizes of memory nobody knows whether attention is why the copy is slow; that allocations are is shown.
    assert 15 * MS < allocations.saving_ns < 23 * MS
    assert "of the memory given back" not in attention.text


@pytest.mark.parametrize("others", [0, 1, 3])
def test_a_copy_is_slowed_less_by_the_share_of_attention_in_the_memory_that_is_given_back(findings, others):
    """others: how many times the memory of attention something else allocates."""
    program, size = Program(), 1 << 30
    for number in range(8):
        begin = program.now
        program.copy(256 << 20, (10 if number == 0 else 30) * MS)
        for block in range(others):
            program.builder.allocate(program.now + 1 * US, 10 + block, size)
            program.call("cudaMalloc_v3020", 300 * US)
            program.launch(100 * US, "gemm_mlp")
        program.launch(100 * US, "gemm_qk")
        program.builder.allocate(program.now + 1 * US, 1, size)
        program.call("cudaMalloc_v3020", 300 * US)
        program.launch(9 * MS, SOFTMAX)
        program.launch(100 * US, "gemm_pv")
        program.wait()
        for block in (1, *range(10, 10 + others)):
            program.builder.free(program.now + 1 * US, block, size=size)
            program.call("cudaFree_v3020", 300 * US, waits=True)
        program.step(begin)
    found = {item.code: item for item in findings(program.builder).items}
    attention, share = found["unfused-attention"], 1 / (1 + others)
    assert attention.saving_ns == pytest.approx(9.4 * MS + share * 20 * MS, abs=0.8 * MS)
    # What other kernels found in its memory may have to be allocated then.
    assert attention.saving_low_ns < 9.4 * MS
    assert attention.saving_high_ns > 29 * MS
    assert f"It allocates {100 * share:.0f} % of the memory given back." in attention.text
    for code in ("pageable-copy", "alloc-in-loop"):
        assert found[code].saving_ns > 18 * MS
        assert "unfused-attention" in found[code].text


def test_the_gain_of_a_training_that_the_host_holds_up_is_within_the_interval(trace_path):
    """The true gain is that of the steps without a profiler, of processes that measured both."""
    times = json.loads((REPOSITORY / "traces/h200-faults/step_times.json").read_text(encoding="utf-8"))["train_llama"]
    steps = {name: statistics.median(itertools.chain(*times[name])) * MS for name in ("unfused-attention", "none")}
    with open_trace(trace_path("h200-faults/unfused-attention")) as trace:
        found = summarize(read_tables(trace)).findings
    item = next(each for each in found.items if each.code == "unfused-attention")
    gain = steps["unfused-attention"] - steps["none"]
    assert item.saving_low_ns <= gain <= item.saving_high_ns + 0.01 * steps["unfused-attention"]
    assert item.saving_ns == pytest.approx(gain, abs=0.1 * steps["unfused-attention"])
