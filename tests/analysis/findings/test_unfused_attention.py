"""Attention in pieces is a softmax between two matrix products, and not a loss or a router that has one too."""

import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import US, Program

SOFTMAX = "void <unnamed>::softmax_warp_forward<float, float, float, (int)10, (bool)0, (bool)0>(T2 *, const T1 *, int)"
LOG_SOFTMAX = SOFTMAX.replace("(bool)0", "(bool)1", 1)


def codes_of(findings, *between):
    program = Program()
    for _ in range(8):
        begin = program.now
        for _ in range(4):
            program.launch(100 * US, "gemm_a")
            for name in between:
                program.launch(300 * US, name)
            program.launch(100 * US, "gemm_b")
        program.step(begin)
    return [item.code for item in findings(program.builder).items]


@pytest.mark.parametrize(
    "between",
    [
        (SOFTMAX,),
        (SOFTMAX.replace("(bool)0", "false"),),
        ("void vectorized_elementwise_kernel<MulFunctor<float>>(int)", SOFTMAX, "fused_dropout_kernel_vec<float>"),
        ("void gather_kernel<float>(int)", SOFTMAX),
        # Torch launches kernels in four pieces for tensors of 2**31 elements: S=8192 of traces/h200-roofline.
        (
            *["void add<float>(int)"] * 4,
            SOFTMAX,
            *[f"void vectorized_elementwise_kernel<{n // 4}>(int)" for n in range(19)],
        ),
    ],
)
def test_a_softmax_between_two_products_is_attention(findings, between):
    assert codes_of(findings, *between) == ["unfused-attention"]


@pytest.mark.parametrize(
    "between",
    [
        (LOG_SOFTMAX,),
        (LOG_SOFTMAX.replace("(bool)1", "true"),),
        (LOG_SOFTMAX.replace("forward", "backward"),),
        ("void cunn_SoftMaxForward<4, float, float, float, LogSoftMaxForwardEpilogue>(float)",),
        (SOFTMAX, "void nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(T1 *)"),
        (SOFTMAX, "void sbtopk::gatherTopK<float, unsigned int, 2, false>(T1)"),
        (SOFTMAX, "void radixSortKVInPlace<2, -1, 32, float, long>(T1)"),
    ],
)
def test_the_softmax_of_a_loss_or_a_router_is_no_attention(findings, between):
    assert "unfused-attention" not in codes_of(findings, *between)


def test_a_program_without_attention_is_not_accused_of_it(trace_path):
    # emit_nvtx: linear layers and a cross entropy between the forward and the backward products.
    with open_trace(trace_path("h200-forms/emit_nvtx")) as trace:
        analysis = summarize(read_tables(trace))
    assert analysis.findings is not None
    assert "unfused-attention" not in [item.code for item in analysis.findings.items]


def test_a_fill_between_softmax_and_product_is_not_in_the_way_but_a_copy_is(findings):
    def training(**other):
        program = Program()
        for _ in range(8):
            begin = program.now
            for _ in range(4):
                program.launch(100 * US, "gemm_a")
                program.launch(300 * US, SOFTMAX)
                program.launch(300 * US, "void vectorized_elementwise_kernel<MulFunctor<float>>(int)")
                beside(program, **other)
                program.launch(100 * US, "gemm_b")
            program.step(begin)
        return [item.code for item in findings(program.builder).items]

    def beside(program, *, fill):
        start = program.free[7] + 1 * US
        number = program._call("cudaMemsetAsync_v3020" if fill else "cudaMemcpyAsync_v3020", program.now + 2 * US)
        (program.builder.fill if fill else program.builder.copy)(start, start + 1 * US, number, 64)
        program.free[7] = start + 1 * US

    assert "unfused-attention" in training(fill=True)
    assert "unfused-attention" not in training(fill=False)
