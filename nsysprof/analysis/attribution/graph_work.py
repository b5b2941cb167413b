"""Find the API call that created each node of a replayed CUDA graph.

Instantiating a graph copies its nodes, and so does adding a graph to another one. The trace says which node each one
was copied from, so a kernel of a replay leads back to the call that created its node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.adoption import Points
from nsysprof.arrays import find_rows
from nsysprof.trace.schema import NULL, PID_MASK, Int64s, Rows, Tables

# The longest chain of copies that is followed. No program nests graphs more deeply.
_MOST_COPIES = 32
_UPDATES = re.compile(r"^(cuda|cu)GraphExec(Update|\w*NodeSetParams)")

RESOLVED, NOT_RECORDED, NO_NODES, UPDATED = range(4)
UNRESOLVED = {
    NOT_RECORDED: "of graphs whose nodes were created while nothing was recorded",
    NO_NODES: "of graphs whose nodes' creators this nsys does not record",
    UPDATED: "of graphs that may have been updated since their nodes were created",
}


@dataclass(frozen=True)
class GraphWork:
    """The work of graph replays that were recorded node by node."""

    # Rows of tables.work.
    row: Rows
    # The node of each row, as its position in `created`, or -1.
    node: Int64s
    # RESOLVED, or the key of UNRESOLVED.
    why: Int64s
    # When and where each node was created.
    created: Points


def find_graph_work(tables: Tables) -> GraphWork | None:
    """Return the work of graph replays and the creation of its nodes; None without such work."""
    work = tables.work
    flags = work.in_graph_of
    if not flags.any():
        return None
    rows = find_rows(flags, work.variant)
    pid = work.pid_of[work.variant[rows]]
    nodes = tables.graph_nodes
    none = np.zeros(0, dtype=np.int64)
    node = np.full(len(rows), -1, dtype=np.int64)
    if nodes is None:
        return GraphWork(rows, node, np.full(len(rows), NO_NODES), Points(none, none, none))
    why = np.full(len(rows), NOT_RECORDED, dtype=np.int64)
    starts, tids = nodes["time_ns"].to_numpy(dtype=np.int64), nodes["global_tid"].to_numpy(dtype=np.int64)
    owners = tids & PID_MASK
    copied = np.full(len(rows), NULL)
    for process in np.unique(pid).tolist():
        mine, events = np.flatnonzero(pid == process), np.flatnonzero(owners == process)
        if len(events) == 0:
            continue
        wanted, number = np.unique(work.graph_node[mine], return_inverse=True)
        event, copy_time = _creations(nodes.iloc[events], wanted)
        known = event[number] >= 0
        node[mine[known]] = events[event[number][known]]
        why[mine[known]] = RESOLVED
        copied[mine] = copy_time[number]
    _mark_updated(tables, rows, pid, copied, why)
    node[why != RESOLVED] = -1
    return GraphWork(rows, node, why, Points(starts, starts, tids))


def _creations(events: pd.DataFrame, wanted: Int64s) -> tuple[Int64s, Int64s]:
    """Return for each wanted node the row of `events` that created its original (or -1), and when it was itself copied.

    events: the events of one process.
    """
    ids, originals = (events[column].to_numpy(dtype=np.int64) for column in ("node_id", "original_id"))
    time = events["time_ns"].to_numpy(dtype=np.int64)
    is_copy = originals > 0
    copies = np.flatnonzero(is_copy)
    copies = copies[np.argsort(ids[copies], kind="stable")]
    firsts = np.flatnonzero(~is_copy)
    firsts = firsts[np.lexsort((time[firsts], ids[firsts]))]
    own = _look_up(ids[copies], wanted)
    copied = np.where(own >= 0, time[copies[np.maximum(own, 0)]] if len(copies) else NULL, NULL)
    node, at = wanted.copy(), own
    for _ in range(_MOST_COPIES):
        if not (at >= 0).any():
            break
        node[at >= 0] = originals[copies[at[at >= 0]]]
        at = np.where(at >= 0, _look_up(ids[copies], node), -1)
    first = _look_up(ids[firsts], node)
    # Copies that form a ring, which only a damaged trace has, lead to no original.
    created_by = np.where((first >= 0) & (at < 0), firsts[np.maximum(first, 0)] if len(firsts) else -1, -1)
    return created_by, copied


def _look_up(keys: Int64s, wanted: Int64s) -> Int64s:
    """Return the first position of each wanted key among the sorted `keys`, or -1."""
    if len(keys) == 0:
        return np.full(len(wanted), -1, dtype=np.int64)
    at = np.searchsorted(keys, wanted)
    return np.where(keys[np.minimum(at, len(keys) - 1)] == wanted, at, -1)


def _mark_updated(tables: Tables, rows: Rows, pid: Int64s, copied: Int64s, why: Int64s) -> None:
    """Mark work of graphs that may have been updated: they existed when the process updated a graph, and ran later."""
    calls = tables.calls
    if calls is None:
        return
    used = tables.strings[tables.strings.index.isin(calls.name_of)]
    updating = used.index.to_numpy(dtype=np.int64)[[_UPDATES.match(text) is not None for text in used]]
    chosen = np.isin(calls.name_of, updating) & ~calls.failed_of
    if not chosen.any():
        return
    updates = np.flatnonzero(chosen[calls.variant])
    owners = calls.tid_of[calls.variant[updates]] & PID_MASK
    for process in np.unique(owners).tolist():
        times = np.sort(calls.start_ns[updates[owners == process]])
        mine = np.flatnonzero((pid == process) & (tables.launch[rows] >= 0) & (why == RESOLVED))
        begun = calls.start_ns[tables.launch[rows[mine]]]
        updated = np.searchsorted(times, begun) > np.searchsorted(times, np.minimum(copied[mine], begun))
        why[mine[updated]] = UPDATED
