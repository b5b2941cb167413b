"""From the tables of a trace to its Analysis."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd

from nsysprof.analysis.attribute import attribute_work, covered, order_work
from nsysprof.analysis.calls import graph_launch_calls, launch_calls, opaque_replays
from nsysprof.analysis.dram import dram_notes, drop_dead, gpus_of_used
from nsysprof.analysis.health import find_data_loss, read_health
from nsysprof.analysis.intervals import union_ns
from nsysprof.analysis.memory import DeviceMemory, follow_memory
from nsysprof.analysis.names import FILL_NAME, Names, call_names, copy_name, kernel_names, plain_call_name
from nsysprof.analysis.ranges import Attributed, attribute_ranges, close_ranges, summarize_ranges
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
from nsysprof.analysis.timeline import make_timeline
from nsysprof.analysis.work import Rows, match_launches
from nsysprof.notes import Note, Severity
from nsysprof.trace.gpu_metrics_schema import GpuMetrics
from nsysprof.trace.schema import COPY, FILL, GRAPH, MIGRATION, NULL, Bools, Calls, Int64s, Tables, Work


def summarize(tables: Tables) -> Analysis:
    """Count and attribute everything. All counts come from the rows of one table each, never from a join."""
    # Sorting and gathering release the GIL, so that what does not depend on each other runs side by side.
    with ThreadPoolExecutor(1, thread_name_prefix="totals") as pool:
        api = pool.submit(_api, tables, tables.calls)
        launch = match_launches(tables)
        launches, graph_launches = launch_calls(tables), graph_launch_calls(tables)
        replays = opaque_replays(tables, launch, launches)
        names, memory = kernel_names(tables), follow_memory(tables)
        kernels = pool.submit(_kernels, tables.work, names)
        launching = _launching_calls(tables.work, launch, len(launches))
        ranges, open_ranges, bad_ranges = close_ranges(tables)
        attributed = attribute_ranges(tables, launch, ranges)
        totals = pool.submit(_totals, tables, launching, graph_launches, replays[1], memory)
        coverage = pool.submit(_coverage, tables, launch, attributed, launches, launching)
        metrics, dead_notes = _live_metrics(tables)
        summary = summarize_ranges(tables, launch, attributed, names, memory, replays, graph_launches, metrics)
        lost, loss_notes = find_data_loss(tables, launch, attributed, launches, launching, replays[1])
    health = read_health(
        tables,
        silent=len(replays[1]),
        open_ranges=open_ranges,
        bad_ranges=bad_ranges,
        memory=memory,
    )
    dram = dead_notes if metrics is None else [*dead_notes, *dram_notes(metrics, summary.traffic, tables.diagnostics)]
    # An absent kernel table is no proof of no kernels: nsys that lost them all writes none.
    counted = not any(note.code in ("no-kernels", "no-gpu") and note.severity != "info" for note in loss_notes)
    by_name = summary.by_name
    # Without calls, no work has a range.
    if not counted or (tables.calls is None and len(tables.work)):
        known = ("wall_ns", "peak_vram_bytes")
        gpu = [c for c in by_name.columns if c.endswith(("_ns", "_count", "_bytes")) and c not in known]
        by_name[gpu] = pd.DataFrame({c: pd.array([pd.NA] * len(by_name), dtype="Int64") for c in gpu})
    info = _trace_info(tables)
    return Analysis(
        trace=info,
        devices=tuple(Device(d.device_id, d.name, d.total_memory_bytes, d.sm_count, d.uuid) for d in _devices(tables)),
        coverage=replace(coverage.result(), launches_without_gpu_record=lost),
        totals=totals.result() if counted else _unknown_totals(memory),
        kernels=kernels.result(),
        ranges=by_name,
        range_kernels=summary.kernels,
        api=api.result(),
        memops=_memops(tables.work),
        timeline=make_timeline(tables, names, ranges, memory),
        notes=(*tables.notes, *loss_notes, *health, *dram, *_tool_notes(info)),
    )


def _live_metrics(tables: Tables) -> tuple[GpuMetrics | None, list[Note]]:
    """The sampled counters without those that were not running."""
    metrics, work = tables.gpu_metrics, tables.work
    if metrics is None:
        return None, []
    rows = slice(0, work.kernels)
    gpu = gpus_of_used(metrics, work.variants[:, 1:3])[work.variant[rows]]
    return drop_dead(metrics, work.start_ns[rows], work.ends_ns(rows), gpu)


def _trace_info(tables: Tables) -> TraceInfo:
    def fact(name: str) -> str | None:
        values = tables.capture_facts.get(f"NSYSPROF:{name}")
        return values[0] if values else None

    export = tables.export_facts
    return TraceInfo(
        path_name=tables.path_name,
        sha256=tables.digest.result(),
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


def _devices(tables: Tables) -> tuple[Device, ...]:
    known = {d.device_id: Device(d.device_id, d.name, d.total_memory_bytes, d.sm_count, d.uuid) for d in tables.devices}
    for number in np.unique(tables.work.device_of).tolist():
        known.setdefault(number, Device(number, f"GPU {number}", None, None, None))
    return tuple(known[number] for number in sorted(known) if number != NULL)


def _coverage(tables: Tables, launch: Rows, attributed: Attributed, launches: Bools, launching: Bools) -> Coverage:
    kernels = tables.work.kernels
    inside = attributed.inside(len(launch))[:kernels]
    missed = np.flatnonzero(~inside)
    outside = launch[missed]
    outside = outside[outside >= 0]
    elsewhere = 0
    if len(outside):
        other = attribute_work(order_work(outside, tables.calls)["process"], attributed.ranges, "PushPop")
        elsewhere = int(covered(other).sum())
    reasons = {
        "no launch record": len(missed) - len(outside),
        "launched by a thread without a range while another thread had one": elsewhere,
        "launched outside every range": len(outside) - elsewhere,
    }
    total = int((launches | launching).sum()) if tables.calls is not None else None
    return Coverage(
        kernels=kernels,
        attributed_kernels=int(inside.sum()),
        launches=total,
        launches_without_gpu_record=None,
        reasons={reason: count for reason, count in reasons.items() if count},
    )


def _launching_calls(work: Work, launch: Rows, calls: int) -> Bools:
    """For each call whether it launched a kernel or replayed a graph, by what the GPU did."""
    marked = np.zeros(calls + 1, dtype=bool)  # the last one for work without a call, whose launch is -1
    marked[launch[: work.kernels]] = True
    marked[launch[work.kernels :][work.kinds(slice(work.kernels, None)) == GRAPH]] = True
    return marked[:calls]


def _totals(
    tables: Tables, launching: Bools, graph_launches: Bools, silent: Int64s, memory: DeviceMemory | None
) -> Totals:
    work = tables.work
    others = slice(work.kernels, None)
    kind, sizes = work.kinds(others), work.bytes
    opaque = len(silent) > 0 or bool((kind == GRAPH).any())
    no_launches = len(silent) > 0 or tables.calls is None
    busy, span = _busy_and_span(work)
    copied = (kind == COPY) | (kind == MIGRATION)
    by_kind = {
        copy_name(int(which)): int(sizes[copied & (work.copy_kind == which)].sum())
        for which in np.unique(work.copy_kind[copied])
    }
    return Totals(
        kernel_count=None if opaque else work.kernels,
        launch_count=None if no_launches else int(launching.sum()),
        graph_launch_count=None if no_launches else int((launching & graph_launches).sum()),
        kernel_total_ns=None if opaque else int(work.duration_ns[: work.kernels].sum(dtype=np.int64)),
        gpu_busy_ns=None if len(silent) else busy,
        gpu_span_ns=None if len(silent) else span,
        memcpy_bytes=by_kind,
        memset_bytes=int(sizes[kind == FILL].sum()),
        peak_vram_bytes=None if memory is None else memory.peaks(),
    )


def _unknown_totals(memory: DeviceMemory | None) -> Totals:
    return Totals(None, None, None, None, None, None, None, None, None if memory is None else memory.peaks())


def _busy_and_span(work: Work) -> tuple[int, int]:
    """Time in which a device worked, added over devices, and from the first start to the last end; ns.

    Migrations of unified memory belong to no stream and do not keep a device busy.
    """
    start, duration, variant = work.start_ns, work.duration_ns, work.variant
    moved = work.kind_of == MIGRATION
    if moved.any():
        rows = np.flatnonzero(~moved[variant])
        start, duration, variant = start[rows], duration[rows], variant[rows]
    if len(start) == 0:
        return 0, 0
    device = np.unique(work.device_of, return_inverse=True)[1].astype(np.int16)
    busy = int(union_ns(start, duration, device[variant]).sum())
    return busy, int((start + duration).max()) - int(start.min())


def _kernels(work: Work, names: Names) -> pd.DataFrame:
    rows = slice(0, work.kernels)
    table = summarize_durations(work.duration_ns[rows], names.numbers(work.variant[rows]))
    number = table.index.to_numpy()
    total = table["total_ns"].sum()
    table["share_pct"] = 100.0 * table["total_ns"] / total if total else 0.0
    table["name"], table["short_name"] = names.texts[number], names.short[number]
    table["category"] = names.category[number]
    return table[list(KERNEL_COLUMNS)].reset_index(drop=True)


def _api(tables: Tables, calls: Calls | None) -> pd.DataFrame:
    if calls is None:
        return pd.DataFrame(columns=list(API_COLUMNS))
    names = call_names(tables, plain_call_name)
    table = summarize_durations(calls.duration_ns, names.numbers(calls.variant))
    table["name"] = names.texts[table.index.to_numpy()]
    return table.rename(columns={"instances": "calls"})[list(API_COLUMNS)].reset_index(drop=True)


def _memops(work: Work) -> pd.DataFrame:
    others = slice(work.kernels, None)
    kind = work.kinds(others)
    chosen = (kind == COPY) | (kind == FILL) | (kind == MIGRATION)
    if not chosen.any():
        return pd.DataFrame(columns=list(MEMOP_COLUMNS))
    rows = pd.DataFrame(
        {
            # -1 is no copy kind, so that fills have a number of their own.
            "code": np.where(kind == FILL, -1, work.copy_kind)[chosen],
            "duration": work.duration_ns[others][chosen].astype(np.int64),
            "bytes": work.bytes[chosen],
        }
    )
    table = rows.groupby("code", sort=False).agg(
        count=("bytes", "size"),
        total_ns=("duration", "sum"),
        total_bytes=("bytes", "sum"),
        avg_bytes=("bytes", "mean"),
        max_bytes=("bytes", "max"),
    )
    table["operation"] = [FILL_NAME if code == -1 else copy_name(code) for code in table.index.tolist()]
    return table.sort_values("total_ns", ascending=False, kind="stable").reset_index()[list(MEMOP_COLUMNS)]
