"""Read what the threads of a program did: calls, waits, nodes of graphs. Find the call that launched each GPU work.

Read GPU work (kernels, copies, fills and graph replays) into one set of arrays.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.arrays import GrowingColumn
from nsysprof.trace.columns import Batch, TableSource, find_columns, grow_columns, read_integers
from nsysprof.trace.event_columns import CALLS, TupleEncoder, read_events
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import (
    COPY,
    FILL,
    GRAPH,
    KERNEL,
    MIGRATION,
    NULL,
    PID_MASK,
    Bools,
    Calls,
    CorrelationIds,
    Int64s,
    Ints,
    Rows,
    Work,
)
from nsysprof.trace.table_readers.gpus import Gpus

_TIMES = {"start": "start_ns", "end": "end_ns", "deviceId": "device_id", "streamId": "stream_id"}
_IDS = {"contextId": "context_id", "correlationId": "correlation_id", "globalPid": "global_pid"}
_TABLES: dict[int, tuple[str, dict[str, str], dict[str, str]]] = {
    KERNEL: (
        "CUPTI_ACTIVITY_KIND_KERNEL", {},
        {"demangledName": "name_id", "shortName": "short_name_id", "graphNodeId": "graph_node_id"},
    ),
    COPY: ("CUPTI_ACTIVITY_KIND_MEMCPY", {"bytes": "bytes", "copyKind": "copy_kind"}, {
        "srcKind": "source_kind", "dstKind": "target_kind", "graphNodeId": "graph_node_id",
    }),
    FILL: ("CUPTI_ACTIVITY_KIND_MEMSET", {"bytes": "bytes"}, {"graphNodeId": "graph_node_id"}),
    GRAPH: ("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", {}, {"graphId": "graph_id"}),
}  # fmt: skip
_WORK_DTYPES: dict[str, type] = {
    "start_ns": np.int64, "duration_ns": np.uint32, "correlation_id": np.uint32, "variant": np.uint8,
    "bytes": np.int64, "copy_kind": np.int64, "host_kind": np.int8, "graph_node": np.int64,
}  # fmt: skip
# How many rows of a batch were dropped because their times are impossible, and how many have no possible size.
_COUNTS = {"dropped": np.int64, "unsized": np.int64}
_TO_DEVICE, _TO_HOST = 1, 2
# copyKind 11, 12, 13 are page migrations of unified memory.
_MIGRATIONS = (11, 12, 13)
# The latest time and the longest duration: 36 years and 13 days (ns). Sums of what is left fit in 64 bits.
_FAR_NS, _LONG_NS = 2**60, 2**50
# The largest size: a petabyte, for the same reason.
_MOST_BYTES = 2**50


def read_work(trace: Trace, gpus: Gpus) -> tuple[Work, CorrelationIds, frozenset[int]]:
    """Return all GPU work, the correlation id of each row, and the kinds that were recorded at all."""
    variants = TupleEncoder(8, compiled=trace.reads_pages)
    whole = {name: GrowingColumn(np.empty(0, dtype)) for name, dtype in _WORK_DTYPES.items()}
    kernels, recorded, counts = 0, set(), dict.fromkeys(_COUNTS, 0)
    for kind, (table, required, optional) in _TABLES.items():
        source = find_columns(trace, table, {**_TIMES, **required}, {**_IDS, **optional})
        read = None if source is None else _read_kind(trace, source, kind, variants)
        if read is None:
            continue
        kind_columns, kind_counts = read
        counts = {name: count + kind_counts[name] for name, count in counts.items()}
        # A full export has every table, whether its kind was traced or not.
        if len(kind_columns["start_ns"]) or kind_counts["dropped"]:
            recorded.add(kind)
        if kind == KERNEL:
            kernels, whole = len(kind_columns["start_ns"]), kind_columns
        else:
            for name, column in kind_columns.items():
                whole[name].append(column.finish())
    columns = {name: column.finish() for name, column in whole.items()}
    ids = columns.pop("correlation_id")
    rows = variants.rows
    rows[:, 2] = gpus.numbers(rows[:, 1], rows[:, 2])
    work = Work(**columns, variants=rows, kernels=kernels, dropped=counts["dropped"], unsized=counts["unsized"])
    return work, ids, frozenset(recorded)


def _read_kind(
    trace: Trace, source: TableSource, kind: int, variants: TupleEncoder
) -> tuple[dict[str, GrowingColumn], dict[str, int]] | None:
    """Return the columns _WORK_DTYPES of one table, and the sums of its _COUNTS; None where it is damaged."""
    # The columns of the first table, of the kernels, have room for the others, so that they are not copied.
    followers = [table for other, (table, *_) in _TABLES.items() if other != KERNEL] if kind == KERNEL else []
    if kind == KERNEL and trace.reads_pages:
        read = read_events(trace, source, kind, variants, _WORK_DTYPES, followers)
        if read is not None:
            return read[0], {"dropped": read[1], "unsized": 0}
    columns = grow_columns(trace, source, {**_WORK_DTYPES, **_COUNTS}, partial(_columns, kind, variants), followers)
    if columns is None:
        return None
    return columns, {name: int(columns.pop(name).finish().sum()) for name in _COUNTS}


def _columns(kind: int, variants: TupleEncoder, batch: Batch) -> Batch:
    """Return the columns _WORK_DTYPES and _COUNTS of a batch of one kind."""
    good = possible_times(batch["start_ns"], batch["end_ns"])
    rows = int(good.sum())
    dropped = np.array([len(good) - rows])
    if dropped[0]:
        batch = {name: column[good] for name, column in batch.items()}
    none = np.full(rows, NULL)
    kinds = np.full(rows, kind)
    node = batch.get("graph_node_id", np.zeros(rows, dtype=np.int64))
    in_graph = (node > 0).astype(np.int64)
    name, short = none, none
    columns: Batch = {"dropped": dropped}
    if kind == KERNEL:
        # A kernel without a demangled name keeps its short name.
        short = batch["short_name_id"]
        name = np.where(batch["name_id"] != NULL, batch["name_id"], short)
    else:
        name = batch.get("graph_id", none)
        size = batch.get("bytes", np.zeros(rows, dtype=np.int64))
        possible = (size >= 0) & (size < _MOST_BYTES)
        columns["bytes"] = np.where(possible, size, 0)
        columns["unsized"] = np.array([rows - int(possible.sum())])
        columns["copy_kind"] = batch.get("copy_kind", np.full(rows, -1, dtype=np.int64))
        columns["host_kind"] = _host_kind(batch, columns["copy_kind"])
        kinds[np.isin(columns["copy_kind"], _MIGRATIONS)] = MIGRATION
    lanes = (batch["global_pid"], batch["device_id"], batch["context_id"], batch["stream_id"])
    return {
        **columns,
        "graph_node": node[node > 0],
        "start_ns": batch["start_ns"],
        "duration_ns": narrow_duration(batch["start_ns"], batch["end_ns"]),
        "correlation_id": narrow_correlation(batch["correlation_id"]),
        "variant": variants.encode(kinds, *lanes, name, short, in_graph),
    }


def _host_kind(batch: Batch, copy_kind: Int64s) -> npt.NDArray[np.int8]:
    """Return the kind of memory on the host's side of each copy: 0 pageable, 1 pinned, -1 for any other or none."""
    none = np.full(len(copy_kind), -1, dtype=np.int64)
    source, target = batch.get("source_kind", none), batch.get("target_kind", none)
    kind = np.where(copy_kind == _TO_DEVICE, source, np.where(copy_kind == _TO_HOST, target, -1))
    return np.where((kind == 0) | (kind == 1), kind, -1).astype(np.int8)


