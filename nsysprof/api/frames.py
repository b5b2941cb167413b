"""Read the rows of a trace as pandas DataFrames.

Times are integer ns since the session's start, sizes are bytes, and ids are those of nsys. A column is int64, or Int64
with NA where the trace lacks some of its values; texts are categoricals. Every function reads one table row by row.
Nothing is joined, grouped or left out, unless its documentation says so. A table that the trace does not have gives a
DataFrame without rows; `trace.has(TABLE)` distinguishes it from an empty one.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.kernels.names import categorize
from nsysprof.trace import tables
from nsysprof.trace.columns import read_integers
from nsysprof.trace.open import Trace
from nsysprof.trace.schema import NULL

_TIMES = {"start": "start_ns", "end": "end_ns"}
_LANE = {
    "deviceId": "device_id", "contextId": "context_id", "streamId": "stream_id", "globalPid": "global_pid",
    "correlationId": "correlation_id", "graphNodeId": "graph_node_id",
}  # fmt: skip
_KERNEL = {
    "demangledName": "name", "shortName": "short_name", "gridX": "grid_x", "gridY": "grid_y", "gridZ": "grid_z",
    "blockX": "block_x", "blockY": "block_y", "blockZ": "block_z", "registersPerThread": "registers_per_thread",
    "staticSharedMemory": "static_shared_bytes", "dynamicSharedMemory": "dynamic_shared_bytes",
}  # fmt: skip
_MEMORY = {
    "start": "time_ns", "globalPid": "global_pid", "deviceId": "device_id", "address": "address", "bytes": "bytes",
    "memKind": "kind", "memoryOperationType": "operation", "correlationId": "correlation_id",
}  # fmt: skip


def read_kernels(trace: Trace) -> pd.DataFrame:
    """Return kernel instances (CUPTI_ACTIVITY_KIND_KERNEL), one row each.

    Columns: name (demangled), short_name, category, start_ns, end_ns, duration_ns, device_id (the CUDA ordinal),
    context_id, stream_id, global_pid, correlation_id (unique within its global_pid), graph_node_id, grid_x ... block_z,
    registers_per_thread, static_shared_bytes, dynamic_shared_bytes.
    """
    table = _read(trace, "CUPTI_ACTIVITY_KIND_KERNEL", _TIMES, {**_LANE, **_KERNEL})
    strings = _strings(trace)
    short = table["short_name"]
    table["name"] = _texts(table["name"].where(table["name"].notna(), short), strings)
    table["short_name"] = _texts(short, strings)
    table["duration_ns"] = table["end_ns"] - table["start_ns"]
    names = table["name"].cat.categories
    table["category"] = table["name"].map({name: categorize(name) for name in names}).astype("category")
    first = ["name", "short_name", "category", "start_ns", "end_ns", "duration_ns"]
    return table[[*first, *(column for column in table.columns if column not in first)]]


def read_calls(trace: Trace) -> pd.DataFrame:
    """Return CUDA API calls, runtime and driver (CUPTI_ACTIVITY_KIND_RUNTIME), one row each.

    Columns: name, start_ns, end_ns, global_tid, correlation_id, return_value (0: success), event_class. Rows that
    only repeat a call for its backtrace (event class 67) are left out.
    """
    optional = {
        "nameId": "name", "globalTid": "global_tid", "correlationId": "correlation_id", "returnValue": "return_value",
        "eventClass": "event_class",
    }  # fmt: skip
    table = _read(trace, "CUPTI_ACTIVITY_KIND_RUNTIME", _TIMES, optional)
    table = table[(table["event_class"] != 67).fillna(True)].reset_index(drop=True)
    table["name"] = _texts(table["name"], _strings(trace))
    return table


def read_copies(trace: Trace) -> pd.DataFrame:
    """Return copies (CUPTI_ACTIVITY_KIND_MEMCPY), one row each.

    Page migrations of unified memory (kinds 11 to 13) are among them.

    Columns: start_ns, end_ns, bytes, copy_kind (1 host to device, 2 device to host, 8 device to device, 10 peer),
    device_id, context_id, stream_id, global_pid, correlation_id, graph_node_id.
    """
    return _read(trace, "CUPTI_ACTIVITY_KIND_MEMCPY", {**_TIMES, "bytes": "bytes", "copyKind": "copy_kind"}, _LANE)


def read_fills(trace: Trace) -> pd.DataFrame:
    """Return memory fills (CUPTI_ACTIVITY_KIND_MEMSET), one row each, with the columns of read_copies but copy_kind."""
    return _read(trace, "CUPTI_ACTIVITY_KIND_MEMSET", {**_TIMES, "bytes": "bytes"}, _LANE)


def read_ranges(trace: Trace) -> pd.DataFrame:
    """Return NVTX ranges, push/pop and start/end, one row per instance.

    Columns: name, style ("PushPop" or "StartEnd"), domain (empty: the default one), start_ns, end_ns (NA: never
    closed), global_tid, end_global_tid, domain_id.
    """
    table = tables.read_ranges(trace, tables.read_strings(trace))
    if table is None:
        columns = ["start_ns", "end_ns", "style", "global_tid", "end_global_tid", "domain_id", "name", "domain"]
        return pd.DataFrame({column: pd.Series(dtype="object") for column in columns})
    for column in ("name", "style", "domain"):
        table[column] = table[column].astype("category")
    return _nullable(table)


def read_memory(trace: Trace) -> pd.DataFrame:
    """Return allocations and frees of memory (CUDA_GPU_MEMORY_USAGE_EVENTS), one row each.

    docs/analyze.md says how VRAM is computed from them.

    Columns: time_ns, operation (0 allocation, 1 free), bytes, address, kind (2 device, 3 array, 5 static are VRAM; 0
    pageable, 1 pinned host memory; 4, 6 managed), device_id, global_pid, correlation_id.
    """
    return _read(trace, "CUDA_GPU_MEMORY_USAGE_EVENTS", {}, _MEMORY)


def _read(trace: Trace, table: str, required: dict[str, str], optional: dict[str, str]) -> pd.DataFrame:
    found = read_integers(trace, table, required, optional)
    if found is None:
        return pd.DataFrame({name: pd.Series(dtype="int64") for name in {**required, **optional}.values()})
    return _nullable(found)


def _nullable(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with NULL as NA in the integer columns that have any."""
    for column in table.select_dtypes("int64").columns:
        unknown = table[column] == NULL
        if unknown.any():
            table[column] = table[column].astype("Int64").mask(unknown)
    return table


def _strings(trace: Trace) -> dict[int, str]:
    strings = tables.read_strings(trace)
    return dict(zip(reversed(strings.index.tolist()), reversed(strings.tolist()), strict=True))


def _texts(ids: pd.Series, strings: dict[int, str]) -> pd.Series:
    """Return the texts of ids as a categorical. An id without a text gets its number as name; an unknown id is NA."""
    code, unique = pd.factorize(ids)
    texts = [strings.get(int(key), f"<string {key}>") for key in unique]
    number, categories = pd.factorize(np.array(texts, dtype=object))  # joins texts that are equal
    codes = np.append(number, -1)[code]
    return pd.Series(pd.Categorical.from_codes(codes, categories=pd.Index(categories, dtype=object)), index=ids.index)
