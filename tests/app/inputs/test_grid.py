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
