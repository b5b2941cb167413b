"""Check which kinds of events a trace contains, without reading it: enough to recognise a failed recording."""

from __future__ import annotations

import sqlite3

from nsysprof.trace.columns import table_sql
from nsysprof.trace.open import Trace, quote
from nsysprof.trace.schema import PID_MASK, RecordedKinds
from nsysprof.trace.tables import read_diagnostics, split_diagnostics

_GPU_WORK = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
)
_LAUNCHES = "%LaunchKernel%"
# ENUM_DIAGNOSTIC_SEVERITY_LEVEL: 1 is information.
_WARNING = 2


def read_recorded(trace: Trace) -> RecordedKinds:
    """Return which kinds of events there are, by looking for one row of each. A damaged table counts as empty."""
    diagnostics, of_helpers = split_diagnostics(trace, _users_of_cuda(trace))
    return RecordedKinds(
        kernels=any(_has_row(trace, table) for table in _GPU_WORK[:2]),
        gpu_work=any(_has_row(trace, table) for table in _GPU_WORK),
        launches=_has_launch(trace),
        ranges=_has_row(trace, "NVTX_EVENTS", "eventType IN (59, 60, 70, 71)"),
        calls=_has_row(trace, "CUPTI_ACTIVITY_KIND_RUNTIME"),
        diagnostics=diagnostics,
        helper_diagnostics=of_helpers,
    )


def _users_of_cuda(trace: Trace) -> set[int]:
    """Return the global ids of processes that made calls.

    This needs a scan, so it returns none where nsys has no warnings.
    """
    calls_table = trace.find("CUPTI_ACTIVITY_KIND_RUNTIME")
    warns = any(severity >= _WARNING for severity, _ in read_diagnostics(trace))
    if calls_table is None or not warns or "globaltid" not in {name.lower() for name in trace.columns[calls_table]}:
        return set()
    try:
        with trace.lock:
            query = f"SELECT DISTINCT globalTid & {PID_MASK} FROM {table_sql(trace, calls_table)}"
            return {pid for (pid,) in trace.connection.execute(query) if isinstance(pid, int)}
    except sqlite3.DatabaseError as error:
        trace.explain(error)
        return set()


def _has_row(trace: Trace, table: str, condition: str = "1") -> bool:
    stored_table = trace.find(table)
    if stored_table is None:
        return False
    try:
        with trace.lock:
            return (
                trace.connection.execute(
                    f"SELECT 1 FROM {table_sql(trace, stored_table)} WHERE {condition} LIMIT 1"
                ).fetchone()
                is not None
            )
    except sqlite3.DatabaseError as error:
        trace.explain(error)
        return False


def _has_launch(trace: Trace) -> bool:
    calls, strings = trace.find("CUPTI_ACTIVITY_KIND_RUNTIME"), trace.find("StringIds")
    if calls is None or strings is None:
        return False
    named = f"nameId IN (SELECT id FROM {quote(strings)} NOT INDEXED WHERE value LIKE '{_LAUNCHES}')"
    return _has_row(trace, "CUPTI_ACTIVITY_KIND_RUNTIME", named)
