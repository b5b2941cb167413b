import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.attribution import intervals
from nsysprof.analysis.attribution.intervals import overlapping, union_ns

INTERVALS = st.lists(st.tuples(st.integers(0, 3), st.integers(-50, 50), st.integers(0, 30)), max_size=40)


def brute_force(rows, group):
    covered = {tick for g, start, length in rows if g == group for tick in range(start, start + length)}
    return len(covered)


@given(INTERVALS)
def test_union_agrees_with_counting_every_nanosecond(rows):
    group, start, length = (
        np.array(column, dtype=np.int64) for column in (zip(*rows, strict=True) if rows else ([],) * 3)
    )
    total = union_ns(start, length, group)
    assert list(total) == [brute_force(rows, g) for g in range(len(total))]


@given(INTERVALS.filter(len), st.sampled_from([1, 3, 1 << 20]))
def test_intervals_overlap_where_another_runs_at_the_same_time(rows, block):
    start, length = (np.array(column, dtype=np.int64) for column in list(zip(*sorted(rows), strict=True))[1:])
    order = np.argsort(start, kind="stable")
    start, length = start[order], length[order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "_BLOCK", block)
        overlaps = overlapping(start, length)
    ticks = [set(range(at, at + took)) for at, took in zip(start.tolist(), length.tolist(), strict=True)]
    for row, mine in enumerate(ticks):
        if any(mine & other for number, other in enumerate(ticks) if number != row):
            assert overlaps[row]
    alone = [tick for row, mine in enumerate(ticks) if not overlaps[row] for tick in mine]
    assert len(set(alone)) == len(alone)


@given(INTERVALS.filter(len), st.integers(0, 3), st.sampled_from([1, 3, 1 << 20]))
def test_work_in_order_with_a_few_pieces_after_it_needs_no_sort(rows, late, block):
    start, length = (np.array(column, dtype=np.int64) for column in list(zip(*rows, strict=True))[1:])
    begin = max(0, len(start) - late)
    start[:begin].sort()  # whatever the durations
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "_BLOCK", block)
        patch.setattr(intervals, "_DISORDER", 1)
        found = intervals._union_in_order(start, length)
    every = [(0, int(at), int(took)) for at, took in zip(start, length, strict=True)]
    assert found == brute_force(every, 0)


def test_groups_too_far_apart_to_shift_are_still_right():
    far = 2**61
    start = np.array([0, far, 5, far], dtype=np.int64)
    length = np.array([10, 10, 3, 20], dtype=np.int64)
    group = np.array([0, 1, 0, 1], dtype=np.int64)
    assert list(union_ns(start, length, group)) == [10, 20]
