"""Find which calls allocated the memory that is given back to the driver, and which calls give it back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.trace.schema import PID_MASK, Bools, Int64s, Tables

_FREED = 1
# Device memory, and arrays in it.
_DEVICE_KINDS = (2, 3)


@dataclass(frozen=True)
class GivenBack:
    """Device memory that calls of a graph allocated and gave back, one element a block."""

    # The positions in the graph of the call that allocated the block, and of the call that gave it back.
    allocating: Int64s
    freeing: Int64s
    bytes: Int64s

    def share(self, allocating: Bools) -> float:
        """Return the share of the memory that these calls allocated; 0 where nothing is known."""
        whole = int(self.bytes.sum())
        return float(self.bytes[allocating[self.allocating]].sum() / whole) if whole else 0.0

    def freeing_of(self, allocating: Bools) -> Bools:
        """Return which calls give back what these calls allocated."""
        found = np.zeros(len(allocating), dtype=np.bool_)
        found[self.freeing[allocating[self.allocating]]] = True
        return found


def find_given_back(tables: Tables, rows: Int64s, pid: int, device: int) -> GivenBack:
    """Return the memory that these calls allocated and gave back. There is none without events of memory.

    A block is given back by the next free of its address. The event of a call has its time while the call runs.

    rows: the rows of the calls in Tables.calls in order of their starts, none inside another.
    pid: the process (global pid) of the calls.
    device: the device whose memory counts.
    """
    none = np.zeros(0, dtype=np.int64)
    calls, memory = tables.calls, tables.memory
    if calls is None or memory is None or len(memory) == 0 or len(rows) == 0:
        return GivenBack(none, none, none)
    its = (memory["device_id"] == device) & ((memory["global_pid"] & PID_MASK) == pid)
    memory = memory[its & np.isin(memory["kind"], _DEVICE_KINDS)]
    address, time, size = (memory[name].to_numpy(dtype=np.int64) for name in ("address", "time_ns", "bytes"))
    order = np.lexsort((time, address))
    is_freed = memory["operation"].to_numpy()[order] == _FREED
    address, time, size = address[order], time[order], size[order]
    at = np.flatnonzero((address[1:] == address[:-1]) & is_freed[1:] & ~is_freed[:-1])
    start, end = calls.start_ns[rows], calls.ends_ns(rows)
    allocating, freeing = (_calls_at(start, end, each) for each in (time[at], time[at + 1]))
    known = (allocating >= 0) & (freeing >= 0)
    return GivenBack(allocating[known], freeing[known], size[at][known])


def _calls_at(start: Int64s, end: Int64s, time: Int64s) -> Int64s:
    """Return the position of the call that ran at each time: the last that had begun; -1 where it had ended."""
    at = np.searchsorted(start, time, "right") - 1
    return np.where((at >= 0) & (time <= end[np.maximum(at, 0)]), at, -1)
