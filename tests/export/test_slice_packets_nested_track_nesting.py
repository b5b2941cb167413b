import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.export.slice_packets import begins_and_ends, disjoint_lanes, find_crossing, sort_for_nesting

SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 6)), max_size=25)


def lanes(spans):
    """(row, start, end) by lane, as a viewer with a stack a track makes them of the events."""
    start = np.array([a for a, _ in spans], dtype=np.int64)
    end = start + np.array([length for _, length in spans], dtype=np.int64)
    rows = sort_for_nesting(start, end)
    found = []
    while len(rows):
        crossing = find_crossing(start[rows], end[rows])
        kept = np.delete(rows, crossing)
        stack, lane, last = [], [], -1
        for time, row in zip(*begins_and_ends(start[kept], end[kept]), strict=True):
            assert time >= last
            last = time
            if row < 0:
                lane.append((*stack.pop(), time))
            else:
                stack.append((int(kept[row]), time))
        assert not stack
        found.append(lane)
        rows = rows[crossing]
    return found


@given(SPANS)
def test_every_interval_comes_back_with_its_own_ends(spans):
    found = sorted(slice_ for lane in lanes(spans) for slice_ in lane)
    assert found == [(row, start, start + length) for row, (start, length) in enumerate(spans)]


@given(SPANS)
def test_what_does_not_overlap_needs_one_lane(spans):
    clock, apart = 0, []
    for gap, length in spans:
        apart.append((clock + gap, length))
        clock += gap + length
    assert len(lanes(apart)) == (1 if apart else 0)


@given(SPANS)
def test_disjoint_lanes_are_and_are_few(spans):
    start = np.array(sorted(a for a, _ in spans), dtype=np.int64)
    end = start + np.array([length for _, length in spans], dtype=np.int64)
    found = disjoint_lanes(start, end)
    for lane in np.unique(found):
        assert (start[found == lane][1:] >= end[found == lane][:-1]).all()
    most = max((int(((start <= time) & ((end > time) | (start == time))).sum()) for time in start), default=0)
    assert len(np.unique(found)) <= max(most, 1 if len(start) else 0)
