"""Find lost graph nodes: compare the replays of each CUDA graph, and report those that lack nodes of the others."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from nsysprof.notes import Remark, Severity, make_loss, make_note
from nsysprof.trace.schema import PID_MASK, Int64s, Tables

# The upper half of a node's id is its graph. Files without it say nothing about graphs.
_GRAPH_BITS = 32
# Calls after which a graph may run another number of nodes each time.
_VARIES = re.compile(r"^cu(da)?Graph(ConditionalHandleCreate|NodeSetEnabled|ExecUpdate|Exec.*SetParams)")


@dataclass(frozen=True)
class ShortReplays:
    """Replays of graphs in which nodes are missing."""

    # How many replays lack nodes, and how many replays there are.
    short: int
    replays: int
    # How many nodes are missing.
    nodes: int
    # Whether they are the last replays of their processes, as when the recording ends while they run.
    are_last: bool


def find_short_replays(tables: Tables) -> ShortReplays | None:
    """Return the replays that lack nodes which other replays of the same graph have; None where none does."""
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
    longest = _known_nodes(which, replays, call.astype(np.int64), node)
    np.maximum.at(longest, which, count[replays])
    lacking = longest[which] - count[replays]
    short = lacking > 0
    if not short.any():
        return None
    begins = calls.start_ns[replays]
    are_last = not short.all() and all(
        begins[short & (pid == each)].min() > begins[~short & (pid == each)].max(initial=-1)
        for each in np.unique(pid[short])
    )
    return ShortReplays(int(short.sum()), len(replays), int(lacking.sum()), are_last)


def _known_nodes(which: Int64s, replays: Int64s, call: Int64s, node: Int64s) -> Int64s:
    """Return how many different nodes the replays of each graph have together.

    which: the graph of each replay.
    replays: the calls of the replays.
    call, node: the call and the node of each piece of work.
    """
    place = np.searchsorted(replays, call)
    known, number = np.unique(node, return_inverse=True)
    pairs = np.unique(which[place] * len(known) + number.reshape(-1))
    return np.bincount(pairs // len(known), minlength=which.max() + 1)


def judge_short_replays(found: ShortReplays) -> Remark:
    """Return short replays as a loss, or as a note where the recording ended while they ran."""
    facts = {"short": found.short, "replays": found.replays, "nodes": found.nodes}
    if found.are_last:
        return make_note("graph-nodes-lost", "at-the-end", severity=Severity.WARNING, **facts)
    return make_loss("graph-nodes-lost", anywhere="replays of graphs lack kernels", **facts)
