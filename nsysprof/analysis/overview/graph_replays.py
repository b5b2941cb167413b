"""Compare the replays of each CUDA graph with one another: one that has fewer nodes than the others lost some."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from nsysprof.notes import Remark, Severity, make_loss, make_note
from nsysprof.trace.schema import PID_MASK, Tables

# The upper half of a node's id is the graph. Files without it say nothing about graphs.
_GRAPH_BITS = 32
# Calls that let a graph run another number of nodes each time.
_VARIES = re.compile(r"^cu(da)?Graph(ConditionalHandleCreate|NodeSetEnabled|ExecUpdate|Exec.*SetParams)")


@dataclass(frozen=True)
class ShortReplays:
    """Replays of graphs that lack nodes."""

    # How many replays lack nodes, of how many.
    short: int
    replays: int
    # How many nodes are missing.
    nodes: int
    # Whether they are the last ones of their processes, as where the recording ended while they ran.
    are_last: bool


def find_short_replays(tables: Tables) -> ShortReplays | None:
    """Return what replays lack, judged by the longest replay of the same graph; None where nothing is missing."""
    calls, work = tables.calls, tables.work
    rows = np.flatnonzero(work.in_graph_of[work.variant]) if work.in_graph_of.any() else np.zeros(0, dtype=np.int64)
    if calls is None or not len(rows):
        return None
    names = tables.strings[tables.strings.index.isin(calls.name_of)]
    if any(_VARIES.match(name) for name in names):
        return None
    node, call = work.graph_node, tables.launch[rows]
    known = (call >= 0) & (node >> _GRAPH_BITS > 0)
    node, call = node[known], call[known]
    if not len(call):
        return None
    count = np.bincount(call, minlength=len(calls))
    replays = np.flatnonzero(count)
    least = np.full(len(calls), np.iinfo(np.int64).max)
    np.minimum.at(least, call, node)
    pid = calls.tid_of[calls.variant[replays]] & PID_MASK
    graphs = np.stack((pid, least[replays] >> _GRAPH_BITS), axis=1)
    which = np.unique(graphs, axis=0, return_inverse=True)[1].reshape(-1)
    longest = np.zeros(which.max() + 1, dtype=np.int64)
    np.maximum.at(longest, which, count[replays])
    lacking = longest[which] - count[replays]
    short = lacking > 0
    if not short.any():
        return None
    begins = calls.start_ns[replays]
    are_last = all(
        begins[short & (pid == each)].min() > begins[~short & (pid == each)].max(initial=-1)
        for each in np.unique(pid[short])
    )
    return ShortReplays(int(short.sum()), len(replays), int(lacking.sum()), are_last)


def judge_short_replays(found: ShortReplays) -> Remark:
    """Return the loss that short replays are, or the note where the recording ended while they ran."""
    facts = {"short": found.short, "replays": found.replays, "nodes": found.nodes}
    if found.are_last:
        return make_note("graph-nodes-lost", "at-the-end", severity=Severity.WARNING, **facts)
    return make_loss("graph-nodes-lost", **facts)
