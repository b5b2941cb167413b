"""What is tuned of a program: by its time, with reasons for what is not."""

import pytest

from nsysprof.analysis.attention_tuning.choose_shapes import MOST_SHAPES, choose_shapes
from nsysprof.results.program_runs import CapturedUse

ROW = {
    "range": "m.py:3", "function": "sdpa", "batch": 2, "heads": 8, "kv_heads": 2, "seq_q": 128, "seq_kv": 256,
    "head_dim": 64, "dtype": "bf16", "causal": False, "mask": "bool:b11k", "dropout": 0.0, "layout": "bshd",
    "pass": "fwd", "calls": 10, "kernel_total_ns": 1000, "share_pct": 10.0,
}  # fmt: skip


def use(**changes):
    return CapturedUse({**ROW, **changes})


def test_forward_and_backward_are_one_shape_and_the_dearest_comes_first():
    chosen = choose_shapes([use(), use(**{"pass": "bwd"}, kernel_total_ns=2000), use(seq_q=64, kernel_total_ns=9000)])
    first, second = chosen.chosen
    assert (first.shape.seq, first.shape.pass_, first.calls, first.kernel_total_ns) == (64, "fwd", 10, 9000)
    assert (second.shape.seq, second.shape.kv_seq, second.shape.mask, second.shape.layout) == (
        128,
        256,
        "bool:b11k",
        "bshd",
    )
    assert (second.shape.pass_, second.kernel_total_ns, second.weight) == ("fwdbwd", 3000, 0.25)


def test_layouts_of_one_call_are_one_shape():
    (one,) = choose_shapes([use(), use(layout="bhsd", calls=3)]).chosen
    assert (one.shape.layout, one.calls, one.kernel_total_ns) == ("bshd", 13, 2000)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"dropout": 0.1}, "dropout"),
        ({"mask": "nested", "seq_q": None}, "of the kind nested"),
        ({"function": "flash_attn_func"}, "flash_attn_func is called"),
        ({"dtype": "float64"}, "float64"),
        ({"seq_kv": None}, "unknown"),
        ({"kv_heads": 3}, "torch does not support them"),
        ({"seq_q": 0}, "torch does not support them"),
        ({"mask_stride": 4}, "no fused backend takes such a mask on a GPU: give attn_mask.contiguous()"),
    ],
)
def test_what_cannot_be_tuned_has_a_reason(changes, why):
    chosen = choose_shapes([use(**changes)])
    assert chosen.chosen == ()
    (refused,) = chosen.refused
    assert why in refused.reason
    assert refused.calls == 10


def test_a_refused_call_counts_once_with_its_backward_pass():
    (refused,) = choose_shapes([use(mask_stride=4), use(mask_stride=4, **{"pass": "bwd"}, calls=8)]).refused
    assert refused.calls == 10


def test_keys_of_a_mask_that_lie_side_by_side_are_tuned():
    assert [each.calls for each in choose_shapes([use(mask_stride=1), use(mask_stride=None)]).chosen] == [20]


def test_without_kernels_operations_are_the_weight():
    small, large = use(kernel_total_ns=None, calls=1), use(kernel_total_ns=None, seq_q=128, seq_kv=2560, calls=1)
    assert [round(each.weight, 3) for each in choose_shapes([small, large]).chosen] == [0.909, 0.091]


def test_a_cache_that_grows_is_tuned_by_the_ends_of_groups():
    uses = [use(seq_q=1, seq_kv=100 + step, mask="none") for step in range(150)]
    chosen = choose_shapes(uses).chosen
    assert sorted(each.shape.kv_seq for each in chosen) == [100, 199, 200, 249]
    long = next(each for each in chosen if each.shape.kv_seq == 199)
    assert [shape.kv_seq for shape in long.between] == list(range(100, 199))
    assert sum(each.calls for each in chosen) == 1500


def test_shapes_that_change_for_ever_are_refused_beyond_a_number():
    uses = [use(batch=number, calls=1) for number in range(1, 60)]
    chosen = choose_shapes(uses)
    assert len(chosen.chosen) == MOST_SHAPES
    (refused,) = chosen.refused
    assert refused.calls == 59 - MOST_SHAPES
    assert "pad lengths" in refused.reason
