"""Find what held up the threads of the host outside of calls: compilers, and Python's garbage collection."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.idle_time.interval_layers import Layer, merge_layer, overlay
from nsysprof.analysis.idle_time.intervals_within import measure
from nsysprof.results.column_registry.analysis_columns import CAUSES
from nsysprof.trace.schema import Int64s, Tables

COLLECTING, COMPILING = (CAUSES.index(cause) for cause in ("python-gc", "jit-compile"))


@dataclass(frozen=True)
class HostHolds:
    """What held up the threads: disjoint intervals of each thread in order, with the number of the cause of each."""

    # By global tid.
    by_thread: dict[int, Layer]

    def time_before(self, cause: int, tid: Int64s, start: Int64s, gap: Int64s) -> Int64s:
        """Return how much of the host time before each call (ns) its thread was held up by a cause.

        tid, start, gap: the thread of each call, when it began, and how long the host time before it is.
        """
        held_ns = np.zeros(len(start), dtype=np.int64)
        for thread, layer in self.by_thread.items():
            mine, of_cause = tid == thread, layer.code == cause
            if mine.any() and of_cause.any():
                since = start[mine] - np.maximum(gap[mine], 0)
                held_ns[mine] = measure(layer.start_ns[of_cause], layer.end_ns[of_cause], since, start[mine])[0]
        return held_ns


def find_host_holds(tables: Tables) -> HostHolds:
    """Return what held up the threads. A collection within a compilation belongs to it."""
    by_thread: dict[int, Layer] = {}
    for table, cause in ((tables.collections, COLLECTING), (tables.compiles, COMPILING)):
        start, end, tid = _columns(table)
        for thread in np.unique(tid).tolist():
            mine = tid == thread
            above = merge_layer(start[mine], end[mine], np.full(int(mine.sum()), cause, dtype=np.int64))
            by_thread[thread] = overlay(by_thread[thread], above) if thread in by_thread else above
    return HostHolds(by_thread)


def _columns(table: pd.DataFrame | None) -> tuple[Int64s, Int64s, Int64s]:
    if table is None:
        none = np.zeros(0, dtype=np.int64)
        return none, none, none
    start, end, tid = (table[name].to_numpy(dtype=np.int64) for name in ("start_ns", "end_ns", "global_tid"))
    return start, end, tid
