"""Find the causes of each gap: split it into pieces that add up to it, each with one cause.

Find the causes of gaps by compiled code, which goes through them once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.analysis.idle_time.call_classes import HELD_NOTHING, LAUNCH, MEMORY, SLOW_NS, CallClasses
from nsysprof.analysis.idle_time.call_ends import CallEnds, list_ends
from nsysprof.analysis.idle_time.gaps import Gaps
from nsysprof.analysis.idle_time.host_holds import find_host_holds, intervals_of
from nsysprof.analysis.idle_time.interval_layers import Layer, cut, merge_layer, overlay
from nsysprof.arrays import GrowingColumn, count_codes, different
from nsysprof.native.load import loop
from nsysprof.results.column_registry.analysis_columns import CAUSES
from nsysprof.trace.schema import PID_MASK, Bools, Calls, Int64s, Ints, Rows, Tables

# The ends of calls are listed for this many gaps at a time.
# Room for pieces (this many for each four gaps, and some); where it is used up, it grows by an eighth.
_PIECES_OF_FOUR, _SOME = 6, 1024

# What Blamed has: start, duration and cause of each piece, the pieces with calls and their calls, and the sums.
Columns = tuple[Int64s, Ints, npt.NDArray[np.int8], Rows, Rows, Int64s, Int64s, tuple[int, int]]


@dataclass(frozen=True)
class Holds:
    """What held up each thread and when: the layers of HeldThreads one after another."""

    # The global tids in order. The rows of thread t lie from first[t] to first[t + 1].
    tids: Int64s
    first: Int64s
    start_ns: Int64s
    end_ns: Int64s
    cause: Int64s
    call: Int64s


def list_holds(holds: dict[int, Layer], holder_cause: Int64s, holder_call: Int64s) -> Holds:
    """Return what held up each thread, with the cause and the call of each holder."""
    tids = sorted(holds)
    none = [np.zeros(0, dtype=np.int64)]
    columns = ([getattr(holds[tid], name) for tid in tids] for name in ("start_ns", "end_ns", "code"))
    start, end, holder = (each[0] if len(each) == 1 else np.concatenate(none + each) for each in columns)
    first = np.cumsum([0, *(len(holds[tid]) for tid in tids)], dtype=np.int64)
    return Holds(np.array(tids, dtype=np.int64), first, start, end, holder_cause[holder], holder_call[holder])


def blame_compiled(
    blame: Callable[..., int], calls: Calls, launch: Rows, gaps: Gaps, held: Holds, ends: CallEnds | None, *,
    pick_up_ns: int, is_collective: Bools, lost_ns: Int64s,
) -> Columns:  # fmt: skip
    """Return the pieces of the gaps of a device, in order of time, with their sums.

    pick_up_ns: a device begins issued work within this time.
    is_collective, lost_ns: as for blame_gaps.
    """
    work = gaps.work
    pids = [] if ends is None else list(ends.of_pid)
    thread_of = np.searchsorted(held.tids, calls.tid_of)
    place = {pid: number for number, pid in enumerate(pids)}
    process_of = np.array([place.get(tid & PID_MASK, -1) for tid in held.tids.tolist()], dtype=np.int64)
    collective, cursor, near = is_collective.view(np.uint8), held.first[:-1].copy(), np.zeros(len(pids), dtype=np.int64)
    of_gaps = work.start_ns, work.duration_ns, work.variant, launch, gaps.ender, gaps.before
    of_threads = (
        calls.start_ns, calls.duration_ns, calls.variant, thread_of, len(thread_of), process_of, collective,
        len(collective), lost_ns, len(lost_ns), held.first, held.start_ns, held.end_ns, held.cause, held.call, cursor,
    )  # fmt: skip
    longest = gaps.longest_ns
    duration_type = np.uint32 if longest < 1 << 32 else np.int64
    room = len(gaps) * _PIECES_OF_FOUR // 4 + _SOME
    pieces: list[npt.NDArray[Any]] = [np.empty(room, dtype=each) for each in (np.int64, duration_type, np.uint8)]
    of_calls: list[npt.NDArray[Any]] = [np.empty(_SOME, dtype=np.int32) for _ in range(2)]
    state = np.zeros(1 + 2 * len(CAUSES) + 7, dtype=np.int64)
    for low in range(0, len(gaps), _GAPS_AT_ONCE):
        done, stop = low, min(low + _GAPS_AT_ONCE, len(gaps))
        ended = _list_ends(calls, launch, gaps, slice(low, stop), ends, pids, thread_of)
        near[:] = ended[2][:-1]
        while True:
            rooms = *pieces, len(pieces[0]), *of_calls, len(of_calls[0])
            done = blame(*of_gaps, done, stop, *of_threads, *ended, near, pick_up_ns, *rooms, state)
            if done == stop:
                break
            full = of_calls if state[-1] else pieces
            for each in full:
                each.resize(len(each) * (9 if full is pieces else 16) // 8 + _SOME, refcheck=False)
    for columns, filled in ((pieces, state[0]), (of_calls, state[-2])):
        for each in columns:
            each.resize(int(filled), refcheck=False)  # in place: the allocator frees the rest
    start, duration, cause = pieces
    total, count, unknown = np.split(state[1 : 1 + 2 * len(CAUSES) + 2], [len(CAUSES), 2 * len(CAUSES)])
    called, call = of_calls
    return start, duration, cause.view(np.int8), called, call, total, count, (int(unknown[0]), int(unknown[1]))


def _list_ends(
    calls: Calls, launch: Rows, gaps: Gaps, some: slice, ends: CallEnds | None, pids: list[int], thread_of: Int64s
) -> tuple[Int64s, Rows, Int64s]:
    """Return when calls ended that may have handed over work in some of the gaps, of one process after another.

    The result has the ends, the number of each one's thread, and the first of each process.
    """
    parts: list[tuple[Int64s, Rows]] = []
    if ends is not None:
        since = int(gaps.starts_ns(slice(some.start, some.start + 1))[0])
        launched_by = launch[gaps.ender[some]]
        until = int(calls.start_ns[launched_by[launched_by >= 0]].max(initial=since))
        parts = [ends.list_within(pid, thread_of, since, until) for pid in pids]
    first = np.cumsum([0, *(len(ended) for ended, _ in parts)], dtype=np.int64)
    if len(parts) == 1:
        return (*parts[0], first)
    ended = np.concatenate([np.zeros(0, dtype=np.int64), *(each for each, _ in parts)])
    return ended, np.concatenate([np.zeros(0, dtype=np.int32), *(thread for _, thread in parts)]), first


# The first of CAUSES; the others are in host_holds.
SYNC, HOST, SLOW, PAGEABLE, DEPENDENCY, COLLECTIVE, PROFILER, UNKNOWN, *_ = range(len(CAUSES))
# A device begins issued work within this time (ns). If it waits longer, the launch is not the reason.
_PICK_UP_NS = 20_000
_GAPS_AT_ONCE = 1 << 17
_CALLS_AT_ONCE = 1 << 18
# Marks a piece during which the work had already been issued.
_WAITS = -2


@dataclass(frozen=True)
class Blamed:
    """The pieces of the gaps of one device.

    There are about as many as kernels, so the columns are narrow.
    """

    device_id: int
    start_ns: Int64s
    duration_ns: Ints
    cause: npt.NDArray[np.int8]
    # The pieces that calls caused, in order, and the row of the call of each.
    called: Rows
    call: Rows
    # The time with each cause (ns), and how many gaps have it.
    total_ns: Int64s
    gaps: Int64s
    # The time (ns) for which no cause is known, without and with a launch of the work that ended the gap.
    unknown_ns: tuple[int, int]

    def without_causes(self, gaps: int) -> Blamed:
        """Return the pieces of that many gaps with no cause known."""
        total, count = np.zeros_like(self.total_ns), np.zeros_like(self.gaps)
        total[UNKNOWN], count[UNKNOWN] = self.total_ns.sum(), gaps
        cause, none = np.full_like(self.cause, UNKNOWN), np.zeros(0, dtype=np.int32)
        return replace(self, cause=cause, called=none, call=none, total_ns=total, gaps=count)

    def calls_within(self, some: slice) -> tuple[Int64s, Rows]:
        """Return which of some of the pieces calls caused (counted from the first of them), and these calls."""
        low, high = np.searchsorted(self.called, [some.start, some.stop]).tolist()
        return self.called[low:high].astype(np.int64) - some.start, self.call[low:high]

    def cut_out(self, begin_ns: int, end_ns: int) -> Blamed:
        """Return the pieces that begin within [begin, end), with the sums of all."""
        low, high = np.searchsorted(self.start_ns, [begin_ns, end_ns]).tolist()
        called, call = self.calls_within(slice(low, high))
        return replace(
            self,
            start_ns=self.start_ns[low:high].copy(),
            duration_ns=self.duration_ns[low:high].copy(),
            cause=self.cause[low:high].copy(),
            called=called.astype(np.int32),
            call=call.copy(),
        )

    def within(self, begin_ns: int, end_ns: int) -> slice:
        """Return which of the pieces lie within [begin, end)."""
        # Pieces are in order and do not overlap, so only the last that began may end later.
        low, high = np.searchsorted(self.start_ns, [begin_ns, end_ns]).tolist()
        if high and int(self.start_ns[high - 1]) + int(self.duration_ns[high - 1]) > end_ns:
            high -= 1
        return slice(low, high)


@dataclass(frozen=True)
class HeldThreads:
    """What held up each thread and when, and when calls ended in its process."""

    # By global tid, the intervals in which the profiler or a call held up the thread, each with a row of holders.
    holds: dict[int, Layer]
    # The cause of each holder, and the row of its call or -1.
    holder_cause: Int64s
    holder_call: Int64s
    # The ends of calls. Only of processes in which several threads launch or wait, because there one may hand over work
    # to another. None: there is no such process.
    ends: CallEnds | None


def follow_threads(tables: Tables, classes: CallClasses) -> HeldThreads:
    """Return what held up each thread of the trace."""
    calls, none = tables.calls, np.zeros(0, dtype=np.int64)
    if calls is None:
        return HeldThreads({}, none, none, None)
    held = _holding_calls(calls, classes)
    cause = np.where(classes.is_blocking_copy(held), PAGEABLE, np.where(classes.is_wait(held), SYNC, SLOW))
    tid = calls.tid_of[calls.variant[held]]
    start, end = calls.start_ns[held], calls.ends_ns(held)
    lost, host = intervals_of(tables.overheads), find_host_holds(tables).by_thread
    empty = Layer(none, none, none)
    # The holders: the calls, the profiler's intervals, and one of each cause of the host.
    of_host = len(held) + len(lost)
    holder_cause = np.concatenate((cause.astype(np.int64), np.full(len(lost), PROFILER), np.arange(len(CAUSES))))
    holder_call = np.concatenate((held.astype(np.int64), np.full(len(lost) + len(CAUSES), -1)))
    holds = {}
    for thread in np.unique(calls.tid_of).tolist():
        mine, lost_here = np.flatnonzero(tid == thread), np.flatnonzero(lost[:, 2] == thread)
        outside = host.get(thread, empty)
        below = Layer(outside.start_ns, outside.end_ns, outside.code + of_host)
        called = merge_layer(start[mine], end[mine], mine)
        above = merge_layer(lost[lost_here, 0], lost[lost_here, 1], lost_here + len(held))
        holds[thread] = overlay(overlay(below, called), above)
    return HeldThreads(holds, holder_cause, holder_call, list_ends(calls, _working(tables, classes)))


def _holding_calls(calls: Calls, classes: CallClasses) -> Int64s:
    """Return the calls that held up their threads."""
    is_memory, found = classes.of_variant == MEMORY, [np.zeros(0, dtype=np.int64)]
    for low in range(0, len(calls), _CALLS_AT_ONCE):
        some = slice(low, low + _CALLS_AT_ONCE)
        holds = (classes.held[some] != HELD_NOTHING) | (calls.duration_ns[some] >= SLOW_NS)
        holds |= is_memory[calls.variant[some]]
        found.append(np.flatnonzero(holds) + low)
    return np.concatenate(found)


def _working(tables: Tables, classes: CallClasses) -> Bools:
    """Return whether the thread of each variant of call launches or waits."""
    calls = tables.calls
    assert calls is not None
    works = (classes.of_variant == LAUNCH) & (count_codes(calls.variant, len(calls.variants)) > 0)
    works[calls.variant[classes.held != HELD_NOTHING]] = True
    return np.isin(calls.tid_of, np.unique(calls.tid_of[works]))


def blame_gaps(
    tables: Tables, launch: Rows, gaps: Gaps, threads: HeldThreads, *, is_collective: Bools, lost_ns: Int64s
) -> Blamed:
    """Return the pieces of all gaps of a device, in order of time.

    is_collective: whether each variant of work is a collective.
    lost_ns: when the calls began whose work is not in the trace, in order.
    """
    if tables.calls is not None and (blame := loop("blame")) is not None:
        held = list_holds(threads.holds, threads.holder_cause, threads.holder_call)
        return Blamed(
            gaps.span.device_id,
            *blame_compiled(
                blame, tables.calls, launch, gaps, held, threads.ends,
                pick_up_ns=_PICK_UP_NS, is_collective=is_collective, lost_ns=lost_ns,
            ),
        )  # fmt: skip
    gap, start_ns, duration_ns, cause, called, call = (
        GrowingColumn(np.empty(0, dtype), len(gaps) * 5 // 4)
        for dtype in (np.int32, np.int64, np.uint32, np.int8, np.int32, np.int32)
    )
    for low in range(0, max(1, len(gaps)), _GAPS_AT_ONCE):
        some = slice(low, low + _GAPS_AT_ONCE)
        pieces = _blame(tables, launch, gaps, some, threads, is_collective, lost_ns)
        length = pieces[2] - pieces[1]
        is_short = len(length) == 0 or int(length.max()) < 2**32
        gap.append(pieces[0].astype(np.int32))
        start_ns.append(pieces[1])
        duration_ns.append(length.astype(np.uint32) if is_short else length)
        cause.append(pieces[3].astype(np.int8))
        of_calls, filled = np.flatnonzero(pieces[4] >= 0), len(start_ns) - len(length)
        called.append((of_calls + filled).astype(np.int32))
        call.append(pieces[4][of_calls].astype(np.int32))
    of_gap, its_ns, its_cause = gap.finish(), duration_ns.finish(), cause.finish()
    sums = _sum_up(launch, gaps, of_gap, its_ns, its_cause)
    return Blamed(gaps.span.device_id, start_ns.finish(), its_ns, its_cause, called.finish(), call.finish(), *sums)


def _sum_up(
    launch: Ints, gaps: Gaps, gap: Rows, duration_ns: Ints, cause: npt.NDArray[np.int8]
) -> tuple[Int64s, Int64s, tuple[int, int]]:
    """Return the last columns of Blamed.

    gap: the row of the gap that each piece belongs to, in order.
    """
    total, count = np.zeros((2, len(CAUSES)), dtype=np.int64)
    for each in range(len(CAUSES)):
        its = gap[cause == each]
        total[each] = duration_ns[cause == each].sum(dtype=np.int64)
        count[each] = np.count_nonzero(its[1:] != its[:-1]) + min(1, len(its))
    unknown = np.flatnonzero(cause == UNKNOWN)
    length, launched = duration_ns[unknown].astype(np.int64), launch[gaps.ender[gap[unknown]]] >= 0
    return total, count, (int(length[~launched].sum()), int(length[launched].sum()))


def _blame(
    tables: Tables, launch: Ints, gaps: Gaps, some: slice, threads: HeldThreads, is_collective: Bools, lost_ns: Int64s
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
    """Return the columns of Blamed for some of the gaps."""
    start, end, ender = gaps.starts_ns(some), gaps.ends_ns(some), gaps.ender[some]
    first = some.start
    calls, call = tables.calls, launch[ender].astype(np.int64)
    if calls is None or len(calls) == 0:
        return (np.arange(len(start)) + first, start, end, np.full(len(start), UNKNOWN), np.full(len(start), -1))
    known = call >= 0
    begun = np.where(known, calls.start_ns[call], end)
    done = np.where(known, begun + calls.duration_ns[call], end)
    unknown = ~known
    if len(lost_ns):
        unknown |= _lost_between(launch, calls.start_ns, gaps.before[some], begun, start, lost_ns)
    early = known & ~unknown & (done <= start)
    cause = np.full(len(start), UNKNOWN, dtype=np.int64)
    cause[early] = np.where(is_collective[tables.work.variant[ender[early]]], COLLECTIVE, DEPENDENCY)
    whole = np.flatnonzero(unknown | early)
    late = np.flatnonzero(known & ~unknown & ~early)
    tid = calls.tid_of[calls.variant[call[late]]]
    columns = _late_pieces(tid, start[late], end[late], begun[late], done[late], threads)
    owner = np.concatenate((whole, late[columns[0]]))
    joined = [
        np.concatenate(pair)
        for pair in (
            (start[whole], columns[1]), (end[whole], columns[2]), (cause[whole], columns[3]),
            (np.full(len(whole), -1), columns[4]),
        )
    ]  # fmt: skip
    order = np.argsort(joined[0], kind="stable")
    return (owner[order] + first, *(column[order] for column in joined))


def _lost_between(
    launch: Ints, call_start: Int64s, before: Ints, begun: Int64s, start: Int64s, lost_ns: Int64s
) -> Bools:
    """Return whether lost work may have run in each gap.

    It may where a call whose work is lost began between the launches of the work before and after the gap.
    """
    earlier = launch[before]
    since = np.where(earlier >= 0, call_start[np.maximum(earlier, 0)], start)
    already = np.searchsorted(lost_ns, np.minimum(since, begun), "right")
    found: Bools = np.searchsorted(lost_ns, begun, "right") > already
    return found


def _late_pieces(
    tid: Int64s, start: Int64s, end: Int64s, begun: Int64s, done: Int64s, threads: HeldThreads
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
    """Return the pieces (owner, start, end, cause, call) of gaps that end with work launched late.

    Whatever held up the launching thread in the gap, or the thread that handed work over to it, gets its own time. A
    call that has held the thread up since before the gap also gets as much of the rest as it had lasted by then,
    because without it the launch would have come that much earlier. The remaining time is the host's own.
    """
    limit = np.minimum(done, end)
    giver = _givers(tid, start, begun, threads)
    since = np.where(giver[1] > start, np.minimum(giver[1], limit), start)
    parts = []
    for thread in different(np.concatenate((tid, giver[0]))).tolist():
        layer = threads.holds.get(thread)
        if layer is None:
            layer = Layer(*(np.zeros(0, dtype=np.int64),) * 3)
        for mine, low, high in (
            (np.flatnonzero((giver[0] == thread) & (since > start)), start, since),
            (np.flatnonzero(tid == thread), since, limit),
        ):
            pieces = cut(low[mine], high[mine], layer)
            held = pieces.layer >= 0
            row = np.maximum(pieces.layer, 0)
            holder = np.where(held, layer.code[row] if len(layer) else -1, -1)
            earlier = np.where(held, pieces.start_ns - (layer.start_ns[row] if len(layer) else 0), 0)
            parts.append((mine[pieces.owner], pieces.start_ns, pieces.end_ns, holder, earlier))
    tail = np.flatnonzero(end > limit)
    picked = np.minimum(limit[tail] + _PICK_UP_NS, end[tail])
    none = np.full(len(tail), -1)
    parts.append((tail, limit[tail], picked, none, np.zeros(len(tail), dtype=np.int64)))
    parts.append((tail, picked, end[tail], np.full(len(tail), _WAITS), np.zeros(len(tail), dtype=np.int64)))
    owner, begin, finish, holder, earlier = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((begin, owner))
    return _credit(owner[order], begin[order], finish[order], holder[order], earlier[order], start, threads)


def _givers(tid: Int64s, start: Int64s, begun: Int64s, threads: HeldThreads) -> tuple[Int64s, Int64s]:
    """Return the thread that handed work over to each launching thread, and when its last call ended.

    It is the thread of the process whose call ended last before the launch began, provided that this was in the gap and
    the launching thread itself made no call there. Otherwise it is the launching thread.
    """
    giver, since = tid.copy(), start.copy()
    pids = tid & PID_MASK
    if threads.ends is None:
        return giver, since
    for pid in np.unique(pids).tolist():
        mine = np.flatnonzero(pids == pid)
        # Only calls that ended in one of the gaps matter.
        ends = threads.ends.within(pid, int(start[mine].min()), int(begun[mine].max()))
        if len(ends.ended_ns) == 0:
            continue
        at = np.searchsorted(ends.ended_ns, begun[mine], "right") - 1
        ended, other = ends.ended_ns[np.maximum(at, 0)], ends.tid(np.maximum(at, 0))
        takes = (at >= 0) & (other != tid[mine]) & (ended > start[mine])
        for thread in np.unique(tid[mine[takes]]).tolist():
            its = takes & (tid[mine] == thread)
            own = ends.of(thread)
            last = np.searchsorted(own, at[its], "right") - 1
            if len(own):
                takes[its] = (last < 0) | (ends.ended_ns[own[np.maximum(last, 0)]] <= start[mine[its]])
        giver[mine[takes]] = other[takes]
        since[mine[takes]] = ended[takes]
    return giver, since


def _credit(
    owner: Int64s, begin: Int64s, finish: Int64s, holder: Int64s, earlier: Int64s, start: Int64s, threads: HeldThreads
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
    """Give the first part of the host's time in each gap to the call that has held up the thread since before it."""
    cause, call = np.full(len(owner), HOST, dtype=np.int64), np.full(len(owner), -1, dtype=np.int64)
    cause[holder == _WAITS] = DEPENDENCY
    held = holder >= 0
    cause[held], call[held] = threads.holder_cause[holder[held]], threads.holder_call[holder[held]]
    budget = np.zeros(len(start), dtype=np.int64)
    source = np.full(len(start), -1, dtype=np.int64)
    opening = np.flatnonzero((holder >= 0) & (earlier > 0) & (begin == start[owner]))
    budget[owner[opening]], source[owner[opening]] = earlier[opening], opening
    own = np.flatnonzero((holder == -1) & (budget[owner] > 0))
    if len(own):
        length = finish[own] - begin[own]
        used = np.cumsum(length) - length
        fresh = np.ones(len(own), dtype=np.bool_)
        fresh[1:] = owner[own][1:] != owner[own][:-1]
        used -= np.maximum.accumulate(np.where(fresh, used, 0))
        given = np.clip(budget[owner[own]] - used, 0, length)
        took = own[given > 0]
        given = given[given > 0]
        middle = begin[took] + given
        rest = took[middle < finish[took]]
        added = (owner[rest], middle[np.isin(took, rest)], finish[rest].copy(), cause[rest].copy(), call[rest].copy())
        finish[took] = middle
        cause[took], call[took] = cause[source[owner[took]]], call[source[owner[took]]]
        owner, begin, finish, cause, call = (
            np.concatenate(pair) for pair in zip((owner, begin, finish, cause, call), added, strict=True)
        )
    kept = finish > begin
    return owner[kept], begin[kept], finish[kept], cause[kept], call[kept]
