"""The calls that ended within some time are those that a sort of all calls finds, whatever the order of the file."""

import numpy as np
import pytest

from nsysprof.analysis.idle_time import call_ends
from nsysprof.analysis.idle_time.call_ends import list_ends
from nsysprof.trace.schema import PID_MASK, Calls

_PID = 5 << 24
_TIDS = np.array([_PID + 1, _PID + 2, _PID + 3, (7 << 24) + 1], dtype=np.int64)


def _calls(start, duration, variant):
    variants = np.stack([np.arange(4), _TIDS, np.zeros(4, np.int64)], axis=1)
    return Calls(start, duration.astype(np.uint32), variant.astype(np.int16), variants, 0)


@pytest.mark.parametrize("is_shuffled", [False, True])
def test_ends_within_a_window_are_those_of_a_sort_of_all_calls(monkeypatch, is_shuffled):
    monkeypatch.setattr(call_ends, "_BLOCK", 16)
    random = np.random.default_rng(1)
    start = np.cumsum(random.integers(0, 50, 2000))
    if is_shuffled:
        random.shuffle(start)
    calls = _calls(start, random.integers(0, 2000, 2000), random.integers(0, 4, 2000))
    working = np.array([True, True, False, True])
    ends = list_ends(calls, working)
    # A process with one thread hands no work over; only a file in no order at all is sorted.
    assert (ends.rows is not None) == is_shuffled and list(ends.of_pid) == [int(_TIDS[0] & PID_MASK)]
    its = np.flatnonzero(calls.variant < 2)
    its = its[np.argsort(calls.ends_ns(its), kind="stable")]
    for since, until in ((-1, 10**6), (1000, 1500), (40_000, 40_000), (10**7, 10**8)):
        ended = calls.ends_ns(its)
        kept = its[(ended > since) & (ended <= until)]
        found = ends.within(int(_TIDS[0] & PID_MASK), since, until)
        assert found.ended_ns.tolist() == calls.ends_ns(kept).tolist()
        if not is_shuffled:  # calls that ended at one time stand in the order of the file
            assert found.tid(np.arange(len(kept))).tolist() == calls.tid_of[calls.variant[kept]].tolist()
        assert found.of(int(_TIDS[1])).tolist() == np.flatnonzero(calls.variant[kept] == 1).tolist()
    assert len(ends.within(int(_TIDS[3] & PID_MASK), -1, 10**6).ended_ns) == 0


def test_no_ends_are_kept_where_each_process_works_in_one_thread():
    calls = _calls(np.arange(4), np.ones(4), np.arange(4))
    assert list_ends(calls, np.array([True, False, False, True])) is None
