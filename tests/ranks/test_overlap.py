import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.ranks.overlap import cover

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 15)), max_size=15)


@given(intervals=INTERVALS, moments=st.lists(st.integers(-5, 90), max_size=8))
def test_a_cover_holds_each_moment_of_the_union_once(intervals, moments):
    start = np.array([first for first, _ in intervals], dtype=np.int64)
    end = start + np.array([length for _, length in intervals], dtype=np.int64)
    union = {time for first, last in zip(start, end, strict=True) for time in range(first, last)}
    found = cover(start, end)
    assert found.length_ns() == len(union)
    assert (found.start_ns[1:] > found.end_ns[:-1]).all()
    until = found.until(np.array(moments, dtype=np.int64))
    assert until.tolist() == [sum(time < moment for time in union) for moment in moments]
