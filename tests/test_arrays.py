import numpy as np
import pandas as pd
import pytest

from nsysprof import arrays
from nsysprof.arrays import different, find_places, find_rows, merge_spans, rows_by_code, rows_by_key
from nsysprof.native import load


def listed(groups):
    return [(key, rows.tolist()) for key, rows in groups]


def test_rows_by_key_in_the_order_of_keys_and_of_rows():
    assert listed(rows_by_key(pd.Series(["b", "a", "b", None]))) == [("a", [1]), ("b", [0, 2])]


def test_rows_may_be_some_of_a_table():
    keys = pd.Series([7, 3, 7], dtype="int64")
    assert listed(rows_by_key(keys, np.array([10, 20, 30]))) == [(3, [20]), (7, [10, 30])]


@pytest.mark.parametrize("block", [1, 7, 100])
def test_rows_by_code_in_the_order_of_codes_and_of_rows(block, monkeypatch):
    monkeypatch.setattr(arrays, "_BLOCK", block)
    code = np.random.default_rng(block).integers(0, 5, 60).astype(np.int16)
    rows = rows_by_code(code, 6)
    assert [of_code.tolist() for of_code in rows] == [np.flatnonzero(code == number).tolist() for number in range(6)]
    assert {of_code.dtype for of_code in rows} == {np.dtype(np.int32)}


def test_categories_without_rows_are_no_groups():
    keys = pd.Series(pd.Categorical(["b", "a"], categories=["a", "b", "c"]))
    assert listed(rows_by_key(keys)) == [("a", [1]), ("b", [0])]
    assert rows_by_key(keys.iloc[:0]) == []


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("wanted", [[], [2, 2, 9], [9, -1, 3, 3, 2]])
def test_places_are_those_of_searchsorted_in_any_order(side, wanted):
    values, needles = np.array([1, 2, 2, 3, 8]), np.array(wanted, dtype=np.int64)
    assert find_places(values, needles, side).tolist() == np.searchsorted(values, needles, side).tolist()


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 50])
def test_compiled_code_finds_the_same_places_and_rows(side, count, monkeypatch):
    random = np.random.default_rng(count)
    values, needles = np.sort(random.integers(0, 60, count)).astype(np.int32), random.integers(-2, 62, 300)
    needles[100:200].sort()
    chosen, code = random.random(60) < 0.5, values.astype(np.int16)
    wanted, rows = np.searchsorted(values, needles, side), np.flatnonzero(chosen[code])
    monkeypatch.setattr(load, "is_wanted", lambda _unit: True)
    assert find_places(values, needles, side).tolist() == wanted.tolist()
    assert find_rows(chosen, code).tolist() == rows.tolist()


@pytest.mark.parametrize("chosen", [[True, True, True], [False, True, False], [False, False, False]])
def test_rows_of_some_codes_are_those_of_flatnonzero(chosen):
    code = np.random.default_rng(1).integers(0, 3, (1 << 18) + 5).astype(np.int16)
    found = find_rows(np.array(chosen), code)
    assert found.dtype == np.int32
    assert np.array_equal(found, np.flatnonzero(np.array(chosen)[code]))


def test_different_values_in_order_and_of_the_same_type():
    found = different(np.array([3, 1, 3, -2, 1], dtype=np.int32))
    assert (found.tolist(), found.dtype) == ([-2, 1, 3], np.int32)
    assert different(np.zeros(0, dtype=np.int64)).tolist() == []


def test_spans_that_overlap_or_touch_become_one():
    assert merge_spans([(8, 9), (0, 5), (1, 2), (5, 7)]) == [(0, 7), (8, 9)]
    assert merge_spans([]) == []
