"""Steps of inference are told apart by an engine's ranges, or by the attention that was recorded in them."""

import pytest

from nsysprof.analysis.steps.inference_phases import parse_batch
from nsysprof.app.analyze import analyze_trace
from nsysprof.report.pages.trace_tables import phase_table
from nsysprof.results.column_registry.analysis_columns import LEDGER
from tests.analysis.programs import US, Program


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("execute_context_0(0)_generation_8(8)", ("decode", 8, 8)),
        ("execute_context_2(512)_generation_0(0)", ("prefill", 2, 512)),
        ("execute_context_2(512)_generation_8(16)", ("mixed", 10, 528)),
        ("execute_7_context_3(sq128sk256)_generation_2(sq1sk300)", ("mixed", 5, None)),
        ("execute_context_0(0)_generation_0(0)", None),
        ("step[EXTEND bs=2 toks=14721]", ("prefill", 2, 14721)),
        ("step[DECODE bs=64]", ("decode", 64, 64)),
        ("step[MIXED bs=9 toks=600]", ("mixed", 9, 600)),
        ("step[IDLE bs=0]", None),
        ("[Executor] _forward_step 12: 2 ctx reqs, 512 ctx tokens, 8 gen reqs", ("mixed", 10, 520)),
        ("[Executor] _forward_step 12: 0 ctx reqs, 8 gen reqs", ("decode", 8, 8)),
        ("[Executor] _forward_step: 1 ctx reqs, 0 gen reqs", ("prefill", 1, None)),
        ("step 12", None),
        ("execute_context_" + "1" * 600, None),
    ],
)
def test_the_names_of_engines_are_read(name, batch):
    assert parse_batch(name) == batch


def step(program, name, kernels, *inner):
    begin = program.now
    for number in range(kernels):
        inside = program.now
        program.launch(10 * US, f"gemm_{number}")
        if inner:
            program.builder.range(inside, program.now, inner[number % len(inner)])
    program.wait()
    program.builder.range(begin, program.now, name)


def test_annotated_steps_are_summed_up_by_phase(tmp_path):
    program = Program()
    for _ in range(3):
        step(program, "execute_context_1(256)_generation_0(0)", 6)
        for _ in range(4):
            step(program, "execute_context_0(0)_generation_4(4)", 2)
    phases = analyze_trace(program.builder.write(tmp_path / "t.sqlite")).phases
    assert phases is not None
    columns = ["phase", "told_by", "steps", "sequences", "tokens", "kernel_count", "kernel_total_ns"]
    assert phases[columns].values.tolist() == [
        ["prefill", "annotation", 3, 1.0, 256.0, 6.0, 180 * US],
        ["decode", "annotation", 12, 4.0, 4.0, 2.0, 240 * US],
    ]
    assert phases["share_pct"].sum() == pytest.approx(100.0)
    assert (phases["interval_med_ns"] >= phases["host_med_ns"]).all()
    # Each step is of one phase, so that the time of its steps is split: 6 and 2 kernels of 10 us.
    assert phases["busy_gemm_ns"].tolist() == [60 * US, 20 * US]
    whole = phases[list(LEDGER)].sum(axis=1)
    assert whole.tolist() == pytest.approx(phases["interval_med_ns"].tolist(), rel=0.1)
    table = phase_table(phases)
    assert table.rows[1][-2].value == pytest.approx(100 * 20 * US / whole[1])


CALL = "attention::fwd::sdpa::B=1::H=4::KV=4::Q={}::K=32::D=8::dtype=fp16::causal=0::mask=none::layout=bhsd::at=m.py:3"


def test_steps_without_annotations_are_told_by_their_attention(tmp_path):
    program = Program()
    for number in range(12):
        step(program, "step", 4, CALL.format(64 if number % 4 == 0 else 1))
    phases = analyze_trace(program.builder.write(tmp_path / "t.sqlite")).phases
    assert phases is not None
    assert set(phases["told_by"]) == {"attention"}
    assert dict(zip(phases["phase"], phases["steps"], strict=True))["decode"] >= 6
    assert phases["tokens"].isna().all()


def test_a_training_has_no_phases(tmp_path):
    program = Program()
    for _ in range(6):
        step(program, "step", 4, CALL.format(64))
    assert analyze_trace(program.builder.write(tmp_path / "t.sqlite")).phases is None
