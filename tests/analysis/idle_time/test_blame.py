"""What is left of the pieces of gaps where only a part of the trace is looked at."""

import numpy as np

from nsysprof.analysis.idle_time.blame import Blamed
from nsysprof.results.column_registry.analysis_columns import CAUSES


def test_pieces_cut_out_are_those_that_begin_within() -> None:
    start = np.array([10, 20, 35, 50], dtype=np.int64)
    called, call = np.array([0, 2, 3], dtype=np.int32), np.array([7, 8, 9], dtype=np.int32)
    none = np.zeros(len(CAUSES), dtype=np.int64)
    duration, cause = np.array([5, 15, 5, 4], dtype=np.uint32), np.array([0, 1, 2, 0], dtype=np.int8)
    whole = Blamed(0, start, duration, cause, called, call, none, none, (0, 0))
    part = whole.cut_out(20, 50)
    assert part.start_ns.tolist() == [20, 35]
    assert part.duration_ns.tolist() == [15, 5]
    assert part.cause.tolist() == [1, 2]
    assert (part.called.tolist(), part.call.tolist()) == ([1], [8])
    assert part.within(20, 50) == slice(0, 2)
    assert not np.shares_memory(part.start_ns, start)
