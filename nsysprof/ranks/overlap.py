"""Measure computation, communication and their overlap on each device, from unions of intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.results.rank_results import Lanes
from nsysprof.trace.schema import MIGRATION, Bools, Int64s, Work

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
