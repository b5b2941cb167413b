"""Attention by range: the backend that ran is told by its kernels."""

import pandas as pd
import pytest

from nsysprof.analysis.findings import attention_calls, unfused_attention
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.analysis.ranges import open_range
from nsysprof.results.column_registry.analysis_columns import ATTENTION
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import US, Program


def attention_of(path):
    with open_trace(path) as trace:
        return summarize(read_tables(trace)).attention


def test_backend_pass_and_calls_of_each_range(tmp_path):
    program = Program()
    begin = program.now
    for _ in range(3):
        program.launch(10 * US, "pytorch_flash::flash_fwd_kernel<bfloat16>")
        program.launch(1 * US, "pytorch_flash::flash_fwd_splitkv_combine_kernel<bfloat16>")
    program.builder.range(begin, program.now, "forward")
    begin = program.now
    program.launch(20 * US, "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_kernel")
    program.launch(1 * US, "cudnn::fusion::compute_dot_do_o_sdpa")
    for name in ("gemm_qk", "softmax_warp_forward", "gemm_pv"):
        program.launch(10 * US, name)
    program.builder.range(begin, program.now, "backward")
    table = attention_of(program.builder.write(tmp_path / "t.sqlite"))
    assert tuple(table.columns) == ATTENTION.names
    rows = {(row["range"], row["backend_ran"], row["pass"]): row for row in table.to_dict("records")}
    flash, cudnn, math = (
        rows["forward", "flash", "fwd"], rows["backward", "cudnn", "bwd"], rows["backward", "math", "fwd"]
    )  # fmt: skip
    assert (flash["calls"], flash["kernel_count"], flash["kernel_total_ns"]) == (3, 6, 33 * US)
    assert flash["dtype"] == "bf16"
    assert (cudnn["calls"], cudnn["kernel_count"]) == (1, 2)
    assert (math["calls"], math["kernel_count"], math["kernel_total_ns"]) == (1, 3, 30 * US)
    assert table["batch"].isna().all()
    assert table["share_pct"].sum() == pytest.approx(100)


def test_a_range_of_our_own_captures_says_its_shape(trace_path):
    table = attention_of(trace_path("sdpa"))
    row = table[(table["range"] == "RUN::flash::S4096") & (table["backend_ran"] == "flash")].iloc[0]
    assert (row["seq_q"], row["calls"], row["pass"]) == (4096, 10, "fwd")
    assert (table[table["range"] == "RUN::math::S1024"]["backend_ran"] == "math").all()


def test_however_few_kernels_are_looked_at_at_a_time_and_whatever_streams_they_have(tmp_path, monkeypatch):
    program = Program()
    for number in range(9):
        begin = program.now
        for name in ("gemm_qk", "mul_elementwise", "softmax_warp_backward", "softmax_warp_forward", "gemm_pv", "fmha"):
            for stream in (7, 9):
                program.launch(10 * US, name, stream=stream)
        program.builder.range(begin, program.now, f"layer {'abc'[number % 3]}")
    path = program.builder.write(tmp_path / "t.sqlite")
    table = attention_of(path)
    math = table[table["backend_ran"] == "math"]
    assert (math["kernel_count"] == 3 * 2 * 5).all()
    assert (math["calls"] == 3 * 2).all()
    for module in (attention_calls, open_range, unfused_attention):
        monkeypatch.setattr(module, "_BLOCK", 3)
    pd.testing.assert_frame_equal(attention_of(path), table)


def test_without_attention_the_table_is_empty(tmp_path):
    program = Program()
    program.launch(10 * US)
    assert len(attention_of(program.builder.write(tmp_path / "t.sqlite"))) == 0
