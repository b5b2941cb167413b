"""A grid is the product of its lists, or the groups of its batches."""

import pytest

from nsysprof.app.inputs.grid import Grid
from nsysprof.attention.shape import Case
from nsysprof.errors import UsageError


def test_batches_are_a_case_for_each_group_and_backend():
    cases = Grid(backends=("math", "flash"), batch_specs=("2q2k_32q1s1k", "q1ks4k", "32q1s1k")).expand()
    plain = [
        {"batch": 2, "seq": 2048, "kv_seq": 2048, "causal": True},
        {"batch": 32, "seq": 1, "kv_seq": 1024, "causal": False},
        {"batch": 1, "seq": 1024, "kv_seq": 4096, "causal": False, "mask": "window:all:0"},
    ]
    assert cases == [Case(backend, **shape) for backend in ("math", "flash") for shape in plain]


def test_a_window_holds_for_every_group():
    cases = Grid(backends=("math",), batch_specs=("q64", "q1s4k"), window=(32, 0)).expand()
    assert [(case.mask, case.causal) for case in cases] == [("window:32:0", False), ("window:32:all", False)]


def test_the_plain_grid_is_as_it_was():
    assert Grid().expand() == [Case(name, seq=seq) for name in ("math", "flash") for seq in (1024, 2048, 4096)]
    both = Grid(backends=("math",), seqs=(8,), causals=(True, False)).expand()
    assert [case.causal for case in both] == [True, False]


@pytest.mark.parametrize("wrong", [{"masks": ("bool",)}, {"causals": (True,)}])
def test_batches_have_the_masks_of_serving(wrong):
    with pytest.raises(UsageError, match="exclude each other"):
        Grid(batch_specs=("q8",), **wrong).expand()


def test_shapes_of_served_models_are_options_of_the_grid():
    given = {"head_dim_v": 32, "softcap": 50.0, "sinks": True, "kv_dtype": "fp8", "page_size": 16}
    (case,) = Grid(backends=("naive",), seqs=(64,), **given).expand()
    assert {name: getattr(case, name) for name in given} == given
    assert case.served_words == ["DV=32", "cap=50", "sinks", "cache=fp8", "page=16"]
    assert Case("naive", seq=64).served_words == []


@pytest.mark.parametrize(
    ("wrong", "said", "next_step"),
    [
        ({"page_size": 48, "seqs": (1000,)}, "48 does not divide the 1,000 keys", "--page-size 40, or --kv-seq 1008"),
        ({"page_size": 16, "passes": ("bwd",)}, "a cache, which has no gradients", "--pass fwd"),
        ({"kv_dtype": "fp8", "passes": ("fwdbwd",)}, "--kv-dtype fp8 is for a cache", "leave --kv-dtype out"),
        ({"softcap": -1.0}, "-1 is not a bound", "such as 50"),
        ({"softcap": float("nan")}, "nan is not a bound", "such as 50"),
        ({"seqs": (10**12,)}, "more than any memory holds", "times smaller"),
        ({"softcap": 50.0, "backends": ("math", "flash")}, "math does not take --softcap", "--backends naive,flex"),
        ({"backends": ("hub:flash",)}, "hub:flash is not a kernel", "hub:OWNER/NAME"),
        ({"backends": ("flahs",)}, "Unknown backend 'flahs'. Did you mean 'flash'", "hub:OWNER/NAME"),
    ],
)
def test_what_cannot_be_measured_is_told_with_what_can(wrong, said, next_step):
    with pytest.raises(UsageError, match=said) as refused:
        Grid(**wrong).expand()
    assert next_step in refused.value.next_step
