"""`tune --from` reads an analysis or a capture, plans its shapes, and refuses with a reason what cannot be tuned."""

import json

import pandas as pd
import pytest

from nsysprof.app.inputs.attention_requests import TuneRequest
from nsysprof.app.tune import plan_tuning, read_program_shapes, tune
from nsysprof.attention.policy_file import read_policy
from nsysprof.errors import TraceError, UsageError
from nsysprof.results.column_registry.analysis_columns import ATTENTION
from tests.analysis.attention_tuning.test_choose_shapes import ROW
from tests.analysis.programs import US, Program

pytestmark = pytest.mark.torch
CALL = "attention::fwd::sdpa::B=1::H=4::KV=4::Q=16::K=32::D=8::dtype=fp32::causal=0::mask=none::layout=bshd::at=m.py:3"


@pytest.fixture
def analysis(tmp_path):
    def write(*rows, gpu="GPU"):
        table = pd.DataFrame([{**ROW, **row} for row in rows], columns=list(ATTENTION.names))
        table.to_csv(tmp_path / "attention.csv", index=False)
        (tmp_path / "summary.json").write_text(json.dumps({"devices": [{"name": gpu}] if gpu else []}))
        return tmp_path

    return write


def test_the_plan_has_the_shapes_of_the_program_with_torchs_own_choice(analysis):
    folder = analysis({"dtype": "fp32", "backend_ran": "flash"}, gpu=None)
    plan = plan_tuning(TuneRequest(source=folder, device="cpu"))
    assert [case.backend for case in plan.cases] == ["auto", "math", "flash"]
    (shape,) = {case.shape for case in plan.cases}
    assert (shape.kv_seq, shape.mask, shape.layout, shape.kv_heads) == (256, "bool:b11k", "bshd", 2)


def test_a_trace_alone_is_enough(tmp_path):
    program = Program()
    begin = program.now
    program.launch(10 * US, "pytorch_flash::flash_fwd_kernel<x>")
    program.builder.range(begin, program.now, CALL)
    (use,) = read_program_shapes(program.builder.write(tmp_path / "t.sqlite"), "cpu").chosen.chosen
    assert (use.shape.kv_seq, use.kernel_total_ns, use.weight) == (32, 10 * US, 1.0)


@pytest.mark.parametrize(
    ("rows", "gpu", "says"),
    [
        ([], None, "contains no attention"),
        ([{"function": None}], None, "so their shapes are unknown"),
        ([{"dropout": 0.5}], None, "10 calls: with dropout"),
        ([{"mask": "float:1hqk", "mask_stride": 4}], None, "10 calls: the keys of the mask do not lie side by side"),
        ([{}], "NVIDIA H200", "ran on NVIDIA H200"),
    ],
)
def test_what_cannot_be_tuned_is_refused(analysis, rows, gpu, says):
    with pytest.raises(UsageError, match=says):
        plan_tuning(TuneRequest(source=analysis(*rows, gpu=gpu), device="cpu"))


def test_a_shape_beyond_the_memory_is_left_to_torch_and_the_others_are_tuned(analysis):
    """The inputs of the larger shape take terabytes, so that torch's allocator refuses each of its cases."""
    plain = {"mask": "none", "dtype": "fp32", "backend_ran": None, "batch": 1}
    folder = analysis(
        {**plain, "seq_q": 16, "seq_kv": 16}, {**plain, "seq_q": 2**30, "seq_kv": 2**30, "calls": 7}, gpu=None
    )
    out = folder / "tuned"
    request = TuneRequest(
        source=folder, device="cpu", blocks=4, samples=2, warmup_seconds=0.01, flush=False, budget_s=60, out=out,
        figures=False,
    )  # fmt: skip
    result = tune(request)
    assert result.failure is None
    small = [row["backend"] for row in result.results.table.to_dict("records") if row["seq"] == 16 and row["samples"]]
    assert small == ["auto", "math", "flash"]
    (refused,) = result.program.refused
    assert refused.startswith("7 calls are left to torch: out of memory: ")
    assert refused in (out / "report.md").read_text().replace("\\", "")
    # The shape was measured, whether or not its fastest backend was told from the others.
    assert [rule.seq for rule in result.tuning.choices.rules] == [16]
    if result.tuning.policy is None:  # on a noisy machine nothing may be decided, and no policy is written
        assert any("undecided" in line for line in result.tuning.insights)
    else:
        assert [rule.seq for rule in read_policy(result.tuning.policy).rules] == [16]


def test_a_damaged_analysis_is_an_error(analysis):
    folder = analysis({})
    (folder / "summary.json").write_text("{")
    with pytest.raises(TraceError, match="Analyze the capture again|cannot be read"):
        plan_tuning(TuneRequest(source=folder, device="cpu"))
