"""Find what held up the threads of the host outside of calls: compilers, garbage collection, and waits for work."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.intervals import measure
from nsysprof.analysis.idle_time.interval_layers import Layer, merge_layer, overlay
from nsysprof.analysis.ranges.open_range import innermost_codes, open_ranges
from nsysprof.results.column_registry.analysis_columns import CAUSES
from nsysprof.trace.schema import Int64s, Tables

COLLECTING, COMPILING, WAITING = (CAUSES.index(cause) for cause in ("python-gc", "jit-compile", "waiting-for-work"))
# Ranges of such names prepare data: a wait within them is for a worker of the program itself, which may be faster.
OF_DATA = re.compile(r"load|data|batch|fetch|input|prepare|next", re.IGNORECASE)


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
    """Return what held up the threads. Waits and collections within a compilation belong to it."""
    by_thread: dict[int, Layer] = {}
    causes = (_waits_for_work(tables), WAITING), (tables.collections, COLLECTING), (tables.compiles, COMPILING)
    for table, cause in causes:
        intervals = intervals_of(table)
        for thread in np.unique(intervals[:, 2]).tolist():
            start, end, _ = intervals[intervals[:, 2] == thread].T
            above = merge_layer(start, end, np.full(len(start), cause, dtype=np.int64))
            by_thread[thread] = overlay(by_thread[thread], above) if thread in by_thread else above
    return HostHolds(by_thread)


def _waits_for_work(tables: Tables) -> pd.DataFrame | None:
    """Return the waits of threads that call CUDA, without those in data loaders and in ranges that prepare data."""
    waits = tables.waits
    if waits is None or tables.calls is None:
        return None
    waits = waits[waits["global_tid"].isin(np.unique(tables.calls.tid_of))]
    tid, start = (waits[name].to_numpy(dtype=np.int64) for name in ("global_tid", "start_ns"))
    if tables.loads is not None and len(waits):
        outside = open_ranges(tables.loads, tid, start) < 0
        waits, tid, start = waits[outside], tid[outside], start[outside]
    if tables.ranges is None or waits.empty:
        return waits
    codes, names = innermost_codes(tables.ranges, tid, start)
    prepares = np.array([OF_DATA.search(str(name)) is not None for name in names], dtype=bool)
    of_others: pd.DataFrame = waits[~prepares[codes]]
    return of_others


def intervals_of(table: pd.DataFrame | None) -> Int64s:
    """Return start, end and thread of each row, of shape (n, 3)."""
    if table is None:
        return np.zeros((0, 3), dtype=np.int64)
    return table[["start_ns", "end_ns", "global_tid"]].to_numpy(dtype=np.int64)