def possible_times(start_ns: Int64s, end_ns: Int64s) -> Bools:
    """Return which rows have both times, in order and plausible. CUPTI writes 0 and 0 for an unknown time."""
    duration = end_ns - start_ns  # wraps around where times are too far apart; the other conditions exclude that
    good: Bools = (duration >= 0) & (duration < _LONG_NS) & (start_ns > -_FAR_NS) & (start_ns < _FAR_NS)
    good &= end_ns < _FAR_NS
    good &= (start_ns | end_ns) != 0
    return good


def narrow_correlation(ids: Int64s) -> CorrelationIds:
    """Return correlation ids in 32 bits, as CUPTI writes them; anything else becomes 0, which means none."""
    narrow = ids.astype(np.uint32)
    wrong = (ids < 0) | (ids >= 2**32)
    if wrong.any():
        narrow[wrong] = 0
    return narrow


def narrow_duration(start_ns: Int64s, end_ns: Int64s) -> Ints:
    """Return the durations of possible times, in 32 bits where all fit."""
    duration = end_ns - start_ns
    fits = len(duration) == 0 or int(duration.max()) < 2**32
    return duration.astype(np.uint32) if fits else duration


_DTYPES: dict[str, type] = {
    "start_ns": np.int64, "duration_ns": np.uint32, "correlation_id": np.uint32, "variant": np.uint8,
}  # fmt: skip
# The event class of RUNTIME rows that are not calls: CUDABACKTRACE repeats a call's correlation id.
_BACKTRACE = 67
_BLOCK = 1 << 20
# A table of all ids between the first and the last wanted one is made where it has at most this many entries for each
# wanted id. The rows after the kernels are few, and their ids span the whole trace.
_ENTRIES_PER_ID = 8
# The rows of the second table are nodes up to schema 3.7.2, and graphs in later versions.
_NODE_TABLES = ("CUDA_GRAPH_NODE_EVENTS", "CUDA_GRAPH_EVENTS")
_PLACE = {
    "deviceId": "device_id", "contextId": "context_id", "streamId": "stream_id", "correlationId": "correlation_id",
    "globalPid": "global_pid", "eventId": "event_id", "eventSyncId": "event_sync_id",
}  # fmt: skip
# Functions of the system in which a thread waits for something that is not the GPU, and those in which it may also wait
# for another thread: Python hands its lock over every 5 ms.
_WAITS = (
    "nanosleep", "clock_nanosleep", "usleep", "sleep", "pause", "poll", "ppoll", "select", "pselect", "epoll_wait",
    "epoll_pwait", "accept", "accept4", "recv", "recvfrom", "recvmsg", "recvmmsg", "mq_receive", "mq_timedreceive",
    "msgrcv", "sigwait", "sigwaitinfo", "sigtimedwait",
)  # fmt: skip
_CONDITIONS = (
    "pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "sem_wait", "sem_timedwait",
    "sem_clockwait",
)  # fmt: skip
_LEAST_WAIT_NS, _LEAST_CONDITION_NS = 20_000, 6_000_000
_OVERHEADS = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")


