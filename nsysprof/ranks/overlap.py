"""Measure computation, communication and their overlap on each device, from unions of intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Segments, attribute_work, expand, order_work
from nsysprof.analysis.attribution.library_ranges import LIBRARY_DOMAINS
from nsysprof.analysis.attribution.nesting import nesting_levels
from nsysprof.results.rank_results import Lanes
from nsysprof.trace.schema import MIGRATION, Bools, Int64s, Ints, Tables, Work

SLICES = 600


@dataclass(frozen=True)
class Cover:
    """Disjoint intervals of one device, in order (ns)."""

    start_ns: Int64s
    end_ns: Int64s

    def length_ns(self) -> int:
        return int((self.end_ns - self.start_ns).sum())

    def until(self, time_ns: Int64s) -> Int64s:
        """Return how much of the time before each of `time_ns` is covered (ns)."""
        whole = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.end_ns - self.start_ns)))
        at = np.searchsorted(self.start_ns, time_ns, "right")
        beyond = np.zeros(len(time_ns), np.int64)
        inside = at > 0
        beyond[inside] = np.maximum(self.end_ns[at[inside] - 1] - time_ns[inside], 0)
        covered: Int64s = whole[at] - beyond
        return covered


@dataclass(frozen=True)
class Overlap:
    """Computation and communication, summed over all devices of a trace. The times are defined in RankRow.

    Idle time counts between a device's first and last kernel. What a program copies while it loads is far from its work
    and does not count.
    """

    compute_ns: int
    comm_ns: int
    overlap_ns: int
    gpu_busy_ns: int
    idle_ns: int
    # The rows of work that are communication, and how long nothing else computed while each of them ran (ns).
    comm_rows: Int64s
    exposed_of: Int64s
    # The start of the first and the end of the last kernel; None without kernels.
    first_ns: int | None
    last_ns: int | None
    lanes: Lanes | None


def cover(start_ns: Int64s, end_ns: Int64s) -> Cover:
    """Return the union of intervals."""
    if len(start_ns) == 0:
        return Cover(np.zeros(0, np.int64), np.zeros(0, np.int64))
    order = np.argsort(start_ns, kind="stable")
    start, reached = start_ns[order], np.maximum.accumulate(end_ns[order])
    fresh = np.ones(len(start), dtype=bool)
    fresh[1:] = start[1:] > reached[:-1]
    begins = np.flatnonzero(fresh)
    return Cover(start[begins], reached[np.append(begins[1:], len(start)) - 1])


def measure_overlap(work: Work, is_comm: Bools) -> Overlap:
    """Return how computation and communication overlap on each device of a trace.

    is_comm: for each kernel of `work`, whether it is one of NCCL's.
    """
    start, end = work.start_ns, work.ends_ns()
    used = work.kinds() != MIGRATION
    kernel = np.arange(len(work)) < work.kernels
    comm = np.zeros(len(work), dtype=bool)
    comm[: work.kernels] = is_comm
    comm_rows = np.flatnonzero(comm).astype(np.int64)
    exposed = np.zeros(len(comm_rows), np.int64)
    sums = dict.fromkeys(("compute", "comm", "both", "busy", "idle"), 0)
    computing, communicating = [], []
    device = work.device_of[work.variant]
    for number in np.unique(device[used]):
        here = used & (device == number)
        busy, compute, talk = (
            cover(start[chosen], end[chosen]) for chosen in (here, here & kernel & ~comm, here & kernel & comm)
        )
        either = here & kernel
        sums["compute"] += compute.length_ns()
        sums["comm"] += talk.length_ns()
        both = cover(start[either], end[either]).length_ns()
        sums["both"] += compute.length_ns() + talk.length_ns() - both
        sums["busy"] += busy.length_ns()
        if either.any():
            window = np.array([start[either].min(), end[either].max()])
            sums["idle"] += int(np.diff(window)[0] - np.diff(busy.until(window))[0])
        mine = here[comm_rows]
        rows = comm_rows[mine]
        exposed[mine] = (end[rows] - start[rows]) - (compute.until(end[rows]) - compute.until(start[rows]))
        computing.append(compute)
        communicating.append(talk)
    first = int(start[kernel].min()) if work.kernels else None
    last = int(end[kernel].max()) if work.kernels else None
    lanes = None if first is None or last is None else _lanes(first, last, computing, communicating)
    return Overlap(
        sums["compute"], sums["comm"], sums["both"], sums["busy"], sums["idle"], comm_rows, exposed, first, last, lanes
    )


def _lanes(first: int, last: int, computing: list[Cover], communicating: list[Cover]) -> Lanes:
    width = max(1, -(-(last - first) // SLICES))
    edges = first + width * np.arange(SLICES + 1, dtype=np.int64)
    shares = [
        sum(np.diff(cover.until(edges)) for cover in covers) / (width * len(covers))
        for covers in (computing, communicating)
    ]
    return Lanes(first, width, *(np.asarray(share, dtype=np.float32) for share in shares))


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
