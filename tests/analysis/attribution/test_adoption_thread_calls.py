"""The calls of a thread in order, when they had ended, and the usual pause between them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysprof.analysis.attribution import adoption
from nsysprof.analysis.attribution.adoption import order_calls
from nsysprof.trace.schema import Calls

CALL = st.tuples(st.integers(0, 2**34), st.integers(0, 2**33), st.integers(0, 1))


def calls_of(rows: list[tuple[int, int, int]]) -> Calls:
    start, duration, variant = np.array(rows, dtype=np.int64).reshape(-1, 3).T.copy()
    return Calls(start, duration, variant.astype(np.int16), np.array([[0, 1, 0], [0, 2, 0]]), 0)


@given(st.lists(CALL, max_size=40), st.sampled_from([2, 1 << 20]), st.booleans())
def test_calls_in_order_with_their_ends_and_pauses(rows, block, both) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adoption, "_BLOCK", block)
        found = order_calls(calls_of(rows), np.array([True, both]))
        usual = found.usual_pause_ns()
    mine = [(start, start + took) for start, took, variant in rows if both or variant == 0]
    mine.sort(key=lambda call: call[0])
    start = np.array([begin for begin, _ in mine], dtype=np.int64)
    reached = np.maximum.accumulate(np.array([end for _, end in mine], dtype=np.int64))
    assert found.start_ns.tolist() == start.tolist()
    assert found.ended_ns(np.arange(len(mine) + 1)).tolist() == [0, *reached.tolist()]
    assert usual == (np.median(start[1:] - reached[:-1]) if len(mine) > 1 else 0.0)


def test_short_calls_take_half_the_memory_of_long_ones() -> None:
    every = np.ones(2, dtype=bool)
    assert order_calls(calls_of([(0, 10, 0), (20, 10, 0)]), every).lasted_ns.itemsize == 4
    assert order_calls(calls_of([(0, 10, 0), (20, 2**32, 0)]), every).lasted_ns.itemsize == 8
