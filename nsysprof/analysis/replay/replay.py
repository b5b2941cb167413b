"""Replay an execution graph, unchanged or with changes, to compute how long the steps would take.

Turn the steady part of a trace into a graph: calls by thread, the work they issued, and what waited for what.

Every time is stored relative to what it followed, so a replay of the unchanged graph gives the recorded times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysprof.analysis.idle_time.call_classes import (
    COPIES,
    FREES_AND_WAITS,
    HELD_NOTHING,
    LAUNCH,
    MEMORY,
    CallClasses,
    call_texts,
)  # fmt: skip
from nsysprof.analysis.idle_time.full_queues import find_full_queues
from nsysprof.analysis.idle_time.interval_layers import outermost
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.arrays import find_rows
from nsysprof.native.load import loop
from nsysprof.trace.schema import COPY, MIGRATION, PID_MASK, Bools, Int64s, Ints, Tables

# If a thread makes no call for longer than this, another thread may have worked for it meanwhile.
_HAND_OVER_NS = 50_000
# Work that starts later than this (ns) after everything that it is known to follow waited for something else.
_UNEXPLAINED_NS = 3_000
_ENDED_JUST_BEFORE_NS = 20_000
# The time that a synchronising call itself takes (ns).
_OWN_COST_NS = 2_000
# The most events in a graph. Steps are alike, so few of them suffice. Without steps, the whole trace is used; large
# traces take long to read anyway.
_MOST_EVENTS, _MOST_EVENTS_OF_WHOLE = 40_000, 400_000
_LARGE = 1_000_000
# Steps do the same if their numbers of calls differ by no more than this share; this many of them suffice.
_ALIKE = 0.02
_LEAST_STEPS = 4
_NONE = -1
_NEVER_NS = int(np.iinfo(np.int64).max)
_ROWS_AT_ONCE = 1 << 18
# The kinds of copies that have an engine for each direction.
_BETWEEN_HOST_AND_DEVICE = (1, 2)


@dataclass(frozen=True)
class ExecutionGraph:
    """Calls in order of their starts, and work in the order in which the calls issued it."""

    # How many steps there are. If there are several, the first only prepares the state: its calls are the first
    # `first_calls`, and recorded_ns and busy_ns begin when its work is done.
    steps: int
    first_calls: int
    # The number of the first step among the steady ones.
    first_step: int
    # When the first step began.
    begin_ns: int

    # Facts about each call. Its row in Tables.calls.
    row: Int64s
    # The call that it came after, on its own thread or on the thread that handed over to it; or -1.
    follows: Int64s
    # Its predecessor on its own thread, where that is a different call; or -1.
    also_after: Int64s
    # The time (ns) since the end of `follows`, or since the begin of the graph.
    gap_ns: Int64s
    # Its duration without waiting (ns).
    cost_ns: Int64s
    # The work whose end let the call return (or -1), and the time from that end to the end of the call (ns).
    waits_for: Int64s
    return_ns: Int64s
    # The position of its first work in the list of work; the array has one more entry for the end.
    first_work: Int64s

    # Facts about each piece of work. Its row in Tables.work, and the number of its stream.
    work_row: Int64s
    stream: Int64s
    # The least time (ns) between its start and three other times: the start of its call, the end of the work before it
    # in its stream, and the end of `other` (a piece of work, or -1).
    issue_ns: Int64s
    stream_ns: Int64s
    other_ns: Int64s
    other: Int64s
    duration_ns: Int64s
    # The copy of another stream, in the same direction, that ended last before it began, or -1: both queue for one
    # engine, so they never overlap.
    engine: Int64s

    # When each stream had finished earlier work (ns since the begin).
    stream_free_ns: Int64s
    recorded_ns: int
    busy_ns: int


def build_graph(
    tables: Tables, launch: Ints, classes: CallClasses, steps: Steps, last_steps: int = 0
) -> ExecutionGraph | None:
    """Return the graph of steady steps, or of the last part of a trace without steps; None without calls.

    last_steps: so many steps at the end are taken, as on the other ranks of a job; 0 chooses typical ones.
    """
    calls = tables.calls
    if calls is None or len(calls) == 0:
        return None
    of_process = (calls.tid_of & PID_MASK) == steps.global_pid
    every = None if of_process.all() else find_rows(of_process, calls.variant)  # None: all calls, in order
    start = calls.start_ns if every is None else calls.start_ns[every]
    if not bool((start[1:] >= start[:-1]).all()):
        order = np.argsort(start, kind="stable")
        every, start = order.astype(np.int32) if every is None else every[order], start[order]
        del order
    low, high, chosen_steps, begin = _window(steps, start, tables, launch, last_steps)
    first_step, count = chosen_steps
    chosen = np.arange(low, min(high, len(start))) if every is None else every[low:high].astype(np.int64)
    del every, start
    if len(chosen) == 0:
        return None
    rows = chosen[_top_level(calls.start_ns[chosen], calls.ends_ns(chosen), calls.tid_of[calls.variant[chosen]])]
    later = steps.starts_ns[np.searchsorted(steps.starts_ns, begin, "right")] if count > 1 else begin
    first = int(np.searchsorted(calls.start_ns[rows], later, "left")) if count > 1 else 0
    begin = min(begin, int(calls.start_ns[rows[0]]))
    graph = _build(tables, launch, classes, rows, begin, count, first)
    return None if graph is None else replace(graph, first_step=first_step)


def _window(
    steps: Steps, start: Int64s, tables: Tables, launch: Ints, last_steps: int
) -> tuple[int, int, tuple[int, int], int]:
    """Return the low and high position of the calls to replay, their first step and how many, and when these begin.

    Among steps that do the same, those consecutive ones are chosen whose mean is nearest to the time of a usual step.
    """
    is_whole = not steps.are_known or len(tables.work) >= _LARGE
    most = _MOST_EVENTS_OF_WHOLE if is_whole else _MOST_EVENTS
    most = int(most / (1 + len(tables.work) / max(1, len(start))))
    if not steps.are_known:
        low, high = _calls_of_work(tables, launch, start)
        low = max(low, high - most)
        return low, high, (0, 1), int(start[low]) if low < len(start) else 0
    bounds = np.searchsorted(start, steps.starts_ns, "left")
    first, count = (steps.count - last_steps, last_steps) if last_steps else _choose_steps(steps, np.diff(bounds), most)
    return int(bounds[first]), int(bounds[first + count]), (first, count), int(steps.starts_ns[first])


def _choose_steps(steps: Steps, calls: Int64s, most: int) -> tuple[int, int]:
    """Return the first of the consecutive steps to replay, and how many they are.

    Slow steps are left out where enough consecutive ones remain. If all steps do the same, a third of them suffices.

    calls: how many calls each step made.
    most: how many calls to replay.
    """
    edges = np.flatnonzero(np.concatenate(([True], steps.is_slow, [True])))
    usual = int(np.diff(edges).max()) - 1
    count = usual if usual >= _LEAST_STEPS else steps.count
    if count > _LEAST_STEPS and int(calls.max() - calls.min()) <= _ALIKE * calls.mean():
        count = max(_LEAST_STEPS, count // 3 + 1)
    count = max(1, min(count, most // max(1, int(calls.mean()))))
    # The replay prepares its state with the first of several.
    prepares = int(count > 1)
    starts = steps.bounds_ns[prepares : len(steps.bounds_ns) - (count - prepares)]
    took = (steps.bounds_ns[count:] - starts) / (count - prepares)
    slow = np.concatenate(([0], np.cumsum(steps.is_slow)))
    has_slow = slow[count:] > slow[:-count]
    return int(np.lexsort((np.abs(took - steps.step_ns), has_slow))[0]), count


def _calls_of_work(tables: Tables, launch: Ints, start: Int64s) -> tuple[int, int]:
    """Return the positions from the call of the first work to the last call before the last work ended."""
    first = _NEVER_NS
    starts = np.zeros(0, dtype=np.int64) if tables.calls is None else tables.calls.start_ns
    for place in range(0, len(launch) if len(starts) else 0, _ROWS_AT_ONCE):
        call = launch[place : place + _ROWS_AT_ONCE]
        first = min(first, int(starts[call[call >= 0]].min(initial=_NEVER_NS)))
    if first == _NEVER_NS:
        return 0, len(start)
    low, high = np.searchsorted(start, [first, tables.work.last_end_ns()], "left").tolist()
    return low, high


def _top_level(start: Int64s, end: Int64s, tid: Int64s) -> Int64s:
    """Return the positions of the calls that were not made inside another call."""
    kept = np.zeros(len(start), dtype=np.bool_)
    for thread in np.unique(tid).tolist():
        mine = np.flatnonzero(tid == thread)
        mine = mine[np.lexsort((-end[mine], start[mine]))]
        kept[mine[outermost(start[mine], end[mine])]] = True
    return np.flatnonzero(kept)


def _build(
    tables: Tables, launch: Ints, classes: CallClasses, rows: Int64s, begin: int, count: int, first: int
) -> ExecutionGraph | None:
    calls, work = tables.calls, tables.work
    assert calls is not None
    start, end = calls.start_ns[rows], calls.ends_ns(rows)
    tid = calls.tid_of[calls.variant[rows]]
    follows, also_after = _order_calls(start, end, tid)
    previous_end = np.where(follows >= 0, end[np.maximum(follows, 0)], begin)
    issued, owner = _issued(tables, launch, rows)
    if len(issued) == 0:
        return None
    first_work = np.searchsorted(owner, np.arange(len(rows) + 1))
    stream_of, stream = np.unique(work.streams_of[work.variant[issued]], axis=0, return_inverse=True)
    stream = stream.reshape(-1)
    times = _Times(work.start_ns[issued], work.ends_ns(issued))
    placed = _place_work(times, start[owner], stream, len(stream_of), begin)
    frees = _waiting_frees(tables, rows, issued)
    waits_for, return_ns, cost = _waits(start, end, classes, rows, first_work, times, stream, len(stream_of), frees)
    upto = int(first_work[first])
    since = max(int(end[:first].max(initial=begin)), int(times.end[:upto].max(initial=begin)))
    recorded = max(int(end.max()), int(times.end.max())) - since
    return ExecutionGraph(
        steps=count, first_calls=first, first_step=0, begin_ns=begin, row=rows, follows=follows,
        also_after=also_after, gap_ns=start - previous_end,
        cost_ns=cost, waits_for=waits_for, return_ns=return_ns, first_work=first_work, work_row=issued,
        stream=stream, issue_ns=placed[0], stream_ns=placed[1], other_ns=placed[2], other=placed[3],
        duration_ns=times.end - times.start, engine=_queue_copies(tables, issued, times, stream),
        stream_free_ns=placed[4],
        recorded_ns=recorded, busy_ns=_busy(times, since),
    )  # fmt: skip


@dataclass(frozen=True)
class _Times:
    start: Int64s
    end: Int64s


def _busy(times: _Times, begin: int) -> int:
    order = np.argsort(times.start, kind="stable")
    start, end = np.maximum(times.start[order], begin), np.maximum(times.end[order], begin)
    reached = np.maximum.accumulate(end)
    gaps = np.maximum(start[1:] - reached[:-1], 0).sum()
    return int(reached[-1] - start[0] - gaps)


def count_periods(graph: ExecutionGraph) -> int:
    """Return how many steps recorded_ns and replays of the graph last."""
    return graph.steps - 1 if graph.first_calls else graph.steps


def _order_calls(start: Int64s, end: Int64s, tid: Int64s) -> tuple[Int64s, Int64s]:
    """Return what each call came after: its predecessor on its thread, or a call of a thread that handed over to it."""
    follows = np.full(len(start), _NONE, dtype=np.int64)
    also = np.full(len(start), _NONE, dtype=np.int64)
    for thread in np.unique(tid).tolist():
        mine = np.flatnonzero(tid == thread)
        follows[mine[1:]] = mine[:-1]
    if len(np.unique(tid)) > 1:
        order = np.argsort(end, kind="stable")
        at = np.searchsorted(end[order], start, "right") - 1
        latest = np.where(at >= 0, order[np.maximum(at, 0)], _NONE)
        own_end = np.where(follows >= 0, end[np.maximum(follows, 0)], np.iinfo(np.int64).min)
        long = (start - np.maximum(own_end, 0) > _HAND_OVER_NS) | (follows < 0)
        given = long & (latest >= 0) & (tid[np.maximum(latest, 0)] != tid) & (end[np.maximum(latest, 0)] > own_end)
        also[given], follows[given] = follows[given], latest[given]
    return follows, also


def _issued(tables: Tables, launch: Ints, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return the work that these calls issued, ordered by call and start, and the position of each one's call."""
    calls, work = tables.calls, tables.work
    assert calls is not None
    chosen = np.zeros(len(calls) + 1, dtype=np.bool_)  # the last element is for work without a call, whose launch is -1
    chosen[rows] = True
    issued = np.flatnonzero(chosen[launch])
    issued = issued[(work.kind_of != MIGRATION)[work.variant[issued]]]
    by_row = np.argsort(rows, kind="stable")
    owner = by_row[np.searchsorted(rows[by_row], launch[issued])]
    order = np.lexsort((work.start_ns[issued], owner))
    return issued[order], owner[order]


