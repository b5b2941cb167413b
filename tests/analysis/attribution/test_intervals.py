import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.attribution.intervals import union_ns

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


def test_groups_too_far_apart_to_shift_are_still_right():
    far = 2**61
    start = np.array([0, far, 5, far], dtype=np.int64)
    length = np.array([10, 10, 3, 20], dtype=np.int64)
    group = np.array([0, 1, 0, 1], dtype=np.int64)
    assert list(union_ns(start, length, group)) == [10, 20]
