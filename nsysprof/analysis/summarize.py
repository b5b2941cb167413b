"""From the tables of a trace to its Analysis."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from nsysprof.analysis.calls import graph_launch_calls, launch_calls, opaque_replays
from nsysprof.analysis.categories import categorize
from nsysprof.analysis.health import find_data_loss, read_health
from nsysprof.analysis.intervals import union_ns
from nsysprof.analysis.memory import DeviceMemory, follow_memory
from nsysprof.analysis.ranges import (
    Attributed,
    attribute_ranges,
    close_ranges,
    summarize_range_kernels,
    summarize_ranges,
)
from nsysprof.analysis.results import (
    API_COLUMNS,
    KERNEL_COLUMNS,
    MEMOP_COLUMNS,
    Analysis,
    Coverage,
    Device,
    Totals,
    TraceInfo,
)
from nsysprof.analysis.statistics import summarize_durations
from nsysprof.analysis.timeline import look_up, make_timeline, names_by_id
from nsysprof.analysis.work import GRAPH, KERNEL, collect_work
from nsysprof.notes import Note, Severity
from nsysprof.trace.schema import NULL, Tables

# ENUM_CUDA_MEMCPY_OPER as nsys stats prints it.
_COPY_NAMES = {
    1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host", 5: "Array-to-Array",
    6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer",
    11: "Unified Host-to-Device", 12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip


def summarize(tables: Tables) -> Analysis:
    """Count and attribute everything. All counts come from the rows of one table each, never from a join."""
    work, dropped = collect_work(tables)
    ranges, open_ranges, bad_ranges = close_ranges(tables)
    attributed = attribute_ranges(tables, work, ranges)
    memory = follow_memory(tables)
    names = names_by_id(tables, _used_names(tables, work))
    kernel_names = {names.get(int(i), "") for i in work.loc[work["kind"] == KERNEL, "name_id"].unique()}
    categories = {name: categorize(name) for name in kernel_names}
    lost, loss_notes = find_data_loss(tables, work, attributed)
    info = _trace_info(tables)
    health = read_health(
        tables,
        work,
        dropped=dropped,
        open_ranges=open_ranges,
        bad_ranges=bad_ranges,
        unmatched_frees=memory.unmatched_frees if memory else 0,
    )
    # An absent kernel table is no proof of no kernels: nsys that lost them all writes none.
    counted = not any(note.code in ("no-kernels", "no-gpu") and note.severity != "info" for note in loss_notes)
    by_name = summarize_ranges(tables, work, attributed, memory)
    if not counted:
        known = ("wall_ns", "peak_vram_bytes")
        gpu = [c for c in by_name.columns if c.endswith(("_ns", "_count", "_bytes")) and c not in known]
        by_name[gpu] = pd.DataFrame({c: pd.array([pd.NA] * len(by_name), dtype="Int64") for c in gpu})

    def name_of(ids: pd.Series) -> pd.Series:
        return pd.Series(look_up(ids, lambda key: names.get(key, "")), index=ids.index, dtype=object)

    return Analysis(
        trace=info,
        devices=tuple(
            Device(d.device_id, d.name, d.total_memory_bytes, d.sm_count, d.uuid) for d in _devices(tables, work)
        ),
        coverage=_coverage(tables, work, attributed, lost),
        totals=_totals(tables, work, memory, counted),
        kernels=_kernels(work, name_of, categories),
        ranges=by_name,
        range_kernels=summarize_range_kernels(work, attributed, name_of, categories),
        api=_api(tables, names),
        memops=_memops(tables),
        timeline=make_timeline(tables, work, names, categories, ranges, memory),
        notes=(*tables.notes, *loss_notes, *health, *_tool_notes(info)),
    )


def _used_names(tables: Tables, work: pd.DataFrame) -> pd.Series:
    parts = [work["name_id"], work["short_name_id"]]
    if tables.launches is not None:
        parts.append(tables.launches["name_id"])
    return pd.concat(parts, ignore_index=True)


def _trace_info(tables: Tables) -> TraceInfo:
    def fact(name: str) -> str | None:
        values = tables.capture_facts.get(f"NSYSPROF:{name}")
        return values[0] if values else None

    export = tables.export_facts
    return TraceInfo(
        path_name=tables.path_name,
        sha256=tables.sha256,
        bytes=tables.bytes,
        tool=fact("TOOL") or "nsys",
        tool_version=fact("TOOL_VERSION") or export.get("EXPORT_PRODUCT_VERSION"),
        nsys_version=export.get("EXPORT_PRODUCT_VERSION"),
        schema_version=export.get("EXPORT_SCHEMA_VERSION"),
        work_kind=fact("WORK_KIND") or "kernel",
        memory_kind=fact("MEMORY_KIND") or ("driver" if tables.memory is not None else None),
    )


def _tool_notes(info: TraceInfo) -> list[Note]:
    notes = []
    if info.work_kind == "operator":
        text = "Recorded on the CPU: every row of work is a leaf operator of torch, not a kernel of a GPU."
        notes.append(Note("cpu-operators", Severity.INFO, text))
    if info.memory_kind == "allocator":
        text = "Memory is what torch's allocator handed out (live tensors), not what the driver allocated."
        notes.append(Note("allocator-memory", Severity.INFO, text))
    return notes


def _devices(tables: Tables, work: pd.DataFrame) -> tuple[Device, ...]:
    known = {d.device_id: Device(d.device_id, d.name, d.total_memory_bytes, d.sm_count, d.uuid) for d in tables.devices}
    for number in work["device_id"].unique():
        known.setdefault(int(number), Device(int(number), f"GPU {number}", None, None, None))
    return tuple(known[number] for number in sorted(known) if number != NULL)


def _coverage(tables: Tables, work: pd.DataFrame, attributed: Attributed, lost: int | None) -> Coverage:
    kernels = (work["kind"] == KERNEL).to_numpy()
    inside = np.zeros(len(work), dtype=bool)
    inside[attributed.item] = True
    matched = (work["launch"] >= 0).to_numpy()
    reasons = {
        "no launch record": int((kernels & ~matched & ~inside).sum()),
        "launched outside every range": int((kernels & matched & ~inside).sum()),
    }
    calls = launch_calls(tables)
    launches = int((calls | _has_kernel(work, len(calls))).sum()) if tables.launches is not None else None
    return Coverage(
        kernels=int(kernels.sum()),
        attributed_kernels=int((kernels & inside).sum()),
        launches=launches,
        launches_without_gpu_record=lost,
        reasons={reason: count for reason, count in reasons.items() if count},
    )


def _has_kernel(work: pd.DataFrame, calls: int) -> np.ndarray:
    marked = np.zeros(calls, dtype=bool)
    marked[work.loc[(work["kind"].isin((KERNEL, GRAPH))) & (work["launch"] >= 0), "launch"].to_numpy()] = True
    return marked


def _totals(tables: Tables, work: pd.DataFrame, memory: DeviceMemory | None, counted: bool) -> Totals:
    peaks = memory.peaks() if memory is not None else None
    if not counted:
        return Totals(None, None, None, None, None, None, None, None, peaks)
    kernels = work[work["kind"] == KERNEL]
    launching = _has_kernel(work, 0 if tables.launches is None else len(tables.launches))
    silent = len(opaque_replays(tables, work)[1]) > 0
    opaque = silent or bool((work["kind"] == GRAPH).any())
    copies = tables.copies
    by_kind: dict[str, int] = {}
    if copies is not None:
        sums = copies.groupby("copy_kind")["bytes"].sum()
        by_kind = {_copy_name(kind): int(size) for kind, size in zip(sums.index.tolist(), sums, strict=True)}
    devices = np.unique(work["device_id"], return_inverse=True)[1]
    return Totals(
        kernel_count=None if opaque else len(kernels),
        launch_count=None if silent or tables.launches is None else int(launching.sum()),
        graph_launch_count=None
        if silent or tables.launches is None
        else int((launching & graph_launch_calls(tables)).sum()),
        kernel_total_ns=None if opaque else int((kernels["end_ns"] - kernels["start_ns"]).sum()),
        gpu_busy_ns=None
        if silent
        else int(union_ns(work["start_ns"].to_numpy(), work["end_ns"].to_numpy(), devices).sum()),
        gpu_span_ns=None if silent else int(work["end_ns"].max() - work["start_ns"].min()) if len(work) else 0,
        memcpy_bytes=by_kind,
        memset_bytes=int(tables.fills["bytes"].sum()) if tables.fills is not None else 0,
        peak_vram_bytes=peaks,
    )


def _kernels(work: pd.DataFrame, name_of: object, categories: dict[str, str]) -> pd.DataFrame:
    assert callable(name_of)
    rows = work[work["kind"] == KERNEL]
    table = summarize_durations(rows["end_ns"] - rows["start_ns"], [rows["name_id"]]).reset_index()
    short = rows.groupby("name_id")["short_name_id"].first()
    table["name"], table["short_name"] = name_of(table["name_id"]), name_of(table["name_id"].map(short))
    table["category"] = table["name"].map(categories)
    total = table["total_ns"].sum()
    table["share_pct"] = 100.0 * table["total_ns"] / total if total else 0.0
    return table[list(KERNEL_COLUMNS)]


def _api(tables: Tables, names: dict[int, str]) -> pd.DataFrame:
    if tables.launches is None:
        return pd.DataFrame(columns=list(API_COLUMNS))
    rows = tables.launches
    # Four digits, as nsys stats has it: cudaLaunchKernel_v7000 loses them, cudaLaunchKernelExC_v11060 does not.
    plain = {key: re.sub(r"_v\d{4}$", "", text) for key, text in names.items()}
    name = pd.Series(look_up(rows["name_id"], lambda key: plain.get(key, "")), index=rows.index, name="name")
    table = summarize_durations(rows["end_ns"] - rows["start_ns"], [name]).reset_index()
    return table.rename(columns={"instances": "calls"})[list(API_COLUMNS)]


def _copy_name(kind: int) -> str:
    return f"[CUDA memcpy {_COPY_NAMES[kind]}]" if kind in _COPY_NAMES else f"[CUDA memcpy kind {kind}]"


def _memops(tables: Tables) -> pd.DataFrame:
    parts = []
    if tables.copies is not None:
        parts.append(tables.copies.assign(operation=tables.copies["copy_kind"].map(_copy_name)))
    if tables.fills is not None:
        parts.append(tables.fills.assign(operation="[CUDA memset]"))
    if not parts:
        return pd.DataFrame(columns=list(MEMOP_COLUMNS))
    rows = pd.concat(parts, ignore_index=True)
    rows["duration"] = rows["end_ns"] - rows["start_ns"]
    table = rows.groupby("operation", sort=False).agg(
        count=("bytes", "size"),
        total_ns=("duration", "sum"),
        total_bytes=("bytes", "sum"),
        avg_bytes=("bytes", "mean"),
        max_bytes=("bytes", "max"),
    )
    return table.sort_values("total_ns", ascending=False).reset_index()[list(MEMOP_COLUMNS)]
