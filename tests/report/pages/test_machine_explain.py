"""What `explain` prints, of answers as an H200 gives them."""

from dataclasses import replace

from nsysprof.attention.eligibility import AttentionCall, EligibilityAnswer, Ran, parse_refusal
from nsysprof.report.formats.console import render_console
from nsysprof.report.pages.machine import describe_call, describe_constraint, explain_report

CALL = AttentionCall(seq=16, kv_seq=16, heads=1, kv_heads=1, head_dim=8192, causal=False)
REFUSAL = (
    "Flash attention requires q,k,v to have the same last dimension and to be less than or equal to 256. Got "
    "Query.size(-1): 8192, Key.size(-1): 8192, Value.size(-1): 8192 instead."
)
NEAREST = AttentionCall(seq=16, kv_seq=16, heads=1, kv_heads=1, head_dim=256, causal=False)
FACTS = {"device": "cuda", "torch_version": "2.13.0", "gpu_name": "NVIDIA H200"}
MATH = Ran(
    "ok",
    family="math",
    operator="aten::_scaled_dot_product_attention_math",
    kernels=({"name": "gemm[/red]", "count": 2, "total_ns": 3000}, {"name": "softmax", "count": 1, "total_ns": 500}),
    as_asked=False,
)


def render(*answers, width=200):
    return render_console(explain_report([(CALL, answers)], FACTS), width)


def test_a_refusal_shows_the_constraint_torchs_words_and_what_passes():
    text = render(
        EligibilityAnswer("flash", False, REFUSAL, tuple(parse_refusal([REFUSAL], CALL)), (NEAREST,), True, True)
    )
    (row,) = [line for line in text.splitlines() if line.strip().startswith("flash  ")]
    assert "head_dim 8192, must be at most 256" in row
    assert row.split()[1:4] == ["no", "yes", "yes"]
    assert f"flash: torch says: {REFUSAL}" in text
    assert "flash: passes with head_dim 256" in text
    assert "no GPU was used" not in text


def test_what_ran_instead_is_said():
    text = render(EligibilityAnswer("efficient", True, built=True, supported=True, ran=MATH))
    assert "efficient: asked for efficient, but what ran is math" in text
    assert "efficient: ran 2 x gemm[/red]" in text, "trace text is no markup"
    (row,) = [line for line in text.splitlines() if line.strip().startswith("efficient  ")]
    assert row.split()[-3:] == ["3", "3.500", "us"], "three kernels, their total time"


def test_auto_says_what_was_predicted_and_what_ran():
    text = render(EligibilityAnswer("auto", True, predicted="efficient", ran=MATH))
    assert "auto: predicted efficient, ran math" in text
    assert "auto: asked for efficient, but what ran is math" in text


def test_unknown_and_failed_are_not_no():
    text = render(
        EligibilityAnswer("cudnn", None, "torch 2.5 does not have can_use_cudnn_attention, which checks a call"),
        EligibilityAnswer("math", True, ran=Ran("out_of_memory", "CUDA out of memory.")),
        EligibilityAnswer("naive", True, ran=Ran("ok", "torch's profiler recorded no kernel")),
    )
    assert "cudnn: unknown: torch 2.5 does not have can_use_cudnn_attention, which checks a call" in text
    assert "math: out of memory: CUDA out of memory." in text
    assert "naive: ok: torch's profiler recorded no kernel" in text


def test_a_refusal_without_a_way_out():
    text = render(
        EligibilityAnswer(
            "flash", False, "x", tuple(parse_refusal(["Torch was not compiled with flash attention."], CALL))
        )
    )
    assert "flash: no change of the shape was found that passes" in text
    assert "built False, must be True" in text


def test_calls_and_constraints_in_words():
    assert describe_call(CALL) == "B=1 H=1 S=16 D=8192 fp16 full fwd"
    call = AttentionCall(seq=16, kv_seq=32, kv_heads=2, causal=False, mask="bool", dropout=0.5, dtype="fp32")
    assert describe_call(call) == "B=1 H=8 KV_H=2 S=16 KV_S=32 D=64 fp32 full mask=bool dropout=0.5 fwd"
    text = (
        "Expected query, key and value to all be of dtype: {Half, BFloat16}. Got Query dtype: float, Key dtype: float"
    )
    (found,) = parse_refusal([text], call)
    assert describe_constraint(found) == "dtype fp32, must be fp16 or bf16"
    assert [describe_constraint(replace(found, relation=each, bound=[1, 2])) for each in ("between", "outside")] == [
        "dtype fp32, must be between 1 and 2",
        "dtype fp32, must be outside (1, 2]",
    ]
    (unknown,) = parse_refusal(["Flash attention dislikes Tuesdays."], call)
    assert describe_constraint(unknown) == "Flash attention dislikes Tuesdays."