def _place_work(
    times: _Times, call_start: Int64s, stream: Int64s, streams: int, begin: int
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
    """Return how long after three events each piece of work starts.

    The events are its call, the work before it in its stream, and work of another stream.
    """
    start, end = times.start, times.end
    before = np.full(len(start), np.iinfo(np.int64).min // 2, dtype=np.int64)
    free = np.full(streams, np.iinfo(np.int64).min // 2, dtype=np.int64)
    for number in range(streams):
        mine = np.flatnonzero(stream == number)
        before[mine[1:]] = end[mine[:-1]]
    since_call, since_stream = start - call_start, start - before
    least_call = _least(since_call[since_stream > 10 * _UNEXPLAINED_NS], 5_000)
    least_stream = _least(since_stream[since_call > 20 * _UNEXPLAINED_NS], 1_000)
    over_call, over_stream = since_call - least_call, since_stream - least_stream
    excess = np.minimum(over_call, over_stream)
    other = np.full(len(start), _NONE, dtype=np.int64)
    other_ns = np.zeros(len(start), dtype=np.int64)
    is_crowded = np.zeros(len(start), dtype=np.bool_)
    unexplained = np.flatnonzero(excess > _UNEXPLAINED_NS)
    if streams > 1 and len(unexplained):
        latest = _latest_of_others(times, stream, streams, unexplained)
        near = (latest >= 0) & (start[unexplained] - end[np.maximum(latest, 0)] <= _ENDED_JUST_BEFORE_NS)
        chosen = unexplained[near]
        other[chosen], other_ns[chosen] = latest[near], start[chosen] - end[latest[near]]
        is_crowded[unexplained] = ~near & (excess[unexplained] > _ENDED_JUST_BEFORE_NS)
        is_crowded &= _is_beside_others(times, stream, streams)
    # What starts while another stream works, and nothing just ended, waited for room on the GPU. A replay with shorter
    # work has that room earlier.
    bound_by_call = (over_call <= over_stream) & (other < 0) & ~is_crowded
    bound_by_stream = (over_call > over_stream) & (other < 0) & ~is_crowded
    issue = np.where(bound_by_call, since_call, np.minimum(since_call, least_call))
    stream_ns = np.where(bound_by_stream, since_stream, np.minimum(since_stream, least_stream))
    return issue, stream_ns, other_ns, other, free - begin


def _is_beside_others(times: _Times, stream: Int64s, streams: int) -> Bools:
    """Return which work began while another stream worked."""
    is_beside = np.zeros(len(stream), dtype=np.bool_)
    for number in range(streams):
        mine = np.flatnonzero(stream == number)
        mine = mine[np.argsort(times.start[mine], kind="stable")]
        at = np.searchsorted(times.start[mine], times.start, "right") - 1
        running = (at >= 0) & (times.end[mine[np.maximum(at, 0)]] > times.start)
        is_beside |= running & (stream != number)
    return is_beside


def _queue_copies(tables: Tables, issued: Int64s, times: _Times, stream: Int64s) -> Int64s:
    """Return for each copy the copy of another stream before it in the queue of its engine, or -1.

    An engine moves data in one direction, between the host and one device. Copies that overlap have engines of their
    own.
    """
    work = tables.work
    engine = np.full(len(issued), _NONE, dtype=np.int64)
    copies = np.flatnonzero(work.kinds(issued) == COPY)
    kind = work.copy_kind[issued[copies] - work.kernels]
    device = work.device_of[work.variant[issued[copies]]]
    for direction in _BETWEEN_HOST_AND_DEVICE:
        for number in np.unique(device[kind == direction]).tolist():
            mine = copies[(kind == direction) & (device == number)]
            mine = mine[np.argsort(times.start[mine], kind="stable")]
            before, after = mine[:-1], mine[1:]
            queues = (stream[before] != stream[after]) & (before < after) & (times.end[before] <= times.start[after])
            engine[after[queues]] = before[queues]
    return engine


def _latest_of_others(times: _Times, stream: Int64s, streams: int, rows: Int64s) -> Int64s:
    """Return for each row the last work of another stream that was issued and ended before it began, or -1."""
    found = np.full(len(rows), _NONE, dtype=np.int64)
    best = np.full(len(rows), np.iinfo(np.int64).min)
    for number in range(streams):
        mine = np.flatnonzero(stream == number)
        ends = times.end[mine]
        if not bool((ends[1:] >= ends[:-1]).all()):
            order = np.argsort(ends, kind="stable")
            mine, ends = mine[order], ends[order]
        at = np.searchsorted(ends, times.start[rows], "right") - 1
        last = np.maximum(at, 0)
        good = (at >= 0) & (stream[rows] != number) & (mine[last] < rows) & (ends[last] > best)
        found[good], best[good] = mine[last[good]], ends[last[good]]
    return found


def _least(values: Int64s, usual: int) -> int:
    """Return the shortest time that something takes: the first decile, but at most four times the usual time."""
    return min(int(np.percentile(values, 10)), 4 * usual) if len(values) else usual


def _waits(
    start: Int64s, end: Int64s, classes: CallClasses, rows: Int64s, first_work: Int64s, times: _Times,
    stream: Int64s, streams: int, frees: Bools,
) -> tuple[Int64s, Int64s, Int64s]:  # fmt: skip
    """Return for each call the work whose end let it return, the time from there to its end, and its own cost.

    The work is -1 where the call did not wait. Calls that always wait have the last work before them, even if that had
    ended already: if something else no longer waits for it, they do.

    frees: which calls always wait for all work.
    """
    waits_for = np.full(len(start), _NONE, dtype=np.int64)
    may_wait = (classes.held[rows] != HELD_NOTHING) | np.isin(classes.of(rows), (MEMORY, COPIES))
    cost = end - start
    return_ns = np.zeros(len(start), dtype=np.int64)
    # The last end, not after the call's own, among the work that had been issued.
    latest = np.full(streams, _NONE, dtype=np.int64)
    chosen = np.flatnonzero(may_wait).tolist()
    done = 0
    for call in chosen:
        upto = int(first_work[call + 1])
        if upto > done:
            latest[stream[done:upto]] = np.arange(done, upto)
            done = upto
        known = latest[latest >= 0]
        ends = times.end[known]
        inside = (ends > start[call]) & (ends <= end[call])
        if inside.any():
            best = int(known[inside][np.argmax(ends[inside])])
            waits_for[call] = best
            return_ns[call] = end[call] - times.end[best]
            cost[call] = min(int(cost[call]), max(_OWN_COST_NS, int(return_ns[call])))
        elif frees[call] and len(known):
            waits_for[call], return_ns[call] = int(known[np.argmax(ends)]), cost[call]
    held, freed_by = _full_queues(start, end, classes.of(rows) == LAUNCH, first_work, times)
    waits_for[held], return_ns[held] = freed_by, end[held] - times.end[freed_by]
    cost[held] = np.minimum(cost[held], np.maximum(_OWN_COST_NS, return_ns[held]))
    return waits_for, return_ns, cost


def _waiting_frees(tables: Tables, rows: Int64s, issued: Int64s) -> Bools:
    """Return which calls give memory back and so wait for all work of the device. It is only known if there is one."""
    calls, work = tables.calls, tables.work
    assert calls is not None
    if len(np.unique(work.device_of[work.variant[issued]])) > 1:
        return np.zeros(len(rows), dtype=np.bool_)
    is_free = np.array([FREES_AND_WAITS.match(name) is not None for name in call_texts(tables)], dtype=bool)
    found: Bools = is_free[calls.variant[rows]]
    return found


def _full_queues(
    start: Int64s, end: Int64s, is_launch: Bools, first_work: Int64s, times: _Times
) -> tuple[Int64s, Int64s]:
    """Return the launches that waited for room in the GPU's queue, and the work whose end let each go on."""
    order = np.argsort(times.end, kind="stable")
    ends = times.end[order]
    slow = find_full_queues(start, end, is_launch, first_work[:-1], ends)
    freed_by = order[np.maximum(np.searchsorted(ends, end[slow], "right") - 1, 0)]
    known = (freed_by < first_work[slow]) & (times.end[freed_by] > start[slow]) & (times.end[freed_by] <= end[slow])
    return slow[known], freed_by[known]


# ruff: noqa: PLR1730 - max() takes half as long again as a comparison, in Python and in the compiler


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
