"""Assign each piece of GPU work to exactly one range, so that the times of ranges add up."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Segments, attribute_work, expand, order_work
from nsysprof.analysis.attribution.library_ranges import LIBRARY_DOMAINS
from nsysprof.analysis.attribution.nesting import nesting_levels
from nsysprof.trace.schema import Bools, Int64s, Ints, Tables


def innermost_ranges(tables: Tables, launch: Ints, ranges: pd.DataFrame) -> Int64s:
    """Return for each row of work the row of `ranges` that it belongs to; -1 where it belongs to none.

    Work belongs to the innermost push/pop range of the thread that launched it. If that thread had none, it belongs to
    the range that began last among those open on other threads of its process, because autograd launches the backward
    pass from threads without ranges. Otherwise it belongs to the start/end range that began last. Ranges of libraries
    are skipped.

    ranges: in order of start.
    """
    of_program = ~ranges["domain"].isin(LIBRARY_DOMAINS)
    mine = ranges[of_program]
    rows = np.flatnonzero(of_program.to_numpy(dtype=bool))
    owners = np.full(len(launch), -1, dtype=np.int64)
    left = np.asarray(launch).astype(np.int32)
    for scope, style in (("thread", "PushPop"), ("process", "PushPop"), ("process", "StartEnd")):
        segments = attribute_work(order_work(left, tables.calls, [scope])[scope], mine, style)
        owner, row = _latest(segments)
        owners[row] = rows[owner]
        left[row] = -1
    return owners


def _latest(segments: Segments) -> tuple[Int64s, Ints]:
    """Return pairs (range, row of work): for each row, the range that began last among those that contain it.

    Of nested ranges, the one that began last is the innermost.
    """
    latest = np.full(len(segments.order), -1, dtype=np.int64)
    by_start = np.argsort(segments.instance, kind="stable")
    low, high, instance = segments.low[by_start], segments.high[by_start], segments.instance[by_start]
    begins = 0
    while begins < len(instance):  # a few million pairs at a time
        reached = np.cumsum(high[begins:] - low[begins:])
        ends = begins + max(1, int(np.searchsorted(reached, 1 << 22, "right")))
        which, position = expand(low[begins:ends], high[begins:ends])
        np.maximum.at(latest, position, instance[begins:ends][which])
        begins = ends
    held = latest >= 0
    return latest[held], segments.order[held]


def own_walls(ranges: pd.DataFrame) -> Int64s:
    """Return the time (ns) of each range that no push/pop range nested in it on its thread covers.

    Ranges of libraries cover nothing, and their own time is 0. Start/end ranges do not nest, so theirs is 0 too.

    ranges: in order of start.
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
        at = np.searchsorted(parents, children) - 1  # the last parent before the child, in order of thread and start
        fits = (at >= 0) & (tid[parents[at]] == tid[children])
        parent, child = rows[parents[at[fits]]], rows[children[fits]]
        covered = np.minimum(end[child], end[parent]) - start[child]
        np.subtract.at(own, parent, np.maximum(covered, 0))
    return np.maximum(own, 0)
