"""Compute the bytes and the bus bandwidth of NCCL's collectives, from the sizes in NCCL's NVTX payloads."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.notes import Note, make_note
from nsysprof.results.column_registry.analysis_columns import COLLECTIVES
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.trace.schema import NULL, PID_MASK, Floats, Int64s, Tables

DOMAIN = "NCCL"
NO_PAYLOADS = "no NVTX payload"
IN_GRAPH = "in a CUDA graph"
GROUPED = "launched in a group"
NO_CALL = "no call recorded"
NO_RANKS = "ranks unknown"


def _all_ranks_factor(ranks: int) -> float:
    return float(ranks - 1)


# For each operation of NCCL: its name in kernels, and how many bytes cross the slowest link per byte of the message, by
# the number of ranks. This is the "bus bandwidth" of NVIDIA's nccl-tests. For operations that gather or scatter, NCCL
# gives the bytes of one rank's part.
_OPERATIONS: Mapping[str, tuple[str, Callable[[int], float] | None]] = {
    "ncclAllReduce": ("AllReduce", lambda ranks: 2 * (ranks - 1) / ranks),
    "ncclAllGather": ("AllGather", _all_ranks_factor),
    "ncclReduceScatter": ("ReduceScatter", _all_ranks_factor),
    "ncclBroadcast": ("Broadcast", None),
    "ncclBcast": ("Broadcast", None),
    "ncclReduce": ("Reduce", None),
    "ncclAlltoAll": ("SendRecv", _all_ranks_factor),
    "ncclSend": ("SendRecv", None),
    "ncclRecv": ("SendRecv", None),
}
_FP32_REDUCTION = re.compile(r"(?:AllReduce|ReduceScatter)\w*_(?:f32|float)(?:_|\b)")
_KERNEL_OPERATIONS = ("AllReduce", "AllGather", "ReduceScatter", "Broadcast", "SendRecv", "Reduce")


@dataclass(frozen=True)
class Collective:
    """What one kernel of NCCL moved.

    bus_bytes: the bytes over the slowest link; None is unknown, for the given reason.
    """

    operation: str
    message_bytes: int | None = None
    ranks: int | None = None
    bus_bytes: float | None = None
    reason: str = ""


def tabulate_collectives(tables: Tables, names: Names) -> tuple[pd.DataFrame, list[Note]]:
    """Return the rows of collectives.csv, and a note where sizes are unknown."""
    work = tables.work
    rows = np.flatnonzero((names.category == "communication")[names.numbers(work.variant[: work.kernels])])
    if len(rows) == 0:
        return empty_table(COLLECTIVES), []
    texts = names.texts[names.numbers(work.variant[rows])]
    collectives = identify_collectives(tables, rows, [str(text) for text in texts])
    duration = work.duration_ns[rows].astype(np.int64)
    table = pd.DataFrame(
        {
            "device_id": work.device_of[work.variant[rows]],
            "operation": [collective.operation for collective in collectives],
            "ranks": pd.array([collective.ranks for collective in collectives], dtype="Int64"),
            "message_bytes": pd.array([collective.message_bytes for collective in collectives], dtype="Int64"),
            "reason": [collective.reason for collective in collectives],
            "duration_ns": duration,
            "rate": bus_rates(collectives, duration),
        }
    )
    return _sum_up(table), note_unknown_sizes(collectives)


def bus_rates(collectives: Sequence[Collective], duration_ns: Int64s) -> Floats:
    """Return the bus bandwidth of each (bytes/s); NaN where it is unknown."""
    moved = [np.nan if collective.bus_bytes is None else collective.bus_bytes for collective in collectives]
    rates: Floats = np.array(moved, dtype=np.float64) / (np.maximum(duration_ns, 1) / 1e9)
    return rates


def _sum_up(table: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each device, operation, number of ranks, size and reason, those with the most time first."""
    keys = ["device_id", "operation", "ranks", "message_bytes", "reason"]
    grouped = table.groupby(keys, sort=False, dropna=False)
    sums = grouped.agg(
        kernel_count=("duration_ns", "size"),
        kernel_total_ns=("duration_ns", "sum"),
        kernel_med_ns=("duration_ns", "median"),
        kernel_min_ns=("duration_ns", "min"),
        bus_bytes_per_s=("rate", "median"),
        most_bus_bytes_per_s=("rate", "max"),
    ).reset_index()
    sums["total_bytes"] = sums["message_bytes"] * sums["kernel_count"]
    sums["kernel_med_ns"] = sums["kernel_med_ns"].round().astype("int64")
    return sums.sort_values("kernel_total_ns", ascending=False, kind="stable")[list(COLLECTIVES.names)].reset_index(
        drop=True
    )


def _operation_of(kernel: str) -> str:
    """Return the operation in the name of a kernel."""
    low = kernel.lower()
    return next((operation for operation in _KERNEL_OPERATIONS if operation.lower() in low), "other")


def reduces_fp32(kernel: str) -> bool:
    """Return whether a kernel adds up fp32, by its name: NCCL's kernels that reduce have the dtype in it."""
    return _FP32_REDUCTION.search(kernel) is not None


def note_unknown_sizes(collectives: Sequence[Collective]) -> list[Note]:
    """Return a note with the reasons where sizes are unknown, else none."""
    unknown = [collective.reason for collective in collectives if collective.message_bytes is None]
    if not unknown:
        return []
    reasons = list(dict.fromkeys(unknown))
    return [make_note("collective-sizes-unknown", count=len(unknown), all=len(collectives), reasons="; ".join(reasons))]


