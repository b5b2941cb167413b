"""All GPU work of a trace in one table, each row with the API call that launched it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.intervals import Ints
from nsysprof.trace.schema import NULL, Tables

KERNEL, COPY, FILL, GRAPH = 0, 1, 2, 3
# copyKind 11, 12, 13: page migrations of unified memory. No call of the program asked for them.
UNIFIED_KINDS = (11, 12, 13)
PID_MASK = ~0xFFFFFF
# 146 years: no session's clock, and differences of such times still fit 64 bits.
_FAR_NS = 2**62


def collect_work(tables: Tables) -> tuple[pd.DataFrame, int]:
    """Kernels, copies, fills and graph replays, in that order, and the number of rows dropped for impossible times.

    Columns: kind, start_ns, end_ns, device_id, stream_id, context_id, correlation_id, global_pid, name_id,
    short_name_id, bytes, copy_kind, in_graph, launch (row of tables.launches, or -1). Page migrations of unified
    memory are left out: they belong to no stream and no call.
    """
    parts = []
    for kind, table in ((KERNEL, tables.kernels), (COPY, tables.copies), (FILL, tables.fills), (GRAPH, tables.graphs)):
        if table is not None:
            parts.append(table.assign(kind=kind))
    columns = [
        "kind", "start_ns", "end_ns", "device_id", "stream_id", "context_id", "correlation_id", "global_pid",
        "name_id", "short_name_id", "bytes", "copy_kind", "graph_node_id",
    ]  # fmt: skip
    if not parts:
        empty = pd.DataFrame({column: np.zeros(0, np.int64) for column in columns})
        return empty.assign(in_graph=False, launch=np.zeros(0, np.int64)), 0
    work = pd.concat([part.reindex(columns=columns, fill_value=NULL) for part in parts], ignore_index=True)
    work = work[~work["copy_kind"].isin(UNIFIED_KINDS)]
    good = (work["end_ns"] >= work["start_ns"]) & ~((work["start_ns"] == 0) & (work["end_ns"] == 0))
    good &= (work["start_ns"].abs() < _FAR_NS) & (work["end_ns"].abs() < _FAR_NS) & (work["start_ns"] != NULL)
    dropped = int((~good).sum())
    work = work[good].reset_index(drop=True)
    work["in_graph"] = (work.pop("graph_node_id") > 0) & (work["kind"] == KERNEL)
    work["launch"] = match_launches(work, tables.launches)
    work["name_id"] = _one_id_a_name(work["name_id"], tables.strings)
    return work, dropped


def _one_id_a_name(ids: pd.Series, strings: pd.Series) -> pd.Series:
    """`ids` with the first id of each text: names are what counts, and StringIds does not promise to hold one once."""
    used = strings[strings.index.isin(ids.unique())]
    again = used[used.duplicated()]
    if len(again) == 0:
        return ids
    first = {text: key for key, text in used.drop_duplicates().items()}
    return ids.replace({key: first[text] for key, text in again.items()})


def match_launches(work: pd.DataFrame, launches: pd.DataFrame | None) -> Ints:
    """For each row of work, the row of the API call with the same (globalPid, correlationId), or -1.

    A correlation id is unique within its process only, and a call may have several rows; the earliest is taken, so
    that no row of work is ever multiplied.
    """
    if launches is None or len(launches) == 0 or len(work) == 0:
        return np.full(len(work), -1, dtype=np.int64)
    call_pid = (launches["global_tid"] & PID_MASK).to_numpy()
    pids, call_group = np.unique(call_pid, return_inverse=True)
    work_pid, work_id = work["global_pid"].to_numpy(), work["correlation_id"].to_numpy()
    position = np.minimum(np.searchsorted(pids, work_pid), len(pids) - 1)
    known = (pids[position] == work_pid) & (work_id != NULL) & (work_id != 0)
    # Correlation ids are 32 bit in CUPTI; anything larger is not one and must not spill into the next process.
    call_id = launches["correlation_id"].to_numpy()
    usable = np.flatnonzero((call_id > 0) & (call_id < 2**40))
    known &= (work_id > 0) & (work_id < 2**40)
    key = call_group[usable] * 2**40 + call_id[usable]
    order = np.lexsort((launches["start_ns"].to_numpy()[usable], key))
    sorted_key = key[order]
    wanted = np.where(known, position * 2**40 + np.where(known, work_id, 0), -1)
    found = np.searchsorted(sorted_key, wanted)
    found_safe = np.minimum(found, max(0, len(sorted_key) - 1))
    hit = known & (len(sorted_key) > 0)
    if len(sorted_key):
        hit &= sorted_key[found_safe] == wanted
        return np.where(hit, usable[order[found_safe]], -1).astype(np.int64)
    return np.full(len(work), -1, dtype=np.int64)
