"""Read all tables of a trace that the analysis needs, in parallel, and connect them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd

from nsysprof.errors import TraceForeignError
from nsysprof.native.load import native_problem
from nsysprof.notes import make_note
from nsysprof.torchprof.operator_facts import MARK
from nsysprof.trace.columns import read_integers, read_rows, read_with_texts
from nsysprof.trace.open import InlineExecutor, Trace
from nsysprof.trace.schema import KERNEL, NULL, PID_MASK, Calls, Int64s, Tables, Work
from nsysprof.trace.table_readers.calls import (
    match_launches,
    match_table,
    read_calls,
    read_graph_nodes,
    read_os_calls,
    read_overheads,
    read_syncs,
    read_waits,
    read_work,
)
from nsysprof.trace.table_readers.collective_payloads import read_collective_payloads
from nsysprof.trace.table_readers.gpus import LONGEST_RANGE_NAME, Gpus, cut_name, read_gpu_metrics, read_gpus
from nsysprof.trace.table_readers.layer_ranges import split_added

# What one trace may name. NVIDIA's largest machine that shares one memory has 576 GPUs, and a GPU runs 128 streams at
# once. Each of them takes time in proportion to all work.
_MOST = {"GPUs": 1_024, "processes": 1_024, "streams": 4_096, "threads": 16_384}
# Objects: a column of pandas' own strings would make a text of each row anew where it is read.
_RANGE_STYLES = pd.Series({59: "PushPop", 60: "StartEnd", 70: "PushPop", 71: "StartEnd"}, dtype=object)
_DOMAIN_TYPE = 75
_CUDA_BEGAN, _CUPTI_COUNTED = "CUDA injection initialized", "Number of CUPTI events produced"
_COUNTS = re.compile(r"Number of (CUPTI events produced|CUDA events collected)")
_MEMORY_EVENTS = {"start": "time_ns", "address": "address", "bytes": "bytes", "memoryOperationType": "operation"}
_MEMORY_DETAILS = {
    "globalPid": "global_pid", "deviceId": "device_id", "memKind": "kind", "localMemoryPoolAddress": "pool",
    "localMemoryPoolSize": "pool_bytes", "importedMemoryPoolAddress": "imported",
}  # fmt: skip
_POOL_EVENTS = {"start": "time_ns", "address": "pool", "operationType": "pool_operation"}
_POOL_DETAILS = {"globalPid": "global_pid", "deviceId": "device_id", "localMemoryPoolSize": "pool_bytes"}
_POOL_DESTROYED = 2
_POOL_RESIZED = 2
_DEVICE_KIND = 2


def read_tables(trace: Trace, progress: Callable[[str], None] | None = None) -> Tables:
    """Read everything and return it.

    progress: called with each table's name and number of rows.
    """
    say = progress or (lambda _text: None)
    if trace.is_large and (problem := native_problem()) is not None:
        trace.notes.append(make_note("slow-reader", problem=problem))
    if trace.is_large:
        say(f"read {trace.bytes / 1e6:,.0f} MB")
    noted, digest = len(trace.notes), trace.digest
    # Two tables hold nearly all rows, so two threads read them in parallel; compiled reading releases the GIL.
    with InlineExecutor() if trace.one_thread else ThreadPoolExecutor(2 if trace.is_large else 1) as pool:
        try:
            gpus = read_gpus(trace)
            reading_calls, reading_work = pool.submit(read_calls, trace), pool.submit(read_work, trace, gpus)
            strings = read_strings(trace)
            ranges, layers, collections, compiles, loads = split_added(read_ranges(trace, strings))
            ranges, operators, marks = split_operators(ranges)
            memory, metrics = read_memory(trace, gpus), read_gpu_metrics(trace, gpus)
            syncs, overheads, waits = read_syncs(trace), read_overheads(trace), read_waits(trace, strings)
            nodes, payloads = read_graph_nodes(trace), read_collective_payloads(trace)
            (calls, call_ids), (work, work_ids, recorded) = reading_calls.result(), reading_work.result()
        except BaseException:
            trace.limits.cancelled.set()  # the pool waits for tasks that have begun
            raise
    _refuse_many(trace, work, calls)
    trace.notes[noted:] = sorted(trace.notes[noted:], key=lambda note: note.text)  # the order of threads varies
    if KERNEL in recorded:
        say(f"read {work.kernels:,} kernels")
    say("read no API calls" if calls is None else f"read {len(calls):,} API calls")
    diagnostics, of_helpers = split_diagnostics(trace, _users_of_cuda(calls, work))
    return Tables(
        path_name=trace.identity.resolve().name,
        digest=digest,
        bytes=trace.identity_bytes,
        capture_facts=_capture_facts(trace),
        export_facts=_export_facts(trace),
        diagnostics=diagnostics,
        helper_diagnostics=of_helpers,
        known_streams=_known_streams(trace),
        strings=strings,
        devices=gpus.device_rows(),
        work=work,
        recorded=recorded,
        calls=calls,
        launch=match_launches(work, work_ids, calls, call_ids),
        ranges=ranges,
        operators=operators,
        marks=marks,
        layers=layers,
        collections=collections,
        loads=loads,
        compiles=compiles,
        waits=waits,
        memory=memory,
        gpu_metrics=metrics,
        notes=trace.notes,
        losses=trace.losses,
        syncs=match_table(syncs, calls, call_ids),
        overheads=_with_marks(overheads, marks, calls),
        graph_nodes=nodes,
        payloads=payloads,
        os_calls=read_os_calls(trace) if calls is None and not len(work) else None,
    )


def _refuse_many(trace: Trace, work: Work, calls: Calls | None) -> None:
    """Raise TraceForeignError where more GPUs, processes, streams or threads work than a real program has."""
    threads = np.zeros(0, np.int64) if calls is None else calls.tid_of
    counts = {
        "GPUs": len(np.unique(work.device_of)),
        "processes": len(np.unique(np.concatenate((work.pid_of, threads & PID_MASK)))),
        "streams": len(np.unique(work.streams_of, axis=0)),
        "threads": len(np.unique(threads)),
    }
    for what, count in counts.items():
        if count > _MOST[what]:
            raise TraceForeignError(
                f"{trace.identity} names {count:,} {what}; at most {_MOST[what]:,} are read.", "Record a shorter part."
            )


def read_strings(trace: Trace) -> pd.Series:
    """Return StringIds as a Series, id -> text. Names that are too long are cut."""
    rows = read_rows(trace, "StringIds", ("id", "value"))
    return pd.Series([cut_name(str(value)) for _, value in rows], index=[key for key, _ in rows], dtype=object)


def read_ranges(trace: Trace, strings: pd.Series) -> pd.DataFrame | None:
    """Return the push/pop and start/end ranges of NVTX_EVENTS, with names and domains resolved and without marks."""
    ranges_and_texts = read_with_texts(
        trace,
        "NVTX_EVENTS",
        "text",
        {"start": "start_ns", "end": "end_ns", "eventType": "event_type"},
        {
            "globalTid": "global_tid",
            "endGlobalTid": "end_global_tid",
            "textId": "text_id",
            "domainId": "domain_id",
            "rangeId": "range_id",
        },
    )
    if ranges_and_texts is None:
        return None
    table, texts = ranges_and_texts
    table["name"] = _range_names(table["text_id"].to_numpy(dtype=np.int64), texts, strings)
    table["pid"] = table["global_tid"] & ~0xFFFFFF
    domains = table[table["event_type"] == _DOMAIN_TYPE]
    table["style"] = table["event_type"].map(_RANGE_STYLES)
    table = table[table["style"].notna()].reset_index(drop=True)
    table["domain"] = _domain_names(table[["pid", "domain_id"]], domains)
    return table[["start_ns", "end_ns", "style", "global_tid", "end_global_tid", "domain_id", "name", "domain"]]


def split_operators(ranges: pd.DataFrame | None) -> tuple[pd.DataFrame | None, pd.DataFrame | None, Int64s]:
    """Return the ranges without those that a recording of operators added, those of operators, and the marks.

    Ranges of operators outside a marked stretch are the program's own, and are in both. The marks are as in Tables.
    """
    marks = np.zeros((0, 3), dtype=np.int64)
    if ranges is None or ranges.empty:
        return ranges, None, marks
    number, names = pd.factorize(ranges["name"])
    is_operator = np.array([", op_id = " in name for name in names], dtype=bool)[number]
    is_added = np.array([name == MARK for name in names], dtype=bool)[number]
    if not is_operator.any():
        return ranges[~is_added].reset_index(drop=True) if is_added.any() else ranges, None, marks
    start, end = ranges["start_ns"].to_numpy(dtype=np.int64), ranges["end_ns"].to_numpy(dtype=np.int64)
    process = ranges["global_tid"].to_numpy(dtype=np.int64) & PID_MASK
    marks = np.stack((start, end, process), axis=1)[is_added & (end > start)]
    for since, until, of_process in marks.tolist():
        is_added |= is_operator & (start >= since) & (start < until) & (process == of_process)
    operators = ranges[is_operator & (end > start)][["start_ns", "end_ns", "global_tid", "name"]]
    return ranges[~is_added].reset_index(drop=True), operators.reset_index(drop=True), marks


def _with_marks(overheads: pd.DataFrame | None, marks: Int64s, calls: Calls | None) -> pd.DataFrame | None:
    """Return the profiler's own time with the marked stretches, in which all threads of the process wait for it."""
    if calls is None or not len(marks):
        return overheads
    threads = np.unique(calls.tid_of)
    rows = [
        (start, end, thread, NULL)
        for start, end, process in marks.tolist()
        for thread in threads[threads & PID_MASK == process].tolist()
    ]
    added = pd.DataFrame(rows, columns=["start_ns", "end_ns", "global_tid", "name_id"], dtype=np.int64)
    return added if overheads is None else pd.concat([overheads, added], ignore_index=True)