def identify_collectives(tables: Tables, rows: Int64s, texts: Sequence[str]) -> list[Collective]:
    """Return what each of these kernels moved. texts: their names."""
    operations = list(map(_operation_of, texts))
    launch, calls, work = tables.launch[rows], tables.calls, tables.work
    in_graph = work.in_graph_of[work.variant[rows]]
    usual = NO_PAYLOADS if tables.payloads is None else NO_CALL
    collectives = [
        Collective(operation, reason=IN_GRAPH if graph else usual)
        for operation, graph in zip(operations, in_graph, strict=True)
    ]
    if tables.payloads is None or calls is None or tables.ranges is None:
        return collectives
    of_thread, ranks = _calls_of_threads(tables.ranges, tables.payloads), _ranks(tables.payloads)
    own = np.flatnonzero((launch >= 0) & ~in_graph)
    own = own[np.argsort(calls.start_ns[launch[own]], kind="stable")]
    thread = calls.tid_of[calls.variant[launch[own]]]
    for tid in np.unique(thread).tolist():
        mine = own[thread == tid]
        nccl_calls = of_thread.get(tid, [])
        for row, group in zip(mine.tolist(), _assign(calls.start_ns[launch[mine]], nccl_calls), strict=True):
            collectives[row] = _combine(operations[row], group, ranks, tid & PID_MASK)
    return collectives


@dataclass(frozen=True)
class _NcclCall:
    """A call of NCCL on one thread; NULL where its payload does not contain the value."""

    name: str
    start_ns: int
    end_ns: int
    message_bytes: int
    communicator: int
    peer: int


def _calls_of_threads(ranges: pd.DataFrame, payloads: pd.DataFrame) -> dict[int, list[_NcclCall]]:
    """Return NCCL's calls that move data, by thread and in order of start."""
    own = ranges[((ranges["domain"] == DOMAIN) & ranges["name"].isin(list(_OPERATIONS))).to_numpy(dtype=bool)]
    said = payloads.drop_duplicates(["start_ns", "global_tid"])
    joined = own.merge(said, on=["start_ns", "global_tid"], how="left").sort_values("start_ns", kind="stable")
    fields = joined[["message_bytes", "communicator", "peer"]].fillna(NULL).astype("int64")
    calls_by_thread: dict[int, list[_NcclCall]] = {}
    places = zip(joined["global_tid"], joined["name"], joined["start_ns"], joined["end_ns"], strict=True)
    for (tid, name, start, end), cells in zip(places, fields.itertuples(index=False, name=None), strict=True):
        calls_by_thread.setdefault(int(tid), []).append(_NcclCall(str(name), int(start), int(end), *cells))
    return calls_by_thread


def _ranks(payloads: pd.DataFrame) -> dict[tuple[int, int], tuple[int, int]]:
    """Return the number of ranks and this process's rank in each communicator, by process and communicator."""
    of_communicators = payloads[(payloads["ranks"] > 0).to_numpy(dtype=bool)]
    keys = zip(of_communicators["global_tid"] & PID_MASK, of_communicators["communicator"], strict=True)
    return dict(zip(keys, zip(of_communicators["ranks"], of_communicators["rank"], strict=True), strict=True))


def _assign(launched_ns: Int64s, nccl_calls: Sequence[_NcclCall]) -> list[list[_NcclCall] | None]:
    """Return the calls behind each kernel of a thread; None where several assignments are possible.

    A kernel is launched inside its call. Where calls are grouped, it is launched when the group ends.

    launched_ns: when each kernel was launched, ascending.
    nccl_calls: the calls of the thread, in order.
    """
    starts = np.array([call.start_ns for call in nccl_calls], dtype=np.int64)
    last = (np.searchsorted(starts, launched_ns, side="right") - 1).tolist()
    groups: list[list[_NcclCall] | None] = []
    used, at = -1, 0
    while at < len(last):
        number = last[at]
        if number >= 0 and launched_ns[at] <= nccl_calls[number].end_ns:
            groups.append([nccl_calls[number]])
            used, at = number, at + 1
            continue
        together = at
        while together < len(last) and last[together] == number:
            together += 1
        waiting = list(nccl_calls[used + 1 : number + 1])
        if together - at == 1:
            groups.append(waiting)
        elif together - at == len(waiting):
            groups += [[call] for call in waiting]
        else:
            groups += [None] * (together - at)
        used, at = max(used, number), together
    return groups


def _combine(
    operation: str, group: Sequence[_NcclCall] | None, ranks: Mapping[tuple[int, int], tuple[int, int]], pid: int
) -> Collective:
    """Return what the kernel of these calls moved.

    operation: the operation in the kernel's name.
    """
    own = [call for call in group or () if _OPERATIONS[call.name][0] == operation]
    names = {call.name for call in own}
    is_exchange = names <= {"ncclSend", "ncclRecv"}
    reason = GROUPED if group is None or (len(names) > 1 and not is_exchange) else NO_CALL if not own else ""
    reason = reason or (NO_PAYLOADS if any(call.message_bytes < 0 for call in own) else "")
    if reason:
        return Collective(operation, reason=reason)
    count, rank = ranks.get((pid, own[0].communicator), (None, None))
    if is_exchange:
        size = _exchanged(own, rank)
        return Collective(operation, size, count, float(size))
    size, factor = sum(call.message_bytes for call in own), _OPERATIONS[own[0].name][1]
    if factor is not None and count is None:
        return Collective(operation, size, reason=NO_RANKS)
    return Collective(operation, size, count, float(size) if factor is None else size * factor(count or 1))


def _exchanged(calls: Sequence[_NcclCall], rank: int | None) -> int:
    """Return the larger sum of what was sent and received (bytes), because both directions of a link work at once.

    What a rank sends to itself does not leave the board.
    """
    away = [call for call in calls if call.peer < 0 or call.peer != rank]
    return max(sum(call.message_bytes for call in away if call.name == name) for name in ("ncclSend", "ncclRecv"))
