"""Replay an execution graph, unchanged or with changes, to compute how long the steps would take."""

# ruff: noqa: PLR1730 - max() takes half as long again as a comparison, in Python and in the compiler

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysprof.analysis.replay.execution_graph import ExecutionGraph
from nsysprof.native.load import loop
from nsysprof.trace.schema import Bools, Int64s

_FAR_NS = 1 << 60


@dataclass(frozen=True)
class ReplayChange:
    """The times and the waits of a replay, which may differ from those recorded."""

    # The host time before each call (ns).
    gap_ns: Int64s
    # The own time of each call (ns).
    cost_ns: Int64s
    # Whether each call waits for the GPU.
    waits: Bools
    # The duration of each piece of work (ns).
    duration_ns: Int64s
    # Whether each piece of work waits for other streams.
    needs_other: Bools


def no_change(graph: ExecutionGraph) -> ReplayChange:
    """Return the values of the graph as it was recorded."""
    return ReplayChange(graph.gap_ns, graph.cost_ns, graph.waits_for >= 0, graph.duration_ns, graph.other >= 0)


def combine(first: ReplayChange, second: ReplayChange) -> ReplayChange:
    """Return both changes together: the shorter of each two times, and only waits that both keep."""
    return ReplayChange(
        np.minimum(first.gap_ns, second.gap_ns),
        np.minimum(first.cost_ns, second.cost_ns),
        first.waits & second.waits,
        np.minimum(first.duration_ns, second.duration_ns),
        first.needs_other & second.needs_other,
    )


def replay(graph: ExecutionGraph, change: ReplayChange | None = None) -> int:
    """Return how long the steps of the graph take together (ns). If there are several, the first is not included."""
    change = no_change(graph) if change is None else change
    waits_for = np.where(change.waits, graph.waits_for, -1)
    # Removed work does not even make its stream wait for it to begin.
    gone = (change.duration_ns == 0) & (graph.duration_ns > 0)
    needs_other = change.needs_other & (graph.other >= 0)
    other = np.where(gone, -1, np.where(needs_other, graph.other, graph.engine))
    issue, after_stream = np.where(gone, -_FAR_NS, graph.issue_ns), np.where(gone, 0, graph.stream_ns)
    arrays = (
        graph.follows, graph.also_after, change.gap_ns, change.cost_ns, waits_for, graph.return_ns, graph.first_work,
        graph.stream, issue, after_stream, np.where(needs_other, graph.other_ns, 0), other, change.duration_ns,
        graph.stream_free_ns.copy(), np.array([graph.first_calls]),
        np.zeros_like(change.gap_ns), np.zeros_like(change.duration_ns),
    )  # fmt: skip
    run = loop("replay")
    if run is None:
        return int(_run(*(each.tolist() for each in arrays)))
    *before, ended, finished = (np.ascontiguousarray(each, dtype=np.int64) for each in arrays)
    *before, first_calls = before
    return int(run(len(change.gap_ns), *before, int(first_calls[0]), ended, finished))


def _run(
    follows: Any, also_after: Any, gap: Any, cost: Any, waits_for: Any, returns: Any, first_work: Any, stream: Any,
    issue: Any, after_stream: Any, after_other: Any, other: Any, duration: Any, free: Any, first_calls: Any,
    ended: Any, finished: Any,
) -> int:  # fmt: skip
    """Go through the calls in order. Whatever a call or its work follows has been handled before it.

    ended, finished: one zero for each call and each piece of work; they take when it ended (ns).
    """
    last = since = 0
    for call in range(len(gap)):
        if call == first_calls[0]:
            since = last
        before = follows[call]
        begin = gap[call] if before < 0 else ended[before] + gap[call]
        before = also_after[call]
        if before >= 0 and ended[before] > begin:
            begin = ended[before]
        end = begin + cost[call]
        for work in range(first_work[call], first_work[call + 1]):
            start = begin + issue[work]
            ready = free[stream[work]] + after_stream[work]
            if ready > start:
                start = ready
            if other[work] >= 0:
                ready = finished[other[work]] + after_other[work]
                if ready > start:
                    start = ready
            done = start + duration[work]
            finished[work] = done
            free[stream[work]] = done
            if done > last:
                last = done
        if waits_for[call] >= 0:
            ready = finished[waits_for[call]] + returns[call]
            if ready > end:
                end = ready
        ended[call] = end
        if end > last:
            last = end
    return last - since


def without(change: ReplayChange, calls: Bools, graph: ExecutionGraph) -> ReplayChange:
    """Return the change without these calls: they take no time, wait for nothing, and issue no work."""
    work = np.repeat(calls, np.diff(graph.first_work))
    return replace(
        change,
        cost_ns=np.where(calls, 0, change.cost_ns),
        waits=change.waits & ~calls,
        duration_ns=np.where(work, 0, change.duration_ns),
    )