def _range_names(text_ids: Int64s, own: list[str | None], strings: pd.Series) -> pd.Series:
    """Return each row's own text, else the registered string that it refers to, else ""."""
    codes, unique = pd.factorize(text_ids)
    registered = strings[~strings.index.duplicated()].reindex(unique)
    names = np.array(
        [cut_name(text, LONGEST_RANGE_NAME) if isinstance(text, str) else "" for text in registered], dtype=object
    )
    texts = np.array([None if text is None else cut_name(text, LONGEST_RANGE_NAME) for text in own], dtype=object)
    return pd.Series(np.where(pd.isna(texts), names[codes], texts), dtype=object)


def _domain_names(keys: pd.DataFrame, domains: pd.DataFrame) -> pd.Series:
    """Return the domain of each (pid, domain_id): "" for the default one, a number where no name was recorded."""
    names = dict(zip(zip(domains["pid"], domains["domain_id"], strict=True), domains["name"], strict=True))
    unique = keys.drop_duplicates()
    labels = [
        names.get(key, "" if key[1] in (0, NULL) else f"domain {key[1]}")
        for key in unique.itertuples(index=False, name=None)
    ]
    label = pd.Series(labels, index=pd.MultiIndex.from_frame(unique), dtype=object, name="domain")
    return keys.join(label, on=["pid", "domain_id"])["domain"]


