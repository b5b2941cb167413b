"""Read CUDA API calls, runtime and driver, into arrays."""

from __future__ import annotations

import numpy as np

from nsysprof.trace.columns import Batch, find_columns, grow_columns
from nsysprof.trace.event_columns import CALLS, read_events
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import NULL, Calls, CorrelationIds
from nsysprof.trace.table_readers.work import narrow_correlation, narrow_duration, possible_times
from nsysprof.trace.tuple_encoder import TupleEncoder

_DTYPES: dict[str, type] = {
    "start_ns": np.int64, "duration_ns": np.uint32, "correlation_id": np.uint32, "variant": np.uint8,
}  # fmt: skip
# The event class of RUNTIME rows that are not calls: CUDABACKTRACE repeats a call's correlation id.
_BACKTRACE = 67


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
