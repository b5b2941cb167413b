"""The search for the nearest call that passes, against checks like torch's: the first failure alone is named."""

import pytest

from nsysprof.attention.eligibility import (
    AttentionCall,
    CallVerdict,
    changes,
    explain_refusal,
    neighbours,
    parse_refusal,
)

ASKED = []


def refusal(text, call):
    return CallVerdict(False, tuple(parse_refusal([text], call)))


def flash(call):
    ASKED.append(call)
    if call.mask != "none":
        return refusal("Flash Attention does not support non-null attn_mask.", call)
    if call.head_dim > 256:
        text = f"to be less than or equal to 256. Got Query.size(-1): {call.head_dim}, Key"
        return refusal(text, call)
    if call.causal and call.seq != call.kv_seq:
        return refusal(f"Got seqlen_q: {call.seq} seqlen_k: {call.kv_seq}.", call)
    if call.dtype == "fp32":
        return refusal("all be of dtype: {Half, BFloat16}. Got Query dtype: float, Key dtype: float", call)
    return CallVerdict(True)


def aligned(call):
    return CallVerdict(True) if call.head_dim % 8 == 0 else refusal("head_dim should be a multiple of 8", call)


def ways(explanation, call):
    return [{name: each["to"] for name, each in changes(call, n).items()} for n in explanation.nearest]


def call(**fields):
    return AttentionCall(**{"seq": 16, "kv_seq": 16, **fields})


def test_the_head_dimension_of_8192_goes_to_256():
    asked = call(head_dim=8192)
    explanation = explain_refusal(asked, flash)
    assert [(c.property, c.value, c.bound) for c in explanation.constraints] == [("head_dim", 8192, 256)]
    assert ways(explanation, asked) == [{"head_dim": 256}]


@pytest.mark.parametrize("head_dim", [257, 300, 4096, 33000, 1_000_000])
def test_the_nearest_is_the_bound_however_far(head_dim):
    asked = call(head_dim=head_dim)
    assert ways(explain_refusal(asked, flash), asked) == [{"head_dim": 256}]


def test_alignment_goes_to_the_closer_side():
    assert ways(explain_refusal(call(head_dim=65), aligned), call(head_dim=65)) == [{"head_dim": 64}]
    assert ways(explain_refusal(call(head_dim=71), aligned), call(head_dim=71)) == [{"head_dim": 72}]


def test_each_constraint_that_torch_hides_behind_the_first_is_found():
    asked = call(head_dim=8192, dtype="fp32", kv_seq=32, mask="none")
    explanation = explain_refusal(asked, flash)
    assert [c.property for c in explanation.constraints] == ["head_dim", "kv_seq", "dtype"]
    assert ways(explanation, asked) == [{"head_dim": 256, "kv_seq": 16, "dtype": "fp16"}]
    assert explanation.constraints[2].text.startswith("all be of dtype"), "torch's words"


def test_every_single_change_that_suffices_is_offered():
    asked = call(kv_seq=32)
    assert ways(explain_refusal(asked, flash), asked) == [{"kv_seq": 16}, {"causal": False}]
    asked = call(dtype="fp32")
    assert ways(explain_refusal(asked, flash), asked) == [{"dtype": "fp16"}, {"dtype": "bf16"}]


def test_what_is_offered_was_asked_for():
    ASKED.clear()
    explanation = explain_refusal(call(mask="bool", causal=False), flash)
    assert explanation.nearest
    assert set(explanation.nearest) <= set(ASKED)


def test_a_refusal_that_no_change_of_the_call_helps():
    def never(each):
        return refusal("Torch was not compiled with flash attention.", each)

    explanation = explain_refusal(call(), never)
    assert explanation.constraints[0].property == "built"
    assert explanation.nearest == ()


def test_an_unknown_text_tries_every_property():
    def odd(each):
        return CallVerdict(True) if each.batch % 2 == 0 else refusal("The batch is odd.", each)

    asked = call(batch=3)
    explanation = explain_refusal(asked, odd)
    assert explanation.constraints[0].property is None
    assert ways(explanation, asked) == [{"batch": 2}]


def test_neighbours_stay_calls_that_torch_takes():
    grouped = call(heads=8, kv_heads=2)
    assert all(each.heads % each.kv_heads == 0 for each in neighbours(grouped, "kv_heads", []))
    same = next(neighbours(call(), "heads", []))
    assert (same.heads, same.kv_heads) == (7, 7)
    assert not list(neighbours(call(mask="bool", causal=False), "causal", [])), "torch takes no mask with is_causal"
    assert [each.mask for each in neighbours(call(), "mask", [])] == []