def _capture_facts(trace: Trace) -> dict[str, list[str]]:
    facts: dict[str, list[str]] = {}
    for name, value in read_rows(trace, "META_DATA_CAPTURE", ("name", "value")):
        facts.setdefault(str(name), []).append(str(value))
    return facts


def _export_facts(trace: Trace) -> dict[str, str]:
    table = "META_DATA_EXPORT" if trace.has("META_DATA_EXPORT") else "EXPORT_META_DATA"
    return {str(name): str(value) for name, value in read_rows(trace, table, ("name", "value"))}


def read_diagnostics(trace: Trace) -> list[tuple[int, str]]:
    """Return what nsys reports about the recording: severity and text."""
    return [message for _, message in _read_messages(trace)]


def _read_messages(trace: Trace) -> list[tuple[int, tuple[int, str]]]:
    """Return the messages of nsys: global pid, severity and text.

    They are read once, because two reads of a damaged table could return different rows. CUPTI counts the events since
    the process first used CUDA. Where that was before the recording began, its count covers more than the recording, so
    it is left out. Counts of one process include those before them, so only the last of each kind is returned.
    """
    rows = read_rows(trace, "DIAGNOSTIC_EVENT", ("globalPid", "severity", "text", "timestamp"))
    older = {
        pid for pid, _, text, time in rows if isinstance(time, int) and time < 0 and str(text).startswith(_CUDA_BEGAN)
    }
    messages = [
        (_int(pid) or 0, (_int(severity) or 0, str(text)))
        for pid, severity, text, _ in rows
        if not (pid in older and str(text).startswith(_CUPTI_COUNTED))
    ]
    counts = [_COUNTS.match(text) for _, (_, text) in messages]
    last = {(pid, count[0]): row for row, ((pid, _), count) in enumerate(zip(messages, counts, strict=True)) if count}
    return [
        (pid, message)
        for row, ((pid, message), count) in enumerate(zip(messages, counts, strict=True))
        if count is None or last[pid, count[0]] == row
    ]