def read_calls(trace: Trace) -> tuple[Calls, CorrelationIds] | tuple[None, None]:
    """Return the API calls and the correlation id of each; None and None when none were recorded.

    Rows of CUPTI_ACTIVITY_KIND_RUNTIME that repeat a call with its backtrace are left out.
    """
    source = find_columns(
        trace,
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        {"start": "start_ns", "end": "end_ns", "nameId": "name_id"},
        {
            "eventClass": "event_class",
            "globalTid": "global_tid",
            "correlationId": "correlation_id",
            "returnValue": "return_value",
        },
    )
    if source is None:
        return None, None
    variants = TupleEncoder(3, compiled=trace.reads_pages)

    def take(batch: Batch) -> Batch:
        possible = possible_times(batch["start_ns"], batch["end_ns"])
        good = possible & (batch["event_class"] != _BACKTRACE)
        if not good.all():
            batch = {name: column[good] for name, column in batch.items()}
        result = batch["return_value"]
        failed = ((result != 0) & (result != NULL)).astype(np.int64)
        return {
            "start_ns": batch["start_ns"],
            "duration_ns": narrow_duration(batch["start_ns"], batch["end_ns"]),
            "correlation_id": narrow_correlation(batch["correlation_id"]),
            "variant": variants.encode(batch["name_id"], batch["global_tid"], failed),
            "dropped": np.array([len(possible) - int(possible.sum())]),
        }

    events = read_events(trace, source, CALLS, variants, _DTYPES) if trace.reads_pages else None
    if events is None:
        grown = grow_columns(trace, source, {**_DTYPES, "dropped": np.int64}, take)
        if grown is None:
            return None, None
        events = grown, int(grown.pop("dropped").finish().sum())
    columns, dropped = {name: events[0][name].finish() for name in _DTYPES}, events[1]
    if len(columns["start_ns"]) == 0 and dropped == 0:
        return None, None  # a full export has the table whether calls were traced or not
    ids = columns.pop("correlation_id")
    return Calls(**columns, variants=variants.rows, dropped=dropped), ids


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
    positions = np.empty(len(wanted), dtype=np.int32)
    if not bool((ids[1:] > ids[:-1]).all()):
        # Ids are not in order, or not unique: the first of equal ones in this order is the earliest.
        start = calls.start_ns if rows is None else calls.start_ns[rows]
        order = np.lexsort((start, ids)).astype(np.int32)
        ids = ids[order]
        rows = order if rows is None else rows[order]
    for low in range(0, len(wanted), _BLOCK):
        positions[low : low + _BLOCK] = _positions(ids, wanted[low : low + _BLOCK])
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


