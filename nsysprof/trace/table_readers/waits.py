"""Read synchronisations (what threads and streams waited for), and the profiler's own overhead."""

from __future__ import annotations

import pandas as pd

from nsysprof.trace.columns import read_integers
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import NULL

_PLACE = {
    "deviceId": "device_id", "contextId": "context_id", "streamId": "stream_id", "correlationId": "correlation_id",
    "globalPid": "global_pid", "eventId": "event_id", "eventSyncId": "event_sync_id",
}  # fmt: skip
_OVERHEADS = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")


def read_syncs(trace: Trace) -> pd.DataFrame | None:
    """Return CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: which stream, event or context each synchronising call waited for."""
    times = {"start": "start_ns", "end": "end_ns", "syncType": "sync_type"}
    return read_integers(trace, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", times, _PLACE)


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