def _known_streams(trace: Trace) -> frozenset[tuple[int, int, int]]:
    """Return process id, context and stream of every stream whose creation was recorded, default streams included."""
    tables = (
        ("TARGET_INFO_CUDA_STREAM", "streamId"),
        ("TARGET_INFO_CUDA_NULL_STREAM", "streamId"),
        ("TARGET_INFO_CUDA_CONTEXT_INFO", "nullStreamId"),
    )
    rows = [row for table, stream in tables for row in read_rows(trace, table, ("processId", "contextId", stream))]
    return frozenset(
        (pid, context, stream)
        for pid, context, stream in rows
        if isinstance(pid, int) and isinstance(context, int) and isinstance(stream, int)
    )


def split_diagnostics(trace: Trace, users: Collection[int]) -> tuple[list[tuple[int, str]], ...]:
    """Return nsys' messages about the session and processes that use CUDA, and those about all other processes.

    users: the global ids of the processes that use CUDA. If there are none, all messages are in the first part.
    """
    messages: tuple[list[tuple[int, str]], list[tuple[int, str]]] = ([], [])
    for pid, message in _read_messages(trace):
        is_process = (pid >> 24) & 0xFFFFFF != 0
        messages[bool(users) and is_process and pid & PID_MASK not in users].append(message)
    return messages


def _users_of_cuda(calls: Calls | None, work: Work) -> set[int]:
    pids = set(work.pid_of.tolist())
    return pids if calls is None else pids | set((calls.tid_of & PID_MASK).tolist())


def _int(value: object) -> int | None:
    return value if isinstance(value, int) else None


def read_memory(trace: Trace, gpus: Gpus) -> pd.DataFrame | None:
    """Return the rows of CUDA_GPU_MEMORY_USAGE_EVENTS, with the pools of CUDA_GPU_MEMORY_POOL_EVENTS.

    Return None where the first table has no rows. A full export has it even when memory was not traced (without
    --cuda-memory-usage=true), and every CUDA program allocates some.
    """
    table = read_integers(trace, "CUDA_GPU_MEMORY_USAGE_EVENTS", _MEMORY_EVENTS, _MEMORY_DETAILS)
    if table is None or len(table) == 0:
        return None
    pools = read_integers(trace, "CUDA_GPU_MEMORY_POOL_EVENTS", _POOL_EVENTS, _POOL_DETAILS)
    if pools is not None and len(pools):
        pools.loc[pools.pop("pool_operation") == _POOL_DESTROYED, "pool_bytes"] = 0
        blank = {"address": NULL, "bytes": 0, "operation": _POOL_RESIZED, "kind": _DEVICE_KIND, "imported": NULL}
        table = pd.concat([table, pools.assign(**blank)[table.columns]], ignore_index=True)
    table["device_id"] = gpus.numbers(
        *(table[column].to_numpy(dtype=np.int64) for column in ("global_pid", "device_id"))
    )
    return table
