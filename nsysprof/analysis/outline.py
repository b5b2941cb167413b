"""A trace as a whole: who made it, which devices, how much of everything, and what a reader must know of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.calls import graph_launch_calls, launch_calls, opaque_replays
from nsysprof.analysis.dram import DramTraffic, dram_notes, drop_dead, gpus_of_used
from nsysprof.analysis.health import find_data_loss, read_health
from nsysprof.analysis.intervals import union_ns
from nsysprof.analysis.memory import DeviceMemory, follow_memory
from nsysprof.analysis.names import copy_name
from nsysprof.analysis.ranges import Attributed, attribute_ranges, close_ranges
from nsysprof.analysis.results import Device, Totals, TraceInfo
from nsysprof.analysis.work import Rows, match_launches
from nsysprof.notes import Note, Severity
from nsysprof.trace.gpu_metrics_schema import GpuMetrics
from nsysprof.trace.schema import COPY, FILL, GRAPH, MIGRATION, NULL, Bools, Int64s, Tables, Work


@dataclass(frozen=True)
class Attribution:
    """Which call launched what, within which ranges; everything that is counted builds on it.

    launch: the call of each row of work, or -1. launches, graph_launches: of each call, by its name; launching: by what
    the GPU did. replays: calls that replayed graphs of unknown kernels, recorded as wholes and not recorded at all.
    open_ranges, bad_ranges: how many never ended, and were left out as impossible.
    """

    launch: Rows
    launches: Bools
    graph_launches: Bools
    launching: Bools
    replays: tuple[Int64s, Int64s]
    memory: DeviceMemory | None
    attributed: Attributed
    open_ranges: int
    bad_ranges: int


@dataclass(frozen=True)
class Outline:
    """What is known of a trace without a table of anything.

    lost: launches without a record of the GPU, None where unknown. is_counted: whether GPU work is; a trace that lost
    its kernels counts none.
    """

    trace: TraceInfo
    devices: tuple[Device, ...]
    totals: Totals
    lost: int | None
    is_counted: bool
    notes: tuple[Note, ...]


def attribute(tables: Tables) -> Attribution:
    """The launches and ranges of a trace. Its tables lose the correlation ids, which nothing else needs."""
    launch = match_launches(tables)
    launches, graph_launches = launch_calls(tables), graph_launch_calls(tables)
    replays = opaque_replays(tables, launch, launches)
    ranges, open_ranges, bad_ranges = close_ranges(tables)
    return Attribution(
        launch=launch,
        launches=launches,
        graph_launches=graph_launches,
        launching=_launching_calls(tables.work, launch, len(launches)),
        replays=replays,
        memory=follow_memory(tables),
        attributed=attribute_ranges(tables, launch, ranges),
        open_ranges=open_ranges,
        bad_ranges=bad_ranges,
    )


def outline(
    tables: Tables,
    found: Attribution,
    totals: Totals,
    sampled: tuple[GpuMetrics | None, list[Note]],
    traffic: DramTraffic | None = None,
) -> Outline:
    """totals: as count_totals has them. sampled: as live_metrics has it. traffic: of ranges, to count unknown ones."""
    silent, (metrics, dead_notes) = found.replays[1], sampled
    lost, loss_notes = find_data_loss(tables, found.launch, found.attributed, found.launches, found.launching, silent)
    health = read_health(
        tables,
        silent=len(silent),
        open_ranges=found.open_ranges,
        bad_ranges=found.bad_ranges,
        memory=found.memory,
    )
    dram = [] if metrics is None else dram_notes(metrics, traffic, tables.diagnostics)
    # An absent kernel table is no proof of no kernels: nsys that lost them all writes none.
    is_counted = not any(note.code in ("no-kernels", "no-gpu") and note.severity != "info" for note in loss_notes)
    info = _trace_info(tables)
    return Outline(
        trace=info,
        devices=_devices(tables),
        totals=totals if is_counted else _unknown_totals(found.memory),
        lost=lost,
        is_counted=is_counted,
        notes=(*tables.notes, *loss_notes, *health, *dead_notes, *dram, *_tool_notes(info)),
    )


def live_metrics(tables: Tables) -> tuple[GpuMetrics | None, list[Note]]:
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


def _launching_calls(work: Work, launch: Rows, calls: int) -> Bools:
    """For each call whether it launched a kernel or replayed a graph, by what the GPU did."""
    marked = np.zeros(calls + 1, dtype=bool)  # the last one for work without a call, whose launch is -1
    marked[launch[: work.kernels]] = True
    marked[launch[work.kernels :][work.kinds(slice(work.kernels, None)) == GRAPH]] = True
    return marked[:calls]


def count_totals(tables: Tables, found: Attribution) -> Totals:
    """How much of everything; None is unknown."""
    silent, launching, memory = found.replays[1], found.launching, found.memory
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
        graph_launch_count=None if no_launches else int((launching & found.graph_launches).sum()),
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
