import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.attribution import duration_statistics as statistics
from nsysprof.analysis.attribution.duration_statistics import OwnedDurations, summarize_durations
from nsysprof.native import load

ROWS = st.lists(st.tuples(st.integers(0, 5), st.one_of(st.integers(0, 50), st.integers(0, 2**40))), max_size=60)


@given(ROWS, st.sampled_from([1, 7, 1 << 20]), st.sampled_from([2, 1 << 23]))
def test_statistics_agree_with_pandas_whatever_the_portions(rows, block, at_once):
    group, duration = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "_BLOCK", block)
        patch.setattr(statistics, "_ROWS_AT_ONCE", at_once)
        table = summarize_durations(duration, group.astype(np.int16))
    grouped = pd.Series(duration).groupby(group)
    assert sorted(table.index) == sorted(set(group.tolist()))
    assert table["instances"].sum() == len(rows)
    for name, how in (
        ("total_ns", "sum"),
        ("avg_ns", "mean"),
        ("med_ns", "median"),
        ("min_ns", "min"),
        ("max_ns", "max"),
    ):
        assert table[name].to_dict() == pytest.approx(grouped.agg(how).to_dict(), rel=1e-12)
    assert table["stddev_ns"].to_dict() == pytest.approx(grouped.std().fillna(0).to_dict(), rel=1e-9, abs=1e-3)
    assert table["total_ns"].is_monotonic_decreasing


def test_equal_totals_keep_the_order_of_the_input():
    table = summarize_durations(np.array([5, 1, 5]), np.array([2, 0, 1]))
    assert table.index.tolist() == [2, 1, 0]


def test_durations_of_years_and_codes_beyond_the_rows():
    table = summarize_durations(np.array([2**61, 2**61, 3]), np.array([1, 0, 1]))
    assert table["max_ns"].to_dict() == {1: 2**61, 0: 2**61}
    table = summarize_durations(np.array([4, 2, 9]), np.array([2**40, 3, 2**40]))
    assert table["total_ns"].to_dict() == {2**40: 13, 3: 2}


def test_groups_and_durations_too_wide_for_one_integer_are_renumbered():
    table = summarize_durations(np.array([2**55, 1]), np.array([2**20, 3]))
    assert table["total_ns"].to_dict() == {2**20: 2**55, 3: 1}


@given(ROWS, st.sampled_from([np.uint32, np.int64]), st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_compiled_code_gives_the_same_table(rows, width, group_of):
    code, duration = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    duration, code, group_of = (duration % 2**32).astype(width), code.astype(np.int16), np.array(group_of)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "is_wanted", lambda _unit: True)
        table = summarize_durations(duration, code, group_of)
        patch.setattr(load, "is_wanted", lambda _unit: False)
        pd.testing.assert_frame_equal(table, summarize_durations(duration, code, group_of), check_exact=True)


@pytest.mark.parametrize("most", [40, 3000, 2**31, 2**45])
def test_the_middle_of_many_durations_is_found_by_counting_bits(most):
    random = np.random.default_rng(most)
    duration, code = random.integers(0, most, 9001), np.repeat(np.arange(4), [9001 - 6042, 40, 2, 6000])
    random.shuffle(code)
    if most < 2**32:
        duration = duration.astype(np.uint32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "is_wanted", lambda _unit: True)
        table = summarize_durations(duration, code)
        patch.setattr(load, "is_wanted", lambda _unit: False)
        pd.testing.assert_frame_equal(table, summarize_durations(duration, code), check_exact=True)


def test_compiled_code_refuses_arrays_that_do_not_fit_each_other():
    one, three = np.ones(1, dtype=np.int64), np.array([1, 1, 3])
    owned = OwnedDurations(one, one * 0, one * 4, None, three, three, np.arange(4), 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "is_wanted", lambda _unit: True)
        for wrong in (owned, replace(owned, high=one * 3, names=2), replace(owned, high=one * 3, code=-three)):
            with pytest.raises(ValueError, match="do not fit"):
                list(wrong.summarize())
        (table,) = replace(owned, high=one * 3).summarize()
        (some,) = replace(owned, high=one * 3, name_of=np.array([0, -1, 2, 3])).summarize()
        assert list(replace(owned, high=one * 3, name_of=np.full(4, -1)).summarize()) == []
    assert some[["name", "instances", "total_ns"]].to_numpy().tolist() == [[3, 1, 3]]
    assert table[["owner", "name", "instances", "total_ns"]].to_numpy().tolist() == [[1, 1, 2, 2], [1, 3, 1, 3]]


def test_deviations_are_those_of_exact_squares():
    """Squares of numbers that differ little cancel in floating point."""
    duration = np.array([2**40, 2**40 + 1, 2**40 + 1])
    assert summarize_durations(duration, np.zeros(3, np.int16))["stddev_ns"].tolist() == [math.sqrt(1 / 3)]


@pytest.mark.parametrize("longest", [9, 2**29, 2**31])
def test_the_width_of_the_keys_changes_nothing(longest: int) -> None:
    # With four groups, 29 bits of duration still fit in 32 bits, and 31 bits do not.
    random = np.random.default_rng(2)
    duration = random.integers(0, longest, 500).astype(np.uint32)
    duration[:2] = longest
    group = random.integers(0, 4, 500).astype(np.int16)
    table = summarize_durations(duration, group).sort_index()
    wanted = (
        pd.Series(duration.astype(np.int64)).groupby(group).agg(["count", "sum", "mean", "median", "min", "max", "std"])
    )
    np.testing.assert_allclose(table.to_numpy(dtype=float), wanted.to_numpy(dtype=float), rtol=1e-12)
    assert table["total_ns"].tolist() == wanted["sum"].tolist()
