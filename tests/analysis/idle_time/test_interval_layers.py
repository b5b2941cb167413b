import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.idle_time.interval_layers import Layer, cut, merge_layer, overlay


def ints(*values):
    return np.array(values, dtype=np.int64)


def layer(*rows):
    """rows: start, end, code."""
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    return Layer(*(ints(*column) for column in columns))


def rows(found):
    return list(zip(found.start_ns.tolist(), found.end_ns.tolist(), found.code.tolist(), strict=True))


INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12).map(
    lambda found: [(start, start + length) for start, length in found]
)


def painted(found):
    """Return the code of every unit of time."""
    return {time: code for start, end, code in found for time in range(start, end)}


def test_pieces_alternate_between_outside_and_inside():
    pieces = cut(ints(0, 25), ints(20, 30), layer((5, 10, 1), (15, 40, 2)))
    assert list(zip(pieces.owner, pieces.layer, pieces.start_ns, pieces.end_ns, strict=True)) == [
        (0, -1, 0, 5), (0, 0, 5, 10), (0, -1, 10, 15), (0, 1, 15, 20), (1, 1, 25, 30),
    ]  # fmt: skip


def test_what_is_nested_in_another_interval_is_part_of_it():
    assert rows(merge_layer(ints(0, 2, 10, 0), ints(10, 5, 12, 0), ints(1, 2, 3, 4))) == [(0, 10, 1), (10, 12, 3)]


@given(intervals=INTERVALS, below=INTERVALS)
def test_pieces_add_up_to_their_intervals(intervals, below):
    start, end = (ints(*column) for column in zip(*intervals, strict=True)) if intervals else (ints(), ints())
    merged = merge_layer(*(ints(*(row[at] for row in below)) for at in (0, 1)), ints(*range(len(below))))
    pieces = cut(start, end, merged)
    length = pieces.end_ns - pieces.start_ns
    assert (length > 0).all()
    for number, (first, last) in enumerate(intervals):
        assert length[pieces.owner == number].sum() == last - first


@given(one=INTERVALS, other=INTERVALS)
def test_what_lies_above_hides_what_is_below(one, other):
    below, above = (
        merge_layer(*(ints(*(row[at] for row in each)) for at in (0, 1)), np.full(len(each), code, dtype=np.int64))
        for each, code in ((one, 1), (other, 2))
    )
    both = overlay(below, above)
    assert painted(rows(both)) == {**painted(rows(below)), **painted(rows(above))}
    assert (both.start_ns[1:] >= both.end_ns[:-1]).all()
