from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.attention.shape import Case
from nsysprof.capture.sampling.bench_run import BenchPlan, check_plan, order_blocks
from nsysprof.errors import UsageError
from nsysprof.files.plain_file import json_value

CASES = (Case("math", seq=128), Case("flash", seq=128, batch=4))


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 99), st.integers(0, 5))
def test_every_round_holds_every_cell_once(cells, rounds, seed, process):
    order = order_blocks(range(cells), rounds, seed, process)
    assert all(sorted(order[i : i + cells]) == list(range(cells)) for i in range(0, len(order), cells))
    assert order == order_blocks(range(cells), rounds, seed, process)


def test_orders_differ_by_round_process_and_seed():
    orders = [tuple(order_blocks(range(8), 1, seed, process)) for seed in range(5) for process in range(5)]
    assert len(set(orders)) > 20
    rounds = order_blocks(range(8), 4, 0, 0)
    assert len({tuple(rounds[i : i + 8]) for i in range(0, 32, 8)}) > 1


def test_every_cell_is_first_about_as_often():
    firsts = Counter(order_blocks(range(4), 1, seed, 0)[0] for seed in range(2000))
    assert all(abs(count - 500) < 100 for count in firsts.values())


def test_cells_left_out_are_not_there():
    assert set(order_blocks(range(4), 3, 0, 0, {1, 2})) == {0, 3}


def test_copies_are_cells_of_their_own():
    plan = BenchPlan(CASES, "cpu", copies=2)
    assert plan.cells == (CASES[0], CASES[0], CASES[1], CASES[1])
    assert plan.name_of(2) == "flash::S128::B=4::copy=0"
    assert BenchPlan(CASES, "cpu").name_of(1) == "flash::S128::B=4"


def test_a_plan_survives_json():
    plan = BenchPlan(CASES, "cpu", rounds=7, seed=3, flush=False)
    assert msgspec.convert({**json_value(plan), "of_a_later_version": 1}, BenchPlan) == plan


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"processes": 0}, "--processes 0"),
        ({"rounds": 0}, "--rounds 0"),
        ({"samples": 0}, "0 samples are too few"),
        ({"sample_seconds": 0}, "--sample-seconds 0"),
        ({"warmup_seconds": -1}, "--warmup-seconds -1"),
        ({"graph": "maybe"}, "Unknown graph 'maybe'"),
    ],
)
def test_numbers_that_make_no_sense(fields, says):
    with pytest.raises(UsageError, match=says):
        check_plan(BenchPlan(CASES, "cpu", **fields))
