"""Names of ranges of attention are read by a strict grammar, and the hook writes names that it reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.attention.range_name import AttentionRange, parse_attention_range
from nsysprof.workload.program_start.attention_calls.seen_call import Seen

FACTS = {
    "batch": 2, "heads": 32, "kv_heads": 8, "seq_q": 128, "seq_kv": 1024, "head_dim": 64, "head_dim_v": 64,
    "dtype": "bf16", "causal": True, "mask": "bool:b11k", "dropout": 0.1, "layout": "bshd,bhsd,bhsd+",
}  # fmt: skip


def test_what_the_hook_names_is_read_back():
    seen = Seen("sdpa", {**FACTS, "device": "cuda", "scale": None}, "a::b/model.py:77")
    expected = {**FACTS, "head_dim_v": None}
    assert parse_attention_range(seen.backward_name) == AttentionRange(
        "sdpa", "bwd", **expected, site="a::b/model.py:77"
    )


def test_unknown_facts_are_left_out():
    seen = Seen("flash_attn_varlen_func", {"batch": 3, "mask": "varlen"}, "")
    assert seen.forward_name == "attention::fwd::flash_attn_varlen_func::B=3::mask=varlen"
    assert parse_attention_range(seen.forward_name) == AttentionRange(
        "flash_attn_varlen_func", "fwd", batch=3, mask="varlen"
    )


def test_a_long_path_keeps_its_end():
    name = Seen("sdpa", FACTS, "x" * 600 + "/model.py:77").forward_name
    found = parse_attention_range(name)
    assert found is not None
    assert found.site.endswith("x/model.py:77")


@pytest.mark.parametrize(
    "name",
    [
        "attention", "attention::fwd", "attention::up::sdpa", "attention::fwd::sd pa", "attention::fwd::sdpa::B=-1",
        "attention::fwd::sdpa::B=1::B=2", "attention::fwd::sdpa::what=1", "attention::fwd::sdpa::p=2",
        "attention::fwd::sdpa::p=nan", "attention::fwd::sdpa::causal=yes", "attention::fwd::sdpa::mask=<b>",
        "attention::fwd::sdpa::D=9999999999999", "attention::fwd::sdpa::at=" + "x" * 600,
    ],
)  # fmt: skip
def test_other_texts_are_not_ours(name):
    assert parse_attention_range(name) is None


@given(st.text(alphabet="attention:fwd=BHp1.@/ <", max_size=60))
def test_no_text_breaks_the_parser(text):
    found = parse_attention_range("attention::" + text)
    assert found is None or found.function