def read_graph_nodes(trace: Trace) -> pd.DataFrame | None:
    """Return time_ns, global_tid, node_id and original_id (NULL: not a copy) in file order; None: not recorded."""
    for table in _NODE_TABLES:
        stored_table = trace.find(table)
        if stored_table is None or "graphnodeid" not in {name.lower() for name in trace.columns[stored_table]}:
            continue
        required = {"start": "time_ns", "globalTid": "global_tid", "graphNodeId": "node_id"}
        rows = read_integers(trace, table, required, {"originalGraphNodeId": "original_id"})
        if rows is not None:
            kept: pd.DataFrame = rows[rows["node_id"] > 0].reset_index(drop=True)
            return kept if len(kept) else None
    return None


def read_syncs(trace: Trace) -> pd.DataFrame | None:
    """Return CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: which stream, event or context each synchronising call waited for."""
    times = {"start": "start_ns", "end": "end_ns", "syncType": "sync_type"}
    return read_integers(trace, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", times, _PLACE)


def read_waits(trace: Trace, strings: pd.Series) -> pd.DataFrame | None:
    """Return when threads slept, polled or waited at a socket, a queue or a condition; None: not recorded.

    A read is none, because it may be of a file. Short waits are the cost of the call.
    """
    rows = _read_osrt(trace)
    if rows is None:
        return None
    name = rows["name_id"].map({key: str(text).partition("@")[0] for key, text in strings.items()})
    at_condition = name.isin(_CONDITIONS)
    least = np.where(at_condition, _LEAST_CONDITION_NS, _LEAST_WAIT_NS)
    waits = (name.isin(_WAITS) | at_condition) & (rows["start_ns"] != NULL)
    kept: pd.DataFrame = rows[waits & (rows["end_ns"] - rows["start_ns"].clip(lower=0) >= least)]
    return kept[["start_ns", "end_ns", "global_tid"]].reset_index(drop=True)


def _read_osrt(trace: Trace) -> pd.DataFrame | None:
    columns = {"start": "start_ns", "end": "end_ns", "nameId": "name_id"}
    rows = read_integers(trace, "OSRT_API", columns, {"globalTid": "global_tid", "nestingLevel": "level"})
    return None if rows is None or rows.empty else rows


def read_os_calls(trace: Trace) -> pd.DataFrame | None:
    """Return the calls of the OS runtime that no other one made: start_ns, end_ns, global_tid, name_id.

    Remarks of nsys, which take no time, are left out. None: none were recorded.
    """
    rows = _read_osrt(trace)
    if rows is None:
        return None
    chosen = rows["level"].isin((0, NULL)) & (rows["start_ns"] != NULL) & (rows["end_ns"] > rows["start_ns"])
    kept: pd.DataFrame = rows[chosen].drop(columns="level").reset_index(drop=True)
    return kept


def read_overheads(trace: Trace) -> pd.DataFrame:
    """Return when the profiler delayed a thread: start_ns, end_ns, global_tid (NULL: not recorded), name_id."""
    tables = []
    for table in _OVERHEADS:
        rows = read_integers(
            trace, table, {"start": "start_ns", "end": "end_ns"}, {"globalTid": "global_tid", "nameId": "name_id"}
        )
        if rows is not None and len(rows):
            tables.append(rows)
    if not tables:
        return pd.DataFrame(columns=["start_ns", "end_ns", "global_tid", "name_id"], dtype="int64")
    rows = pd.concat(tables, ignore_index=True)
    possible = (rows["start_ns"] != NULL) & (rows["end_ns"] > rows["start_ns"])
    kept: pd.DataFrame = rows[possible].reset_index(drop=True)
    return kept
