"""What a trace suggests to try."""

from dataclasses import replace

import pytest

from nsysprof.analysis.attention_tuning.program_attention import ProgramFacts, list_suggestions, wants_sdpa
from nsysprof.attention.shape import Shape
from nsysprof.results.program_runs import AttentionUse, PredictedGain

GAIN = PredictedGain(30.0, 25.0, 33.0, "step", "the finding unfused-attention")


def facts(*codes, libraries=(), fp32=0.0):
    return ProgramFacts((), 10.0, fp32, dict.fromkeys(codes, GAIN), frozenset(libraries))


def test_only_transformers_can_be_given_its_sdpa():
    own = facts("unfused-attention", libraries=["transformers"])
    assert wants_sdpa(own)
    assert list_suggestions(own) == ()
    assert not wants_sdpa(facts("unfused-attention"))
    assert not wants_sdpa(facts(libraries=["transformers"]))


def test_attention_by_hand_elsewhere_is_a_suggestion_with_the_predicted_gain():
    by_hand, optimizer = list_suggestions(facts("unfused-attention", "unfused-optimizer"))
    assert "A replay predicts 30.0 % [25.0, 33.0] of a step." in by_hand.text
    assert "fused=True" in optimizer.text
    assert (by_hand.code, optimizer.code) == ("unfused-attention", "unfused-optimizer")


@pytest.mark.parametrize(
    ("mask", "advice"), [("learned:1hqk", "needs a gradient"), ("float:1hqk", "`nsysprof explain`")]
)
def test_a_program_that_calls_torch_is_not_told_to_call_it(mask, advice):
    use = AttentionUse("swin.py:32", Shape(seq=49, mask=mask), 60, "math", 180, 40.0)
    (suggestion,) = list_suggestions(replace(facts("unfused-attention"), uses=(use,)))
    assert advice in suggestion.text
    assert "at swin.py:32" in suggestion.text
    assert "by hand" not in suggestion.text


def test_a_learned_mask_is_told_without_a_finding_where_it_matters():
    use = AttentionUse("swin.py:32", Shape(seq=49, mask="learned:1hqk"), 60, "math", 180, 5.0)
    assert len(list_suggestions(replace(facts(), uses=(use,)))) == 1
    for other in (
        replace(use, share_pct=4.9),
        replace(use, backend_ran="efficient"),
        replace(use, shape=Shape(seq=49)),
    ):
        assert list_suggestions(replace(facts(), uses=(other,))) == ()


def test_a_mask_that_lies_otherwise_in_memory_is_told_where_torch_runs_math():
    use = AttentionUse("swin.py:32", Shape(seq=49, mask="learned:1hqk"), 60, "math", 180, 40.0)
    program = replace(facts(), uses=(use,), strided_masks=frozenset({"swin.py:32"}))
    (suggestion,) = list_suggestions(program)
    assert "attn_mask.contiguous()" in suggestion.text
    for other in (replace(use, site="vit.py:1", shape=Shape(seq=49)), replace(use, backend_ran="efficient")):
        assert list_suggestions(replace(program, uses=(other,))) == ()
