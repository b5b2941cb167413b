"""Find work that a helper thread launches on behalf of another thread, which waits for it inside a range.

Autograd runs the backward pass on a thread that has no ranges, while the main thread waits inside `backward`. Thread
pools and data-parallel helpers work the same way. A trace does not say which thread waits for which, so it is inferred
from what the threads do: the waiting thread makes no CUDA call meanwhile, and the two threads take turns in long runs
of calls instead of interleaving.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.attribution.library_ranges import one_of_each_group, users_ranges
from nsysprof.arrays import find_rows, rows_by_key
from nsysprof.trace.schema import PID_MASK, Bools, Calls, Int64s, Ints, Rows

# Two threads take turns if each side makes this many calls between two changes of side, on average.
_CALLS_A_TURN = 4
# A single turn counts where the owner is silent for this share of its range, or where the turn has several calls and
# the silence is this many times as long as the owner's usual one.
_SILENT_SHARE = 0.5
_LONG_SILENCE = 4.0
# A thread with ranges of its own works for another one if it has at least this many, all while the other one waits.
_LEAST_HELPS = 3
# The most pairs (launching thread, thread that may wait for it) to look at in one process. Programs have a few hundred;
# a trace made to be slow can have millions.
_MOST_PAIRS = 10_000
# How many events are looked at at a time.
_BLOCK = 1 << 18

NONE, NOT_WAITING, SEVERAL, TOO_MANY, ADOPTED, OWN = range(6)
REASONS = {
    NOT_WAITING: "launched by a thread without a range while no other thread waited inside one",
    SEVERAL: "launched by a thread without a range while several others waited inside ranges",
    TOO_MANY: "launched by a thread without a range in a process of too many threads to tell which waited",
}
# Which events happen in silence; and of each range with some: its row, how many it has, in how many turns, how many
# calls of its thread began before the first of them, and how many between the first and the last.
_Turns = tuple[Bools, Int64s, Int64s, Int64s, Int64s, Int64s]
# A pause of a millisecond is long.
_LONG_NS = 1 << 20


@dataclass(frozen=True)
class Points:
    """Events on threads whose range is wanted: launching calls, or creations of graph nodes."""

    start_ns: Int64s
    end_ns: Int64s
    global_tid: Int64s

    def of(self, rows: Int64s | Bools) -> Points:
        """Return only the events in these rows."""
        if len(rows) == len(self.start_ns) and np.array_equal(rows, np.arange(len(rows))):
            return self
        return Points(self.start_ns[rows], self.end_ns[rows], self.global_tid[rows])


@dataclass(frozen=True)
class Adoption:
    """The range that adopted each event, and why."""

    # The row of the innermost range that waited for the event's thread, or -1.
    owner: Rows
    # The reason: NONE (no other thread of the process was inside a range of the user) to OWN (its own thread was).
    reason: npt.NDArray[np.int8]


class ThreadRanges:
    """The open ranges and the CUDA calls of each thread, computed once for all events of a trace.

    ranges: range instances in order of start, with their parents.
    calls: all API calls of the trace.
    """

    def __init__(self, ranges: pd.DataFrame, parent: Int64s, calls: Calls) -> None:
        self.start = ranges["start_ns"].to_numpy(dtype=np.int64)
        self.end = ranges["end_ns"].to_numpy(dtype=np.int64)
        self.parent, self.calls = parent, calls
        code, some = one_of_each_group(ranges)
        self.name = pd.factorize(some["name"])[0][code]
        self.seq = ranges["seq"].to_numpy(dtype=np.int64) if "seq" in ranges else np.full(len(ranges), -1)
        pushed = (ranges["style"] == "PushPop").to_numpy(dtype=bool)
        self.of_user: Bools = users_ranges(ranges) & pushed
        self.tid = ranges["global_tid"].to_numpy(dtype=np.int64)
        order = np.flatnonzero(pushed)[np.argsort(self.tid[pushed], kind="stable")]
        owners, first = np.unique(self.tid[order], return_index=True)
        self.rows = dict(zip(owners.tolist(), np.split(order, first[1:]), strict=True)) if len(order) else {}
        self.waiters = [tid for tid, rows in self.rows.items() if self.of_user[rows].any()]
        self._calls_of: dict[int, ThreadCalls] = {}

    def innermost(self, tid: int, begin: Int64s, finish: Int64s, *, of_user: bool) -> Rows:
        """Return the row of the innermost range of a thread that is open in each stretch of time (-1: none).

        of_user: whether to ignore ranges that libraries opened.
        """
        innermost_rows = np.full(len(begin), -1, dtype=np.int32)
        for low in range(0, len(begin) if tid in self.rows else 0, _BLOCK):
            part = slice(low, low + _BLOCK)
            innermost_rows[part] = self._innermost(self.rows[tid], begin[part], finish[part], of_user=of_user)
        return innermost_rows

    def _innermost(self, rows: Int64s, begin: Int64s, finish: Int64s, *, of_user: bool) -> Int64s:
        at = np.searchsorted(self.start[rows], begin, "right") - 1
        open_row = np.where(at >= 0, rows[np.maximum(at, 0)], -1)
        while True:
            wrong = (open_row >= 0) & (self.end[open_row] < finish)
            if of_user:
                wrong |= (open_row >= 0) & ~self.of_user[open_row]
            if not wrong.any():
                return open_row
            open_row[wrong] = self.parent[open_row[wrong]]

    def calls_of(self, tid: int) -> ThreadCalls:
        """Return the CUDA calls of a thread."""
        if tid not in self._calls_of:
            self._calls_of[tid] = order_calls(self.calls, self.calls.tid_of == tid)
        return self._calls_of[tid]


def adopt(threads: ThreadRanges, points: Points) -> Adoption:
    """Return the range that waits for each event whose own thread has no range of the user open.

    Of a thread that opens all of its ranges while another one waits for it, as hooks do in autograd's thread, the
    events inside these ranges are adopted too.
    """
    owner = np.full(len(points.start_ns), -1, dtype=np.int32)
    reason = np.full(len(owner), NONE, dtype=np.int8)
    if not threads.waiters:
        return Adoption(owner, reason)
    waiters = defaultdict(list)
    for waiting_tid in threads.waiters:
        waiters[waiting_tid & PID_MASK].append(waiting_tid)
    pairs: Counter[int] = Counter()
    by_start, tids = None, points.global_tid
    if not bool((points.start_ns[1:] >= points.start_ns[:-1]).all()):
        by_start = np.argsort(points.start_ns, kind="stable")
        tids = tids[by_start]
    for tid, launched in rows_by_key(pd.Series(tids), by_start):
        own = np.zeros(len(launched), dtype=np.bool_)
        for low in range(0, len(launched), _BLOCK):
            some = launched[low : low + _BLOCK]
            begin, finish = points.start_ns[some], points.end_ns[some]
            own[low : low + _BLOCK] = threads.innermost(tid, begin, finish, of_user=True) >= 0
        reason[launched[own]] = OWN
        mine = launched[~own] if own.any() else launched
        process = tid & PID_MASK
        if not waiters[process] or waiters[process] == [tid]:
            continue
        pairs[process] += len(waiters[process])
        if pairs[process] > _MOST_PAIRS:
            reason[mine] = TOO_MANY
            continue
        others = [other for other in waiters[process] if other != tid]
        if len(mine):
            owner[mine], reason[mine] = _adopt_thread(threads, points.of(mine), tid, others)
        if own.any() and (waiter := _helped_thread(threads, tid, others)) is not None:
            inside = launched[own]
            begin, finish = points.start_ns[inside], points.end_ns[inside]
            owner[inside] = threads.innermost(waiter, begin, finish, of_user=True)
            reason[inside[owner[inside] >= 0]] = ADOPTED
    return Adoption(owner, reason)


def helped_parents(threads: ThreadRanges) -> Int64s:
    """Return the parent of each range, or -1: on its thread, or else the range that waited for its whole thread."""
    parents = threads.parent.copy()
    of_process = defaultdict(list)
    for tid in threads.waiters:
        of_process[tid & PID_MASK].append(tid)
    for tids in of_process.values():
        if not 1 < len(tids) <= _MOST_PAIRS // len(tids):
            continue
        for tid in tids:
            waiter = _helped_thread(threads, tid, [other for other in tids if other != tid])
            if waiter is not None:
                outer = threads.rows[tid][parents[threads.rows[tid]] < 0]
                parents[outer] = threads.innermost(waiter, threads.start[outer], threads.end[outer], of_user=True)
    return parents


def _helped_thread(threads: ThreadRanges, tid: int, others: list[int]) -> int | None:
    """Return the one other thread that waits inside its own ranges during every range of the user on this thread.

    A name that both threads use would count the same work twice.
    """
    rows = threads.rows[tid][threads.of_user[threads.rows[tid]]]
    start, end = threads.start[rows], threads.end[rows]
    outer = start >= np.append(np.iinfo(np.int64).min, np.maximum.accumulate(end)[:-1])
    if int(outer.sum()) < _LEAST_HELPS:
        return None
    start, end = start[outer], end[outer]
    helped = []
    for other in others:
        if (threads.innermost(other, start, end, of_user=True) < 0).any():
            continue
        calls = threads.calls_of(other)
        before = np.searchsorted(calls.start_ns, start, "right")
        is_silent = calls.ended_ns(before) <= start
        is_silent &= np.searchsorted(calls.start_ns, end, "left") == before
        names = threads.name[threads.rows[other]]
        if is_silent.all() and not np.isin(threads.name[rows], names).any():
            helped.append(other)
    return helped[0] if len(helped) == 1 else None


def _adopt_thread(threads: ThreadRanges, points: Points, tid: int, others: list[int]) -> tuple[Ints, Ints]:
    """Return the adopting range and the reason for each event of one helper thread, in order of start."""
    count = np.zeros(len(points.start_ns), dtype=np.int32)
    inside = np.zeros(len(count), dtype=bool)
    owner = np.full(len(count), -1, dtype=np.int32)
    candidates = []
    for other in others:
        candidate = threads.innermost(other, points.start_ns, points.end_ns, of_user=True)
        inside |= candidate >= 0
        candidate[~_waits(threads, other, points, candidate)] = -1
        count += candidate >= 0
        np.copyto(owner, candidate, where=candidate >= 0)
        candidates.append(candidate)
    several = np.flatnonzero(count > 1)
    if len(several):
        owner[several] = _same_sequence(
            threads, points.of(several), tid, [candidate[several] for candidate in candidates]
        )
    reason = np.full(len(owner), NONE, dtype=np.int8)
    for which, why in ((inside, NOT_WAITING), (count > 1, SEVERAL), (owner >= 0, ADOPTED)):
        reason[which] = why
    return owner, reason


def _waits(threads: ThreadRanges, other: int, points: Points, candidate: Rows) -> Bools:
    """Return for each event whether thread `other` waits for it inside the range `candidate`.

    candidate: the row of the range for each event, or -1 for none.
    """
    calls = threads.calls_of(other)
    silent, instance, lengths, turns, first, between = _find_turns(calls, points, candidate)
    waits = np.zeros(len(candidate), dtype=bool)
    if len(instance) == 0:
        return waits
    usual = calls.usual_pause_ns()
    takes_turns = (turns > 1) & (lengths >= _CALLS_A_TURN * turns) & (between >= _CALLS_A_TURN * (turns - 1))
    # A single turn: compare how long the owner is silent around it.
    since = np.maximum(calls.ended_ns(first), threads.start[instance])
    since[first == 0] = threads.start[instance[first == 0]]
    until = np.minimum(_at(calls.start_ns, first, np.iinfo(np.int64).max), threads.end[instance])
    silence = until - since
    share = silence >= _SILENT_SHARE * (threads.end[instance] - threads.start[instance])
    long = (lengths >= _CALLS_A_TURN) & (silence >= _LONG_SILENCE * usual)
    accepted = np.zeros(len(threads.start), dtype=np.bool_)
    accepted[instance] = np.where(turns > 1, takes_turns, share | long)
    np.logical_and(silent, accepted[candidate], out=waits)
    return waits


def _find_turns(calls: ThreadCalls, points: Points, candidate: Rows) -> _Turns:
    """Return which events find the thread silent, and the turns of each range: see _Turns."""
    # How many calls of the thread began before each event.
    gap = np.searchsorted(calls.start_ns, points.start_ns, "right").astype(np.int32)
    silent = (candidate >= 0) & ((gap == 0) | (calls.ended_ns(gap) <= points.start_ns))
    rows = np.flatnonzero(silent).astype(np.int32)
    order = rows[np.lexsort((gap[rows], candidate[rows]))]
    owners, turn = candidate[order].astype(np.int64), gap[order].astype(np.int64)
    fresh = np.diff(owners, prepend=-2) != 0
    begins = np.flatnonzero(fresh)
    if len(begins) == 0:
        return silent, begins, begins, begins, begins, begins
    new_turn = fresh | (np.diff(turn, prepend=-1) != 0)
    turns = np.add.reduceat(new_turn.astype(np.int64), begins)
    between = np.maximum.reduceat(turn, begins) - np.minimum.reduceat(turn, begins)
    lengths = np.diff(np.append(begins, len(order)))
    return silent, owners[begins], lengths, turns, turn[begins], between


def _at(values: Int64s, places: Ints, otherwise: int) -> Int64s:
    """Return the values at some places, and `otherwise` for a place before the first or after the last."""
    if len(values) == 0:
        return np.full(len(places), otherwise, dtype=np.int64)
    inside = (places >= 0) & (places < len(values))
    chosen: Int64s = np.where(inside, values[np.clip(places, 0, len(values) - 1)], otherwise)
    return chosen


def _same_sequence(threads: ThreadRanges, points: Points, tid: int, candidates: list[Ints]) -> Int64s:
    """Return the one candidate whose thread ran the forward operator of this backward operator, or -1.

    emit_nvtx gives a backward operator the sequence number of its forward operator.
    """
    own = threads.innermost(tid, points.start_ns, points.end_ns, of_user=False)
    seq = np.where(own >= 0, threads.seq[own], -1)
    while (unknown := (own >= 0) & (seq < 0)).any():
        own[unknown] = threads.parent[own[unknown]]
        seq = np.where(own >= 0, threads.seq[own], -1)
    same = np.full(len(seq), -1, dtype=np.int64)
    for candidate in candidates:
        which = np.flatnonzero(candidate >= 0)
        if len(which) == 0:
            continue
        forward = threads.seq[threads.tid == threads.tid[candidate[which[0]]]]
        which = which[(seq[which] >= 0) & np.isin(seq[which], forward[forward >= 0])]
        same[which] = np.where(same[which] == -1, candidate[which], -2)
    return np.where(same >= 0, same, -1)


@dataclass(frozen=True)
class ThreadCalls:
    """The CUDA calls of a thread, in order of start."""

    start_ns: Int64s
    # How long after the start of each call this call and all earlier ones had ended (ns). A runtime call may contain a
    # driver call, and then ends after it.
    lasted_ns: Ints

    def ended_ns(self, count: Ints) -> Int64s:
        """Return when the first `count` calls had all ended (ns), for each count; 0 where it is 0."""
        if len(self.start_ns) == 0:
            return np.zeros(len(count), dtype=np.int64)
        last = np.maximum(count - 1, 0)
        ended: Int64s = np.where(count > 0, self.start_ns[last] + self.lasted_ns[last], 0)
        return ended

    def usual_pause_ns(self) -> float:
        """Return the median time from the end of a call to the start of the next (ns); 0 for fewer than two calls."""
        pauses = len(self.start_ns) - 1
        if pauses < 1:
            return 0.0
        # Longer times and negative ones are counted as the longest and as 0, which changes no median between these.
        times = np.zeros(_LONG_NS + 1, dtype=np.int32)
        for low in range(0, pauses, _BLOCK):
            part = slice(low, min(low + _BLOCK, pauses))
            np.add.at(times, np.clip(self._pauses_ns(part), 0, _LONG_NS), np.int32(1))
        middle = [(pauses - 1) // 2, pauses // 2]
        found = np.searchsorted(np.cumsum(times, dtype=np.int64), middle, "right")
        if found[0] == 0 or found[1] == _LONG_NS:
            return float(np.median(self._pauses_ns(slice(0, pauses))))
        return float(found.mean())

    def _pauses_ns(self, part: slice) -> Int64s:
        after: Int64s = self.start_ns[part.start + 1 : part.stop + 1] - self.start_ns[part]
        return after - self.lasted_ns[part]


def order_calls(calls: Calls, of_variant: Bools) -> ThreadCalls:
    """Return the calls of some variants, in order of start.

    of_variant: whether the calls of each variant are wanted.
    """
    if of_variant.all():
        rows, start = None, calls.start_ns
    else:
        rows = find_rows(of_variant, calls.variant)
        start = calls.start_ns[rows]
    if not bool((start[1:] >= start[:-1]).all()):
        order = np.argsort(start, kind="stable").astype(np.int32)
        start, rows = start[order], order if rows is None else rows[order]
    lasted: Ints = np.empty(len(start), dtype=np.uint32)
    reached = np.iinfo(np.int64).min
    for low in range(0, len(start), _BLOCK):
        part = slice(low, low + _BLOCK)
        ended = start[part] + calls.duration_ns[part if rows is None else rows[part]]
        ended[0] = max(reached, int(ended[0]))
        np.maximum.accumulate(ended, out=ended)
        reached = int(ended[-1])
        ended -= start[part]
        if lasted.dtype == np.uint32 and int(ended.max()) >= 2**32:
            lasted = lasted.astype(np.int64)
        lasted[part] = ended
    return ThreadCalls(start, lasted)
