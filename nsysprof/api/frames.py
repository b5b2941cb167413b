"""Provide open_trace, which opens any trace that the command line reads, and its rows as pandas DataFrames.

Times are integer ns since the session's start, sizes are bytes, and ids are those of nsys. A column is int64, or Int64
with NA where the trace lacks some of its values; texts are categoricals. Every function reads one table row by row.
Nothing is joined, grouped or left out, unless its documentation says so. A table that the trace does not have gives a
DataFrame without rows; `trace.has(TABLE)` distinguishes it from an empty one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from nsysprof.api.notebook import ShownAnalysis, show_analysis
from nsysprof.app.trace_analysis.assemble import AnalysisOptions, summarize_opened
from nsysprof.files.plain_file import refuse_url, scratch_folder
from nsysprof.kernels.names import categorize
from nsysprof.trace import open as trace_open
from nsysprof.trace import tables
from nsysprof.trace.columns import read_integers
from nsysprof.trace.inputs.resolve_input import identity_of, resolve_input
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


@contextmanager
def open_trace(source: str | os.PathLike[str], *, nsys: str | os.PathLike[str] | None = None) -> Iterator[Trace]:
    """Open a trace read-only for the duration of a `with` block.

    Raises NsysprofError (see nsysprof.errors) for what is missing, damaged or not a trace. str(error) says what is
    wrong, and error.next_step what to do. Damaged tables are left out, with a Note in trace.notes.

    source: whatever `nsysprof analyze` takes: an nsys .sqlite, that file compressed (.xz, .gz, .zst), a .nsys-rep, a
        folder of nsys' Parquet files, Kineto's JSON, a capture folder, a bundle. What must be unpacked, exported or
        converted first goes to a temporary folder, which is removed at the end of the block.
    nsys: the nsys that exports a .nsys-rep; searched for when not given.
    """
    path = Path(source)
    refuse_url(path)
    with scratch_folder() as scratch:
        found = resolve_input(path, None if nsys is None else Path(nsys), scratch)
        with trace_open.open_trace(found, identity_of(path, found)) as trace:
            yield trace


def summarize(trace: Trace, *, range: str | None = None, step: int | None = None) -> ShownAnalysis:
    """Return what `nsysprof analyze` prints and writes: kernels, ranges, API calls, copies, totals, coverage, notes.

    It is what the trace alone says. nsysprof.analyze joins what lies beside it in a capture folder: counters, stacks,
    memory, attention calls, and the cost of recording, by which it leaves findings out.

    The tables have the columns of the analysis folder's CSV files (docs/files.md). Times are integer ns, sizes bytes. A
    number that the trace does not support is None (NA in a table), and a note says why. A notebook shows the result as
    text and bars; `plot_timeline()`, `plot_kernels()` and `plot_memory()` return its figures.

    Raises UsageError for a range or a step that the trace lacks.

    range, step: the path or the name of the only range to read, or the number of the only step.
    """
    return show_analysis(summarize_opened(trace, AnalysisOptions(range=range, step=step))[0])
