"""Find the causes of gaps by compiled code, which goes through them once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.analysis.idle_time.call_ends import CallEnds
from nsysprof.analysis.idle_time.gaps import Gaps
from nsysprof.analysis.idle_time.interval_layers import Layer
from nsysprof.native.load import loop
from nsysprof.results.column_registry.analysis_columns import CAUSES
from nsysprof.trace.schema import PID_MASK, Bools, Calls, Int64s, Ints, Rows

# The ends of calls are listed for this many gaps at a time.
_GAPS_AT_ONCE = 1 << 17
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
    last_begun = loop("last_begun")
    if ends is not None and last_begun is not None:
        since = int(gaps.starts_ns(slice(some.start, some.start + 1))[0])
        until = last_begun(launch, gaps.ender, some.start, some.stop, calls.start_ns, len(calls), since)
        parts = [ends.list_within(pid, thread_of, since, until) for pid in pids]
    first = np.cumsum([0, *(len(ended) for ended, _ in parts)], dtype=np.int64)
    if len(parts) == 1:
        return (*parts[0], first)
    ended = np.concatenate([np.zeros(0, dtype=np.int64), *(each for each, _ in parts)])
    return ended, np.concatenate([np.zeros(0, dtype=np.int32), *(thread for _, thread in parts)]), first
