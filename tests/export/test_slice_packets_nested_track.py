import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.export import slice_packets as nested_track
from nsysprof.export.slice_packets import NestedTrack

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 15)), max_size=40)


def written(spans, at_once):
    """Return row, start, end and track of the spans (start, length) as a viewer reads them."""
    tracks: dict[int, list[tuple[int, int]]] = {}

    def add_track():
        tracks[len(tracks)] = []
        return len(tracks) - 1

    def write(track, time, row):
        tracks[track] += zip(time.tolist(), row.tolist(), strict=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nested_track, "_LEAST_ROWS", at_once)
        patch.setattr(nested_track, "_MOST_NESTING_TRACKS", 2)
        track = NestedTrack(add_track, write)
        start = np.array([a for a, _ in spans], dtype=np.int64)
        end = start + np.array([length for _, length in spans], dtype=np.int64)
        for low in range(0, len(spans), at_once):
            some = slice(low, low + at_once)
            track.add(start[some], end[some], np.arange(len(spans))[some])
        track.finish()
    found = []
    for number, events in tracks.items():
        assert [time for time, _ in events] == sorted(time for time, _ in events)
        stack = []
        for time, row in events:
            if row >= 0:
                stack.append((row, time))
            else:
                found.append((*stack.pop(), time, number))
        assert not stack
    return sorted(found)


@given(SPANS, st.sampled_from([1, 2, 5, 100]))
def test_every_slice_comes_back_with_its_own_ends_however_few_come_at_once(spans, at_once):
    spans = sorted(spans, key=lambda span: span[0])
    found = [slice_[:3] for slice_ in written(spans, at_once)]
    assert found == [(row, start, start + length) for row, (start, length) in enumerate(spans)]


@given(SPANS)
def test_slices_side_by_side_stay_on_one_track(spans):
    clock, apart = 0, []
    for gap, length in spans:
        apart.append((clock + gap, length))
        clock += gap + length
    assert {track for *_, track in written(apart, 3)} <= {0}
