"""The one range that each piece of GPU work belongs to, so that the ranges' times add up."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.attribute import Segments, attribute_work, expand, order_work
from nsysprof.analysis.ranges import nesting_levels
from nsysprof.trace.schema import Bools, Int64s, Ints, Tables

# Domains of libraries that annotate themselves: their ranges lie inside the program's and say nothing of its parts.
LIBRARY_DOMAINS = frozenset({"NCCL", "CCCL", "CUB", "Thrust", "cuBLAS", "cuBLASLt", "cuDNN", "cuDNN-FE", "TensorRT"})


def innermost_ranges(tables: Tables, launch: Ints, ranges: pd.DataFrame) -> Int64s:
    """For each row of work the row of `ranges` (in order of start) it belongs to, or -1.

    That is the innermost push/pop range of the thread that launched it; where that thread had none, the one that began
    last among those open on other threads of its process (autograd launches the backward pass from threads without
    ranges), else the start/end range that began last. Ranges of libraries are passed over.
    """
    of_program = ~ranges["domain"].isin(LIBRARY_DOMAINS)
    mine = ranges[of_program]
    rows = np.flatnonzero(of_program.to_numpy(dtype=bool))
    found = np.full(len(launch), -1, dtype=np.int64)
    left = np.asarray(launch).astype(np.int32)
    for scope, style in (("thread", "PushPop"), ("process", "PushPop"), ("process", "StartEnd")):
        segments = attribute_work(order_work(left, tables.calls)[scope], mine, style)
        owner, row = _latest(segments)
        found[row] = rows[owner]
        left[row] = -1
    return found


def _latest(segments: Segments) -> tuple[Int64s, Ints]:
    """(range, row of work): of the ranges that hold a row the one that began last, which of nested ones is inside."""
    latest = np.full(len(segments.order), -1, dtype=np.int64)
    by_start = np.argsort(segments.instance, kind="stable")
    low, high, instance = segments.low[by_start], segments.high[by_start], segments.instance[by_start]
    begins = 0
    while begins < len(instance):  # some millions of pairs at a time
        reached = np.cumsum(high[begins:] - low[begins:])
        ends = begins + max(1, int(np.searchsorted(reached, 1 << 22, "right")))
        which, position = expand(low[begins:ends], high[begins:ends])
        np.maximum.at(latest, position, instance[begins:ends][which])
        begins = ends
    held = latest >= 0
    return latest[held], segments.order[held]


def own_walls(ranges: pd.DataFrame) -> Int64s:
    """The ns of each range (in order of start) that no push/pop range nested in it on its thread covers.

    Ranges of libraries cover nothing and have none; start/end ranges do not nest and have none either.
    """
    start, end = (ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns"))
    counts: Bools = ((ranges["style"] == "PushPop") & ~ranges["domain"].isin(LIBRARY_DOMAINS)).to_numpy(dtype=bool)
    own = np.where(counts, end - start, 0)
    rows = np.flatnonzero(counts)
    level, tid = nesting_levels(ranges.iloc[rows].reset_index(drop=True)), ranges["global_tid"].to_numpy()[rows]
    order = np.lexsort((start[rows], tid))
    rows, level, tid = rows[order], level[order], tid[order]
    for depth in range(1, int(level.max(initial=0)) + 1):
        parents, children = np.flatnonzero(level == depth - 1), np.flatnonzero(level == depth)
        at = np.searchsorted(parents, children) - 1  # the last parent before it in order of thread and start
        fits = (at >= 0) & (tid[parents[at]] == tid[children])
        parent, child = rows[parents[at[fits]]], rows[children[fits]]
        covered = np.minimum(end[child], end[parent]) - start[child]
        np.subtract.at(own, parent, np.maximum(covered, 0))
    return np.maximum(own, 0)
