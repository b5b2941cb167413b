"""Find which calls of a process ended within some time, in order, without a sorted copy of all calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.native.load import loop
from nsysprof.trace.schema import PID_MASK, Bools, Calls, Int64s, Ints, Rows

_BLOCK = 1 << 16
# Calls are sorted first if the blocks of the file cover the time of the trace more than this many times.
_MOST_COVERS = 16


@dataclass(frozen=True)
class EndsWithin:
    """When some calls of a process ended, in order, and which of its threads made each."""

    ended_ns: Int64s
    # The row of `variants` of each call.
    variant: Ints
    # The global tid of each variant.
    tid_of: Int64s

    def tid(self, places: Int64s) -> Int64s:
        """Return the global tid of the calls at some places."""
        tids: Int64s = self.tid_of[self.variant[places]]
        return tids

    def of(self, tid: int) -> Int64s:
        """Return the places of one thread's calls, in order."""
        return np.flatnonzero((self.tid_of == tid)[self.variant])


@dataclass(frozen=True)
class CallEnds:
    """The calls of a trace in blocks, and when the first and the last call of each block ended (ns)."""

    calls: Calls
    # By global pid, which variants are of its threads that work.
    of_pid: dict[int, Bools]
    # The rows of calls that the blocks consist of, None where they are in file order.
    rows: Rows | None
    first_ns: Int64s
    last_ns: Int64s

    def within(self, pid: int, since_ns: int, until_ns: int) -> EndsWithin:
        """Return the calls of the working threads of a process that ended in (since_ns, until_ns]."""
        chosen, calls = self.of_pid.get(pid), self.calls
        ended, variant = [np.zeros(0, dtype=np.int64)], [calls.variant[:0]]
        for block in self._blocks(since_ns, until_ns) if chosen is not None else ():
            part = slice(block * _BLOCK, (block + 1) * _BLOCK)
            rows = part if self.rows is None else self.rows[part]
            its_end, its_variant = calls.ends_ns(rows), calls.variant[rows]
            kept = (its_end > since_ns) & (its_end <= until_ns)
            if chosen is not None and not chosen.all():
                kept &= chosen[its_variant]
            ended.append(its_end[kept])
            variant.append(its_variant[kept])
        all_ended, all_variant = np.concatenate(ended), np.concatenate(variant)
        del ended, variant
        if not bool((all_ended[1:] >= all_ended[:-1]).all()):
            order = np.argsort(all_ended, kind="stable")
            all_ended, all_variant = all_ended[order], all_variant[order]
        return EndsWithin(all_ended, all_variant, calls.tid_of)

    def list_within(self, pid: int, number_of: Int64s, since_ns: int, until_ns: int) -> tuple[Int64s, Rows]:
        """Return what `within` does by compiled code: the ends in order, and the number of each one's thread.

        number_of: the number of the thread of each variant.
        """
        calls, rows = self.calls, np.zeros(0, dtype=np.int32) if self.rows is None else self.rows
        blocks = self._blocks(since_ns, until_ns)
        ended, thread = np.empty(len(blocks) * _BLOCK, dtype=np.int64), np.empty(len(blocks) * _BLOCK, dtype=np.int32)
        chosen = np.where(self.of_pid[pid], number_of, -1)
        find = loop("list_ends")
        assert find is not None  # one unit with `blame`, whose caller found it
        columns = calls.start_ns, calls.duration_ns, calls.variant, rows, len(rows), _BLOCK
        bounds = blocks, len(blocks), chosen, len(chosen), since_ns, until_ns
        found = find(*columns, *bounds, ended, thread, len(thread))
        ended, thread = ended[:found], thread[:found]
        if bool((ended[1:] >= ended[:-1]).all()):
            return ended, thread
        order = np.argsort(ended, kind="stable")
        return ended[order], thread[order]

    def _blocks(self, since_ns: int, until_ns: int) -> Int64s:
        """Return the blocks with calls that ended in (since_ns, until_ns]."""
        return np.flatnonzero((self.last_ns > since_ns) & (self.first_ns <= until_ns))


def list_ends(calls: Calls, working: Bools) -> CallEnds | None:
    """Return the ends of calls of all processes in which several threads work, None where there is no such process.

    working: of each variant of call, whether its thread works.
    """
    pids = calls.tid_of & PID_MASK
    of_pid = {}
    for pid in np.unique(pids[working]).tolist():
        chosen = working & (pids == pid)
        if len(np.unique(calls.tid_of[chosen])) > 1:
            of_pid[pid] = chosen
    if not of_pid:
        return None
    first, last = _bounds(calls, None)
    if len(first) and int((last - first).sum()) > _MOST_COVERS * int(last.max() - first.min()):
        rows = np.argsort(calls.ends_ns(), kind="stable").astype(np.int32)
        return CallEnds(calls, of_pid, rows, *_bounds(calls, rows))
    return CallEnds(calls, of_pid, None, first, last)


def _bounds(calls: Calls, rows: Rows | None) -> tuple[Int64s, Int64s]:
    """Return when the first and the last call of each block ended (ns)."""
    parts = [slice(low, low + _BLOCK) for low in range(0, len(calls), _BLOCK)]
    ends = (calls.ends_ns(part if rows is None else rows[part]) for part in parts)
    bounds = np.array([(int(each.min()), int(each.max())) for each in ends], dtype=np.int64).reshape(-1, 2)
    return bounds[:, 0], bounds[:, 1]
