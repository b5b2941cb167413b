"""Calls that `capture --attention` put into ranges are listed by line, shape and pass, with their kernels."""

import pandas as pd
import pytest

from nsysprof.analysis.overview.summarize import summarize
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import US, Program

SHAPE = "B=2::H=8::KV=2::Q=128::K=256::D=64::dtype=bf16::causal=1::mask=none::layout=bshd::at=model.py:7"
FWD, BWD = f"attention::fwd::sdpa::{SHAPE}", f"attention::bwd::sdpa::{SHAPE}"


def attention_of(path):
    with open_trace(path) as trace:
        return summarize(read_tables(trace)).attention


def in_range(program, name, *kernels):
    begin = program.now
    for kernel in kernels:
        program.launch(10 * US, kernel)
    program.builder.range(begin, program.now, name)


def test_each_line_shape_pass_and_backend_has_a_row(tmp_path):
    program = Program()
    for _ in range(3):
        in_range(program, FWD, "copy_kernel", "pytorch_flash::flash_fwd_kernel<x>")
        program.launch(10 * US, "elementwise_kernel")
        in_range(program, BWD, "pytorch_flash::flash_bwd_dot_do_o_kernel", "pytorch_flash::flash_bwd_kernel<x>")
    in_range(program, FWD, "gemm_qk", "softmax_warp_forward", "gemm_pv")
    in_range(program, "forward", "fmha_cutlassF_f16_aligned_64x64")
    in_range(program, "attention::fwd::sdpa::B=x", "pytorch_flash::flash_fwd_kernel<x>")
    table = attention_of(program.builder.write(tmp_path / "t.sqlite"))
    got = {(row["range"], row["pass"], row["backend_ran"]): row for row in table.to_dict("records")}
    fwd, bwd = got["model.py:7", "fwd", "flash"], got["model.py:7", "bwd", "flash"]
    math = got["model.py:7", "fwd", "math"]
    assert (fwd["calls"], fwd["kernel_count"], fwd["kernel_total_ns"]) == (3, 6, 60 * US)
    assert (bwd["calls"], bwd["kernel_count"]) == (3, 6)
    assert (math["calls"], math["kernel_count"]) == (1, 3)
    for row in (fwd, bwd, math):
        assert (row["batch"], row["heads"], row["kv_heads"], row["seq_q"], row["seq_kv"]) == (2, 8, 2, 128, 256)
        assert (row["causal"], row["mask"], row["layout"], row["function"]) == (True, "none", "bshd", "sdpa")
    assert got["forward", "fwd", "efficient"]["calls"] == 1
    assert pd.isna(got["forward", "fwd", "efficient"]["function"])
    assert got["attention::fwd::sdpa::B=x", "fwd", "flash"]["calls"] == 1
    assert table["kernel_count"].sum() == 6 + 6 + 3 + 1 + 1
    assert table["share_pct"].sum() == pytest.approx(100 * 170 / 200)


def test_a_whole_layer_counts_its_attention_alone(tmp_path):
    program = Program()
    name = "attention::fwd::_transformer_encoder_layer_fwd::B=2::H=8"
    in_range(program, name, "gemm_in", "fmha_cutlassF_f16_aligned_64x64", "gemm_out")
    (row,) = attention_of(program.builder.write(tmp_path / "t.sqlite")).to_dict("records")
    assert (row["backend_ran"], row["kernel_count"], row["heads"]) == ("efficient", 1, 8)
    assert pd.isna(row["seq_q"])


def test_ranges_without_any_gpu_work_have_no_figures_of_kernels(tmp_path):
    program = Program()
    program.builder.range(program.now, program.now + 10, FWD)
    (row,) = attention_of(program.builder.write(tmp_path / "t.sqlite")).to_dict("records")
    assert row["calls"] == 1
    assert all(pd.isna(row[name]) for name in ("backend_ran", "kernel_count", "kernel_total_ns", "share_pct"))
