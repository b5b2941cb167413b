"""Recognise what the CUDA API calls of a trace do: launch, replay a graph, or only build a graph."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.adoption import Points
from nsysprof.analysis.attribution.attribute import attribute_work, order_work
from nsysprof.arrays import find_rows
from nsysprof.trace.schema import GRAPH, KERNEL, NULL, PID_MASK, Bools, Calls, Int64s, Rows, Tables

_LAUNCHES = re.compile(r"^(cuda|cu)Launch(?!HostFunc)|^cudaLaunchCooperative|^(cuda|cu)GraphLaunch")
_GRAPH_LAUNCHES = re.compile(r"^(cuda|cu)GraphLaunch")
_BEGIN_CAPTURE = re.compile(r"^(cuda|cu)StreamBeginCapture")
_END_CAPTURE = re.compile(r"^(cuda|cu)StreamEndCapture")
# The longest chain of copies that is followed. No program nests graphs more deeply.
_MOST_COPIES = 32
_UPDATES = re.compile(r"^(cuda|cu)GraphExec(Update|\w*NodeSetParams)")
RESOLVED, NOT_RECORDED, NO_NODES, UPDATED = range(4)
UNRESOLVED = {
    NOT_RECORDED: "of graphs whose nodes were created while nothing was recorded",
    NO_NODES: "of graphs whose nodes' creators this nsys does not record",
    UPDATED: "of graphs that may have been updated since their nodes were created",
}


def launch_calls(tables: Tables) -> Bools:
    """Return for each API call whether it launched kernels.

    A call counts by its name if it succeeded and did not only add a node to a graph.
    """
    calls = tables.calls
    if calls is None:
        return np.zeros(0, dtype=bool)
    launches: Bools = (_named(tables, calls, _LAUNCHES) & ~calls.failed_of)[calls.variant]
    captured = _captured(tables, calls)
    if captured is not None:
        launches &= ~captured
    return launches


def graph_launch_calls(tables: Tables) -> Bools:
    """Return, for each API call, whether it replays a CUDA graph, judged by its name."""
    if tables.calls is None:
        return np.zeros(0, dtype=bool)
    named = _named(tables, tables.calls, _GRAPH_LAUNCHES)
    return named[tables.calls.variant] if named.any() else _none(len(tables.calls))


def lost_launches(tables: Tables, launches: Bools, silent: Int64s) -> Bools:
    """Return for each API call whether it launched work that the trace has no record of.

    launches: the result of launch_calls.
    silent: the calls that replayed graphs which the profiler does not record. They count as lost only where it recorded
        no kernel and no graph at all.
    """
    work, launch = tables.work, tables.launch
    lost = launches.copy()
    # A replayed graph may hold only copies and fills.
    lost[launch[launch >= 0]] = False
    if np.isin(work.kind_of[np.unique(work.variant)], (KERNEL, GRAPH)).any():
        lost[silent] = False
    return lost if lost.any() else _none(len(lost))


def opaque_replays(tables: Tables, launches: Bools) -> tuple[Int64s, Int64s]:
    """Return two sets of calls that replayed a graph with unknown kernels: recorded as wholes, and not recorded.

    nsys records a graph as a whole by default, and exports by nsys <= 2023.4 have no table for that: such replays leave
    only a call. The capture's graph mode, and the absence of any graph, distinguish them from lost ones.

    launches: the result of launch_calls.
    """
    work, launch = tables.work, tables.launch
    wholes = launch[work.kernels :][work.kinds(slice(work.kernels, None)) == GRAPH]
    modes = {
        value
        for name, values in tables.capture_facts.items()
        if name.endswith("CUDA_GRAPH_TRACE_OPTIONS:MODE")
        for value in values
    }
    recorded = np.unique(wholes[wholes >= 0]).astype(np.int64)
    if "Node" in modes or len(wholes) or work.in_graph_of.any():
        return recorded, np.zeros(0, dtype=np.int64)
    silent = launches & graph_launch_calls(tables)
    if silent.any():
        silent[launch[launch >= 0]] = False
    return recorded, np.flatnonzero(silent)


def _none(calls: int) -> Bools:
    """Return False for each call, without memory for it."""
    return np.broadcast_to(np.False_, calls)


def _named(tables: Tables, calls: Calls, pattern: re.Pattern[str]) -> Bools:
    """Return, for each variant of call, whether its name matches."""
    used = tables.strings[tables.strings.index.isin(calls.name_of)]
    matches = np.array([pattern.match(text) is not None for text in used], dtype=bool)
    return np.isin(calls.name_of, used.index.to_numpy(dtype=np.int64)[matches])


def capture_windows(tables: Tables, calls: Calls) -> list[tuple[int, int, int]]:
    """Return start, end (ns) and global tid of each stream capture. A capture that never ends is left out."""
    beginning = _named(tables, calls, _BEGIN_CAPTURE) & ~calls.failed_of
    if not beginning.any():
        return []
    begins = np.flatnonzero(beginning[calls.variant])
    ends = np.flatnonzero(_named(tables, calls, _END_CAPTURE)[calls.variant])
    rows = np.concatenate((begins, ends))
    is_begin = np.arange(len(rows)) < len(begins)
    order = np.lexsort((rows, calls.start_ns[rows]))
    opened: dict[int, list[int]] = {}
    windows: list[tuple[int, int, int]] = []
    # Captures are few, so a loop over their ends is cheap: each end closes its thread's latest begin.
    for row, begin in zip(rows[order].tolist(), is_begin[order].tolist(), strict=True):
        tid = int(calls.tid_of[calls.variant[row]])
        if begin:
            opened.setdefault(tid, []).append(int(calls.start_ns[row]))
        elif opened.get(tid):
            windows.append((opened[tid].pop(), int(calls.ends_ns(row)), tid))
    return windows


def _captured(tables: Tables, calls: Calls) -> Bools | None:
    """Return for each API call whether its process was capturing a stream; None where there is no capture.

    During a capture, a launch only adds a node to a graph. This holds for the whole process, because autograd launches
    a captured backward pass from its own threads. A capture that never ends is ignored: otherwise it would hide every
    kernel that the profiler lost after it.
    """
    windows = capture_windows(tables, calls)
    if not windows:
        return None
    spans = pd.DataFrame(windows, columns=["start_ns", "end_ns", "global_tid"], dtype="int64").assign(style="StartEnd")
    every = np.arange(len(calls), dtype=np.int32)
    captured = np.zeros(len(calls), dtype=bool)
    captured[attribute_work(order_work(every, calls, ["process"])["process"], spans, "StartEnd").pairs()[1]] = True
    return captured


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
