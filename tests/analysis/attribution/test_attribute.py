import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.attribution import attribute
from nsysprof.analysis.attribution.attribute import Segments, attribute_work, covered, expand, merge, order_work
from nsysprof.trace.schema import PID_MASK, Calls
from tests.builders.build_trace import OTHER_PID, OTHER_TID, TID

THREADS = st.sampled_from([TID, OTHER_TID, OTHER_PID | 1])
CALLS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 6), THREADS), max_size=20)
RANGES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 40), THREADS, st.sampled_from(["PushPop", "StartEnd"])), max_size=12
)


@given(CALLS, RANGES)
def test_attribution_agrees_with_looking_at_every_pair(calls, ranges):
    launch = np.arange(-1, len(calls), dtype=np.int32)  # the first piece of work has no call
    table = pd.DataFrame(
        {
            "start_ns": np.array([r[0] for r in ranges], dtype=np.int64),
            "end_ns": np.array([r[0] + r[1] for r in ranges], dtype=np.int64),
            "global_tid": np.array([r[2] for r in ranges], dtype=np.int64),
            "style": [r[3] for r in ranges],
        }
    )
    expected = {
        (i, j + 1)
        for i, (start, length, owner, style) in enumerate(ranges)
        for j, (begin, took, tid) in enumerate(calls)
        if start <= begin and begin + took <= start + length
        and (owner == tid if style == "PushPop" else owner & PID_MASK == tid & PID_MASK)
    }  # fmt: skip
    launched = order_work(launch, calls_of(calls))
    pairs = []
    for style, scope in (("PushPop", "thread"), ("StartEnd", "process")):
        which, item = attribute_work(launched[scope], table, style).pairs()
        pairs += zip(which.tolist(), item.tolist(), strict=True)
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == expected


def calls_of(calls):
    """(start, length, thread) as Calls."""
    tids = sorted({tid for _, _, tid in calls})
    return Calls(
        np.array([start for start, _, _ in calls], dtype=np.int64),
        np.array([length for _, length, _ in calls], dtype=np.uint32),
        np.array([tids.index(tid) for _, _, tid in calls], dtype=np.int16),
        np.array([[1, tid, 0] for tid in tids], dtype=np.int64).reshape(-1, 3),
        0,
    )


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9), max_size=5))
def test_work_is_ordered_by_its_calls_whatever_the_order_of_the_file(kernels, fills):
    starts = [*sorted(kernels), *fills]
    calls = calls_of([(start, 1, TID) for start in starts])
    order = order_work(np.arange(len(starts), dtype=np.int32), calls)["thread"].order
    assert order.tolist() == sorted(range(len(starts)), key=lambda row: starts[row])


STRETCHES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30), st.integers(0, 12)), max_size=20)


@given(STRETCHES)
def test_merged_stretches_hold_every_position_of_a_group_once(rows):
    group, low, length = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    merged, begin, end = merge(group, low, low + length)
    which, position = expand(begin, end)
    found = list(zip(merged[which].tolist(), position.tolist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == {(g, at) for g, start, size in rows for at in range(start, start + size)}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8), st.integers(1, 7))
def test_covered_positions_are_those_of_any_stretch_however_they_are_cut(stretches, at_once):
    low, high = (np.array([pair(each) for each in stretches], dtype=np.int64) for pair in (min, max))
    order, none = np.arange(30, dtype=np.int32), np.zeros(len(stretches), dtype=np.int64)
    expected = [any(begin <= place < end for begin, end in zip(low, high, strict=True)) for place in range(30)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attribute, "_BLOCK", at_once)
        assert covered(Segments(order, none, low, high)).tolist() == expected
