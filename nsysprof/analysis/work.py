"""Which API call launched each piece of GPU work."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nsysprof.trace.schema import PID_MASK, Calls, Tables, Work

Rows = npt.NDArray[np.int32]
_BLOCK = 1 << 20


def match_launches(tables: Tables) -> Rows:
    """For each row of tables.work, the row of tables.calls with the same (globalPid, correlationId), or -1.

    A correlation id is unique within its process only, and a call may have several rows; the earliest is taken, so
    that no row of work is ever multiplied. Kept in tables.launch.
    """
    if tables.launch is None:
        tables.launch = _match_processes(tables.work, tables.calls)
        none = np.zeros(0, dtype=np.uint32)
        tables.work = replace(tables.work, correlation_id=none)
        tables.calls = None if tables.calls is None else replace(tables.calls, correlation_id=none)
    return tables.launch


def _match_processes(work: Work, calls: Calls | None) -> Rows:
    launch = np.full(len(work), -1, dtype=np.int32)
    if calls is None or len(calls) == 0 or len(work) == 0:
        return launch
    pids = calls.tid_of & PID_MASK
    for pid in np.unique(pids):
        its_work, its_calls = work.pid_of == pid, pids == pid
        if not its_work.any():
            continue
        mine = slice(None) if its_work.all() else np.flatnonzero(its_work[work.variant])
        rows = None if its_calls.all() else np.flatnonzero(its_calls[calls.variant]).astype(np.int32)
        launch[mine] = _match(work.correlation_id[mine], calls, rows)
    return launch


def _match(wanted: npt.NDArray[np.uint32], calls: Calls, rows: Rows | None) -> Rows:
    """For each wanted correlation id the earliest of the calls `rows` (None: all) that has it, or -1."""
    ids = calls.correlation_id if rows is None else calls.correlation_id[rows]
    if not bool((ids[1:] > ids[:-1]).all()):
        # Not in order, or not unique: the first of equal ones in this order is the earliest.
        start = calls.start_ns if rows is None else calls.start_ns[rows]
        order = np.lexsort((start, ids)).astype(np.int32)
        ids = ids[order]
        rows = order if rows is None else rows[order]
    found = np.empty(len(wanted), dtype=np.int32)
    for low in range(0, len(wanted), _BLOCK):
        found[low : low + _BLOCK] = _positions(ids, wanted[low : low + _BLOCK])
    return found if rows is None else np.where(found >= 0, rows[found], -1).astype(np.int32)


def _positions(ids: npt.NDArray[np.uint32], wanted: npt.NDArray[np.uint32]) -> Rows:
    """For each wanted id its first position in the sorted `ids`, or -1; 0 is no id."""
    least, most = int(wanted.min()), int(wanted.max())
    low, high = np.searchsorted(ids, np.array([least, most], dtype=np.uint32)) + np.array([0, 1])
    span = most - least + 1
    if span > 32 * _BLOCK or len(ids) == 0:
        at = np.searchsorted(ids, wanted)
        hit = ids[np.minimum(at, len(ids) - 1)] == wanted if len(ids) else np.zeros(len(wanted), dtype=bool)
        return np.where(hit & (wanted != 0), at, -1).astype(np.int32)
    # Ids count up, so that a table of all those in between is the fastest index. The last one written, the first, wins.
    index = np.full(span, -1, dtype=np.int32)
    near = slice(low, min(high, len(ids)))
    inside = ids[near] <= most
    index[(ids[near][inside] - np.uint32(least))[::-1]] = np.arange(low, low + int(inside.sum()), dtype=np.int32)[::-1]
    found: Rows = index[wanted - np.uint32(least)]
    if least == 0:
        found[wanted == 0] = -1
    return found
