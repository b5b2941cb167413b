"""Read GPU work (kernels, copies, fills and graph replays) into one set of arrays."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import GrowingColumn
from nsysprof.trace.columns import Batch, TableSource, find_columns, grow_columns
from nsysprof.trace.event_columns import TupleEncoder, read_events
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import COPY, FILL, GRAPH, KERNEL, MIGRATION, NULL, Bools, CorrelationIds, Int64s, Ints, Work
from nsysprof.trace.table_readers.devices import Gpus

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
_DTYPES: dict[str, type] = {
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
    whole = {name: GrowingColumn(np.empty(0, dtype)) for name, dtype in _DTYPES.items()}
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
    """Return the columns _DTYPES of one table, and the sums of its _COUNTS; None where it is damaged."""
    # The columns of the first table, of the kernels, have room for the others, so that they are not copied.
    followers = [table for other, (table, *_) in _TABLES.items() if other != KERNEL] if kind == KERNEL else []
    if kind == KERNEL and trace.reads_pages:
        read = read_events(trace, source, kind, variants, _DTYPES, followers)
        if read is not None:
            return read[0], {"dropped": read[1], "unsized": 0}
    columns = grow_columns(trace, source, {**_DTYPES, **_COUNTS}, partial(_columns, kind, variants), followers)
    if columns is None:
        return None
    return columns, {name: int(columns.pop(name).finish().sum()) for name in _COUNTS}


def _columns(kind: int, variants: TupleEncoder, batch: Batch) -> Batch:
    """Return the columns _DTYPES and _COUNTS of a batch of one kind."""
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
