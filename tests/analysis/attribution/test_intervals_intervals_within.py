"""How much of some intervals lies within others, by one pass for all codes and by one for each."""

from __future__ import annotations

import numpy as np
import pytest

from nsysprof.analysis.attribution import intervals
from nsysprof.analysis.attribution.intervals import measure, measure_by_code


@pytest.mark.parametrize("block", [3, 1 << 20])
def test_one_pass_for_all_codes_finds_what_a_pass_for_each_finds(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(intervals, "_BATCH", block)
    monkeypatch.setattr(intervals, "_PART", block)  # 200 intervals in parts of 25, or at once
    random = np.random.default_rng(1)
    edges = np.sort(random.choice(400, 60, replace=False))
    start, end, code = edges[::2], edges[1::2], random.integers(0, 4, 30).astype(np.int8)
    start[1:][code[1:] == 2] = end[:-1][code[1:] == 2]  # some pieces touch
    low = random.integers(-10, 400, 200)
    high = low + random.integers(0, 80, 200)
    total, count = measure_by_code(start, end - start, code, 5, low, high)
    assert not total[4].any(), "no piece has this code"
    assert not count[4].any()
    for each in range(4):
        chosen = code == each
        wanted = measure(start[chosen], end[chosen], low, high)
        assert total[each].tolist() == wanted[0].tolist()
        assert count[each].tolist() == wanted[1].tolist()
    assert total[:4].any(axis=1).all(), "each code has pieces in some interval"
    inside = [
        sum(max(0, min(e, h) - max(s, b)) for s, e in zip(start, end, strict=True))
        for b, h in zip(low, high, strict=True)
    ]
    assert total.sum(axis=0).tolist() == inside


def test_without_pieces_nothing_lies_within() -> None:
    none = np.zeros(0, dtype=np.int64)
    total, count = measure_by_code(none, none, none, 2, np.array([0, 5]), np.array([3, 9]))
    assert not total.any()
    assert not count.any()


def test_nothing_lies_within_where_there_are_no_pieces():
    none = np.zeros(0, dtype=np.int64)
    time, count = measure(none, none, np.array([0, 5]), np.array([3, 9]))
    assert time.tolist() == count.tolist() == [0, 0]
