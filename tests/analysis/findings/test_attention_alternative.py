"""A measured alternative of a fused attention call is a finding, on the same GPU and for the same shape alone."""

import pytest

from nsysprof.analysis.findings.what_if import ask
from nsysprof.analysis.overview.summarize import summarize
from nsysprof.analysis.overview.trace_overview import attribute
from nsysprof.attention.policy_file import PolicyFile, PolicyRule
from nsysprof.errors import UsageError
from nsysprof.results.findings import WhatIfQuestion
from nsysprof.trace.open import open_trace
from nsysprof.trace.tables import read_tables
from tests.analysis.programs import MS, US, Program

TRAITS = "Flash_fwd_kernel_traits<(int)64, cutlass::{dtype}, Flash_kernel_traits<(int)64, cutlass::{dtype}>>"
FLASH = "pytorch_flash::flash_fwd_kernel<" + TRAITS.format(dtype="bfloat16_t") + ", (bool)0, (bool){causal}, (bool)0>"
CAUSAL = FLASH.format(causal=1)
SIZES = ", sizes = [[2, 16, 4096, 64], [2, 4, 4096, 64], [2, 4, 4096, 64], [], [], [], []]"


def training(kernel=CAUSAL, name="aten::scaled_dot_product_attention, seq = 7" + SIZES):
    """Return steps of 6 ms in which attention takes 1 ms twice."""
    program = Program()
    program.builder.gpu()
    for _ in range(6):
        begin = program.now
        program.launch(2 * MS)
        for _ in range(2):
            start = program.now
            program.launch(1 * MS, kernel)
            program.builder.range(start - 1, program.now + 1, name)
            program.launch(1 * MS)
        program.wait()
        program.step(begin)
    return program.builder


def rule(backend="cudnn", median_ns=600 * US, **shape):
    fields = dict(batch=2, heads=16, kv_heads=4, seq=4096, head_dim=64, dtype="bf16", causal=True) | shape
    return PolicyRule(backend, why="winner", median_ns=float(median_ns), **fields)


def found(folder, builder, *rules, gpu="NVIDIA H200"):
    policy = PolicyFile(tuple(rules), "cuda", gpu, None, None)
    path = folder / "t.sqlite"
    path.unlink(missing_ok=True)
    with open_trace(builder.write(path)) as trace:
        findings = summarize(read_tables(trace), policy=policy).findings
    return [item for item in findings.items if item.code == "attention-backend"]


def test_the_saving_is_the_difference_of_the_measurements(tmp_path):
    (item,) = found(tmp_path, training(), rule())
    assert item.saving_ns == pytest.approx(2 * 400 * US, rel=0.02)
    assert item.saving_low_ns <= item.saving_ns / 1.9
    assert item.count == 2
    assert "on flash in 2 calls" in item.text
    assert "cudnn was measured at 600 us" in item.text
    assert "CUDNN_ATTENTION" in item.next_step


@pytest.mark.parametrize(
    ("rules", "gpu"),
    [
        ([], "NVIDIA H200"),
        ([rule()], "NVIDIA H100"),
        ([rule()], None),
        ([rule(seq=2048)], "NVIDIA H200"),
        ([rule(causal=False)], "NVIDIA H200"),
        ([rule("flash", 500 * US)], "NVIDIA H200"),
        ([rule("auto", 500 * US)], "NVIDIA H200"),
        ([rule(median_ns=980 * US)], "NVIDIA H200"),
    ],
)
def test_nothing_is_said_without_a_measurement_that_applies(tmp_path, rules, gpu):
    assert found(tmp_path, training(), *rules, gpu=gpu) == []


def test_where_the_mask_is_unknown_both_must_be_measured_and_the_slower_counts(tmp_path):
    kernel = "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7"
    assert found(tmp_path, training(kernel), rule("flash")) == []
    (item,) = found(tmp_path, training(kernel), rule("flash"), rule("flash", 800 * US, causal=False))
    assert item.saving_ns == pytest.approx(2 * 200 * US, rel=0.03)


def test_without_sizes_nothing_is_said(tmp_path):
    assert found(tmp_path, training(name="attention"), rule()) == []


CALL = "B=2::H=16::KV=4::Q=4096::K=4096::D=64::dtype=bf16::causal=1::mask=none::at=train.py:7"
BACKWARD = "pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<" + TRAITS.format(dtype="bfloat16_t") + ">"


def recorded(call=CALL):
    """Return steps in which a recorded call of attention takes 1 ms forward and 2 ms backward."""
    program = Program()
    program.builder.gpu()
    for _ in range(6):
        begin = program.now
        program.launch(2 * MS)
        for which, kernel, duration in (("fwd", CAUSAL, 1 * MS), ("bwd", BACKWARD, 2 * MS)):
            start = program.now
            program.launch(duration, kernel)
            program.builder.range(start - 1, program.now + 1, f"attention::{which}::sdpa::{call}")
        program.wait()
        program.step(begin)
    return program.builder


def test_recorded_calls_take_with_their_backward_what_the_policy_measured(tmp_path):
    (item,) = found(tmp_path, recorded(), rule(median_ns=1_500 * US, pass_="fwdbwd"))
    assert item.saving_ns == pytest.approx(1_500 * US, rel=0.02)
    assert item.saving_low_ns == pytest.approx(750 * US, rel=0.05)
    assert item.count == 1
    assert "in calls of 3.00 ms" in item.text
    assert "cudnn was measured at 1.50 ms" in item.text
    # The forward pass alone is another call.
    assert found(tmp_path, recorded(), rule(median_ns=1_500 * US)) == []


@pytest.mark.parametrize(
    "other",
    [CALL.replace("mask=none", "mask=bool:b11k"), CALL.replace("::at", "::p=0.1::at"), CALL.replace("K=4", "K=8")],
)
def test_recorded_calls_of_another_kind_are_no_finding(tmp_path, other):
    assert found(tmp_path, recorded(other), rule(median_ns=1_500 * US, pass_="fwdbwd")) == []


def test_what_if_takes_the_measured_time_of_a_policy(tmp_path):
    policy = PolicyFile((rule(median_ns=1_500 * US, pass_="fwdbwd"),), "cuda", "NVIDIA H200", None, None)
    question = WhatIfQuestion("--policy policy.json", "attention-backend")
    with open_trace(recorded().write(tmp_path / "t.sqlite")) as trace:
        tables = read_tables(trace)
        ranges = attribute(tables).attributed.ranges
        answer = ask(tables, ranges, (question,), policy)
        assert answer.together.step_ns == pytest.approx(answer.replayed_ns - 1_500 * US, rel=0.01)
        with pytest.raises(UsageError, match="--policy policy.json would change nothing") as refused:
            ask(tables, ranges, (question,), None)
    assert "capture --attention" in refused.value.next_step
