"""Find copies that a trace itself shows to be slowed by memory that was given back before them."""

from __future__ import annotations

import re

import numpy as np

from nsysprof.analysis.idle_time.call_classes import call_texts
from nsysprof.trace.schema import PID_MASK, Bools, Int64s, Ints, Tables

# Copies of fewer bytes differ too much from each other.
LARGE_COPY_BYTES = 16 << 20
# Calls that return memory to the driver.
GIVES_BACK = re.compile(r"cu(da)?(Mem)?(Free|Unmap|Release)")
# So many copies behind memory that was given back must each take at least this many times as long as the slowest of the
# others. Equal copies of pageable memory differ by up to 1.5 times within a trace, and by chance all of the later ones
# took 1.13 times as long as all of the first ones.
_LEAST_SLOWED, _LEAST_SLOWDOWN = 3, 1.25


def unslowed_durations(tables: Tables, pid: int, device: int) -> Ints:
    """Return how long each piece of work takes (ns) where no memory was given back before it.

    Of equal copies, those count as behind memory that was given back whose process gave some back since the copy
    before. If each of these takes clearly longer than all others, which includes the first one, it gets the time of
    the slowest of the others. All other work keeps its time.

    pid: the process (global pid) whose calls and copies count.
    device: the device whose copies count.
    """
    work, calls = tables.work, tables.calls
    if calls is None:
        return work.duration_ns
    is_freeing = np.array([GIVES_BACK.match(str(name)) is not None for name in call_texts(tables)], dtype=bool)
    is_freeing &= (calls.tid_of & PID_MASK) == pid
    frees = np.sort(calls.start_ns[np.flatnonzero(is_freeing[calls.variant])])
    others = work.variant[work.kernels :]
    mine = (work.pid_of == pid) & (work.device_of == device)
    large = np.flatnonzero((work.copy_kind > 0) & (work.bytes >= LARGE_COPY_BYTES) & mine[others]) + work.kernels
    if len(large) <= _LEAST_SLOWED or len(frees) == 0:
        return work.duration_ns
    unslowed = work.duration_ns.copy()
    other = large - work.kernels
    keys = np.stack([work.copy_kind[other], work.host_kind[other].astype(np.int64), work.bytes[other]], axis=1)
    listed, code = np.unique(keys, axis=0, return_inverse=True)
    for number in range(len(listed)):
        same = large[code.reshape(-1) == number]
        same = same[np.argsort(work.start_ns[same], kind="stable")]
        slowed = _behind(frees, work.start_ns[same])
        time = unslowed[same]
        if int(slowed.sum()) >= _LEAST_SLOWED and time[slowed].min() >= _LEAST_SLOWDOWN * time[~slowed].max():
            unslowed[same[slowed]] = time[~slowed].max()
    return unslowed


def _behind(frees: Int64s, start: Int64s) -> Bools:
    """Return before which of the copies, in order, memory was given back since the copy before. The first has none."""
    before = np.searchsorted(frees, start)
    is_behind: Bools = np.diff(before, prepend=before[:1]) > 0
    return is_behind
