"""A quick look at what a trace holds, without reading it: enough to tell a lost recording from a good one."""

from __future__ import annotations

import sqlite3

from nsysprof.trace.open import Trace, quote
from nsysprof.trace.schema import RecordedKinds
from nsysprof.trace.tables import read_diagnostics

_GPU_WORK = (
    "CUPTI_ACTIVITY_KIND_KERNEL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
    "CUPTI_ACTIVITY_KIND_MEMCPY",
    "CUPTI_ACTIVITY_KIND_MEMSET",
)
_LAUNCHES = "%LaunchKernel%"


def read_recorded(trace: Trace) -> RecordedKinds:
    """Look for one row of each kind; a table that is damaged has none."""
    return RecordedKinds(
        kernels=any(_has_row(trace, table) for table in _GPU_WORK[:2]),
        gpu_work=any(_has_row(trace, table) for table in _GPU_WORK),
        launches=_has_launch(trace),
        ranges=_has_row(trace, "NVTX_EVENTS", "eventType IN (59, 60, 70, 71)"),
        calls=_has_row(trace, "CUPTI_ACTIVITY_KIND_RUNTIME"),
        diagnostics=read_diagnostics(trace),
    )


def _has_row(trace: Trace, table: str, condition: str = "1") -> bool:
    found = trace.find(table)
    if found is None:
        return False
    try:
        with trace.lock:
            return (
                trace.connection.execute(f"SELECT 1 FROM {quote(found)} WHERE {condition} LIMIT 1").fetchone()
                is not None
            )
    except sqlite3.DatabaseError:
        return False


def _has_launch(trace: Trace) -> bool:
    calls, strings = trace.find("CUPTI_ACTIVITY_KIND_RUNTIME"), trace.find("StringIds")
    if calls is None or strings is None:
        return False
    return _has_row(
        trace,
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        f"nameId IN (SELECT id FROM {quote(strings)} WHERE value LIKE '{_LAUNCHES}')",
    )
