"""Match each piece of GPU work with the API call that launched it, by (globalPid, correlationId).

A correlation id is unique only within its process, and a call may have several rows. The earliest row is taken, so that
no work is ever multiplied.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.native.load import loop
from nsysprof.trace.schema import PID_MASK, Calls, CorrelationIds, Rows, Work

_BLOCK = 1 << 20
# A table of all ids between the first and the last wanted one is made where it has at most this many entries for each
# wanted id. The rows after the kernels are few, and their ids span the whole trace.
_ENTRIES_PER_ID = 8


def match_launches(work: Work, work_ids: CorrelationIds, calls: Calls | None, call_ids: CorrelationIds | None) -> Rows:
    """Return for each row of `work` the row of `calls` with the same process and correlation id, or -1."""
    launch = np.full(len(work), -1, dtype=np.int32)
    if calls is None or call_ids is None or len(calls) == 0 or len(work) == 0:
        return launch
    pids = calls.tid_of & PID_MASK
    for pid in np.unique(pids):
        of_work, of_calls = work.pid_of == pid, pids == pid
        if not of_work.any():
            continue
        mine = slice(None) if of_work.all() else np.flatnonzero(of_work[work.variant])
        rows = None if of_calls.all() else np.flatnonzero(of_calls[calls.variant]).astype(np.int32)
        launch[mine] = _match(work_ids[mine], calls, call_ids, rows)
    return launch


def match_table(
    table: pd.DataFrame | None, calls: Calls | None, call_ids: CorrelationIds | None
) -> pd.DataFrame | None:
    """Return a table with the column `call` added: the row of `calls` by global_pid and correlation_id, or -1."""
    if table is None:
        return None
    call_rows = np.full(len(table), -1, dtype=np.int32)
    if calls is None or call_ids is None or len(calls) == 0 or len(table) == 0:
        return table.assign(call=call_rows)
    ids = table["correlation_id"].to_numpy(dtype=np.int64)
    ids = np.where((ids < 0) | (ids >= 2**32), 0, ids).astype(np.uint32)
    owner, pids = table["global_pid"].to_numpy(dtype=np.int64), calls.tid_of & PID_MASK
    for pid in np.unique(owner[np.isin(owner, pids)]):
        mine, of_calls = np.flatnonzero(owner == pid), pids == pid
        rows = None if of_calls.all() else np.flatnonzero(of_calls[calls.variant]).astype(np.int32)
        call_rows[mine] = _match(ids[mine], calls, call_ids, rows)
    return table.assign(call=call_rows)


def _match(wanted: CorrelationIds, calls: Calls, call_ids: CorrelationIds, rows: Rows | None) -> Rows:
    """Return for each wanted correlation id the earliest of the calls `rows` (None: all) that has it, or -1."""
    ids = call_ids if rows is None else call_ids[rows]
    run = loop("match_ids")
    positions = np.empty(len(wanted), dtype=np.int32)
    if run is not None and run(ids, wanted, positions) == 0:
        return _of_rows(positions, rows)
    if not bool((ids[1:] > ids[:-1]).all()):
        # Ids are not in order, or not unique: the first of equal ones in this order is the earliest.
        start = calls.start_ns if rows is None else calls.start_ns[rows]
        order = np.lexsort((start, ids)).astype(np.int32)
        ids = ids[order]
        rows = order if rows is None else rows[order]
    for low in range(0, len(wanted), _BLOCK):
        positions[low : low + _BLOCK] = _positions(ids, wanted[low : low + _BLOCK])
    return _of_rows(positions, rows)


def _of_rows(positions: Rows, rows: Rows | None) -> Rows:
    """Return the rows at these places of `rows` (None: all); -1 stays."""
    return positions if rows is None else np.where(positions >= 0, rows[positions], -1).astype(np.int32)


def _positions(ids: CorrelationIds, wanted: CorrelationIds) -> Rows:
    """Return for each wanted id its first position in the sorted `ids`, or -1; 0 is not an id."""
    least, most = int(wanted.min()), int(wanted.max())
    low, high = np.searchsorted(ids, np.array([least, most], dtype=np.uint32)) + np.array([0, 1])
    span = most - least + 1
    if span > _ENTRIES_PER_ID * len(wanted) or len(ids) == 0:
        at = np.searchsorted(ids, wanted)
        hit = ids[np.minimum(at, len(ids) - 1)] == wanted if len(ids) else np.zeros(len(wanted), dtype=bool)
        return np.where(hit & (wanted != 0), at, -1).astype(np.int32)
    # Ids count up, so a table of all ids between the first and the last is the fastest index. It is filled in reverse,
    # so that the first of equal ids is written last and stays.
    index = np.full(span, -1, dtype=np.int32)
    near = slice(low, min(high, len(ids)))
    inside = ids[near] <= most
    index[(ids[near][inside] - np.uint32(least))[::-1]] = np.arange(low, low + int(inside.sum()), dtype=np.int32)[::-1]
    positions: Rows = index[wanted - np.uint32(least)]
    if least == 0:
        positions[wanted == 0] = -1
    return positions
