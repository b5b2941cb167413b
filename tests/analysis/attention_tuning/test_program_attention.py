"""What a trace says for the optimization of its program."""

from types import SimpleNamespace

import pandas as pd
import pytest

from nsysprof.analysis.attention_tuning.program_attention import read_program
from nsysprof.attention.shape import Shape

ROW = {
    "range": "train.py:8", "batch": 2, "heads": 8, "kv_heads": 4, "seq_q": 64, "seq_kv": 64, "head_dim": 32,
    "dtype": "bf16", "causal": True, "mask": "none", "dropout": 0.0, "pass": "fwd", "calls": 10, "backend_ran": "flash",
    "kernel_count": 10, "kernel_total_ns": 100, "share_pct": 10.0, "function": "sdpa", "layout": "bhsd",
}  # fmt: skip


def analysis(*rows, kernels=(), codes=(), memory=None, per="step"):
    return SimpleNamespace(
        attention=pd.DataFrame(rows) if rows else None,
        kernels=pd.DataFrame(list(kernels), columns=["name", "share_pct"]),
        findings=SimpleNamespace(
            items=[
                SimpleNamespace(code=code, saving_ns=30, saving_low_ns=20, saving_high_ns=40, per=per) for code in codes
            ],
            per="step",
            steps=9,
            replayed_ns=200,
        ),
        allocator=None if memory is None else SimpleNamespace(findings=[SimpleNamespace(code=code) for code in memory]),
    )


def test_what_slow_steps_lose_predicts_nothing_of_a_usual_step():
    assert read_program(analysis(ROW, codes=["jit-in-loop"], per="mean step")).findings == {"jit-in-loop": None}
    assert read_program(analysis(ROW, codes=["jit-in-loop"])).findings["jit-in-loop"].pct == 15.0


def test_calls_of_a_training_count_with_their_backward_pass():
    backward = {**ROW, "pass": "bwd", "calls": 8, "kernel_total_ns": 200, "share_pct": 20.0}
    facts = read_program(analysis(ROW, backward))
    training, inference = facts.uses
    shape = {"seq": 64, "batch": 2, "heads": 8, "kv_heads": 4, "head_dim": 32, "dtype": "bf16", "causal": True}
    assert (training.shape, training.calls) == (Shape(**shape, pass_="fwdbwd"), 8)
    assert (inference.shape, inference.calls) == (Shape(**shape, pass_="fwd"), 2)
    assert training.share_pct + inference.share_pct == pytest.approx(30.0)
    assert facts.attention_share_pct == 30.0
    assert training.backend_ran == "flash"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"batch": None}, "the sizes are unknown"),
        ({"causal": None}, "the sizes are unknown"),
        ({"function": None}, "its sizes are unknown"),
        ({"layout": "spiral"}, "its sizes are unknown"),
        ({"dtype": "fp64", "mask": "bool:b11k"}, "the data type fp64 is not one of"),
        ({"heads": None, "mask": "float"}, "the sizes are unknown"),
        ({"mask": "nested"}, "a mask of the kind nested cannot be reproduced"),
        ({"dropout": 0.1}, "with dropout"),
        ({"function": "flex_attention"}, "flex_attention is called"),
    ],
)
def test_what_no_policy_can_have_has_no_shape_and_the_true_reason(change, why):
    (use,) = read_program(analysis({**ROW, **change})).uses
    assert use.shape is None
    assert use.not_tuned.startswith(why)


def test_a_mask_and_the_order_in_memory_are_of_the_shape():
    (use,) = read_program(analysis({**ROW, "mask": "bool:b11k", "layout": "bshd", "seq_kv": 128})).uses
    assert (use.shape.mask, use.shape.layout, use.shape.kv_seq, use.not_tuned) == ("bool:b11k", "bshd", 128, "")


def test_a_mask_whose_keys_lie_apart_has_a_shape_that_is_not_tuned():
    (use,) = read_program(analysis({**ROW, "mask": "float:1hqk", "mask_stride": 4})).uses
    assert use.shape.mask == "float:1hqk"
    assert use.not_tuned.startswith("the keys of the mask do not lie side by side in memory (its last stride is 4)")


def test_a_program_without_attention_or_a_gpu():
    assert read_program(analysis()).uses == ()
    assert read_program(analysis()).attention_share_pct is None
    (use,) = read_program(analysis({**ROW, "share_pct": None, "kernel_total_ns": None, "backend_ran": None})).uses
    assert (use.share_pct, use.kernel_total_ns, use.backend_ran) == (None, None, None)


def test_a_finding_says_what_its_remedy_should_save():
    found = read_program(analysis(codes=["sync", "unfused-attention", "sync"])).findings
    assert (found["sync"].pct, found["sync"].low_pct, found["sync"].high_pct, found["sync"].per) == (30, 20, 40, "step")
    assert found["unfused-attention"].pct == 15.0
