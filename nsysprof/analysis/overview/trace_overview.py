"""Collect the facts about a whole trace: its origin, devices and totals, which call launched what, and notes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.attribution.attribute import Attributed, attribute_ranges, close_ranges
from nsysprof.analysis.attribution.calls import graph_launch_calls, launch_calls, lost_launches, opaque_replays
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.kernel_names.variant_names import copy_name
from nsysprof.analysis.overview.health import DataLoss, find_data_loss, is_measured, read_health
from nsysprof.analysis.overview.memory import DeviceMemory, follow_memory
from nsysprof.analysis.ranges.instances import LaunchCalls
from nsysprof.analysis.traffic.dram import DramTraffic, dram_notes, drop_dead, gpus_of_used
from nsysprof.notes import Loss, Note, Remark, Severity, make_note, split_losses
from nsysprof.results.analysis import Device, Totals, TraceInfo
from nsysprof.trace.schema import COPY, FILL, GRAPH, MIGRATION, NULL, Bools, GpuMetrics, Int64s, Tables, Work
from nsysprof.units import format_bytes, format_ns

# Migrations that take more than this share of the GPU's busy time change what the numbers mean.
MANY_MIGRATIONS = 0.05


@dataclass(frozen=True)
class Attribution:
    """Which call launched what, and within which ranges. All counts are based on it."""

    # Calls that launch, judged by their names, and calls that launch, judged by what the GPU did.
    launches: Bools
    launching: Bools
    # Calls that launch by either of the two, because calls outlive lost kernels.
    launch_calls: LaunchCalls
    # Calls that replayed graphs with unknown kernels: those recorded as wholes, and those not recorded at all.
    replays: tuple[Int64s, Int64s]
    memory: DeviceMemory | None
    attributed: Attributed
    # How many ranges never ended, and how many were left out because their times are impossible.
    open_ranges: int
    bad_ranges: int


@dataclass(frozen=True)
class Judged:
    """What a trace lost, and how healthy it is."""

    loss: DataLoss
    health: tuple[Remark, ...]
    # The losses of reading it, and then those that its events show.
    losses: tuple[Loss, ...]


@dataclass(frozen=True)
class Outline:
    """Facts about a whole trace that its tables do not contain."""

    trace: TraceInfo
    devices: tuple[Device, ...]
    totals: Totals
    # How many launches have no record from the GPU; None where unknown.
    lost: int | None
    # Whether GPU work is counted. The work of a trace that lost its kernels is not.
    is_counted: bool
    # Whether the trace lost its kernels.
    is_lost: bool
    notes: tuple[Note, ...]
    losses: tuple[Loss, ...]


def attribute(tables: Tables, *, measured_only: bool = False) -> Attribution:
    """Return the launches and the ranges of a trace, and which range each launch belongs to.

    measured_only: whether only the ranges of our own captures get their work, which is enough to see what was lost.
    """
    launches = launch_calls(tables)
    launching = _launching_calls(tables, len(launches))
    if np.array_equal(launches, launching):
        launching = launches  # each has an entry per call
    replays = opaque_replays(tables, launches)
    lost = lost_launches(tables, launches, replays[1])
    ranges, open_ranges, bad_ranges = close_ranges(tables)
    return Attribution(
        launches=launches,
        launching=launching,
        launch_calls=LaunchCalls(
            launches if launching is launches else launches | launching, graph_launch_calls(tables), lost
        ),
        replays=replays,
        memory=follow_memory(tables),
        attributed=attribute_ranges(tables, ranges, is_measured if measured_only else None),
        open_ranges=open_ranges,
        bad_ranges=bad_ranges,
    )


def judge(tables: Tables, found: Attribution) -> Judged:
    """Return what a trace lost, and how healthy it is."""
    silent = found.replays[1]
    loss = find_data_loss(tables, found.attributed, found.launches, found.launch_calls.lost, silent)
    health = tuple(
        read_health(
            tables,
            loss=loss,
            silent=len(silent),
            open_ranges=found.open_ranges,
            bad_ranges=found.bad_ranges,
            memory=found.memory,
        )
    )
    return Judged(loss, health, (*tables.losses, *split_losses((*loss.remarks, *health)).losses))


def outline(
    tables: Tables,
    judged: Judged,
    totals: Totals,
    sampled: tuple[GpuMetrics | None, list[Note]],
    traffic: DramTraffic | None = None,
) -> Outline:
    """Return the facts that apply to a whole trace.

    judged: the result of judge.
    totals: the result of count_totals.
    sampled: the result of live_metrics.
    traffic: the DRAM traffic of ranges; its unknown values are counted.
    """
    loss, health, (metrics, dead_notes) = judged.loss, judged.health, sampled
    dram = [] if metrics is None else dram_notes(metrics, traffic, tables.diagnostics)
    info = _trace_info(tables)
    remarks = split_losses((*loss.remarks, *health, *_migration_notes(totals), *dead_notes, *dram, *_tool_notes(info)))
    return Outline(
        trace=info,
        devices=_devices(tables),
        totals=totals if loss.is_counted else _unknown_totals(totals),
        lost=loss.launches_without_work,
        is_counted=loss.is_counted,
        is_lost=loss.is_lost,
        notes=(*tables.notes, *remarks.notes),
        losses=judged.losses,
    )


def live_metrics(tables: Tables) -> tuple[GpuMetrics | None, list[Note]]:
    """Return the sampled counters, without those that were not running."""
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


def _migration_notes(totals: Totals) -> list[Note]:
    """Return a note on how much migrations of unified memory add, because they belong to no call."""
    if not totals.migration_count:
        return []
    busy, both = totals.gpu_busy_ns, totals.gpu_busy_with_migrations_ns
    many = (totals.migration_total_ns or 0) > MANY_MIGRATIONS * (both or 0)
    return [
        make_note(
            "migrations",
            severity=Severity.WARNING if many else Severity.INFO,
            count=totals.migration_count,
            moved=format_bytes(totals.migration_bytes),
            took=format_ns(totals.migration_total_ns),
            busy=format_ns(busy),
            both=format_ns(both),
        )
    ]


def _tool_notes(info: TraceInfo) -> list[Note]:
    notes = []
    if info.work_kind == "operator":
        notes.append(make_note("cpu-operators"))
    if info.memory_kind == "allocator":
        notes.append(make_note("allocator-memory"))
    return notes


def _devices(tables: Tables) -> tuple[Device, ...]:
    known = {d.device_id: Device(d.device_id, d.name, d.total_memory_bytes, d.sm_count, d.uuid) for d in tables.devices}
    for number in np.unique(tables.work.device_of).tolist():
        known.setdefault(number, Device(number, f"GPU {number}", None, None, None))
    return tuple(known[number] for number in sorted(known) if number != NULL)


def _launching_calls(tables: Tables, calls: int) -> Bools:
    """Return for each call whether it launched a kernel or replayed a graph, by what the GPU did."""
    work, launch = tables.work, tables.launch
    marked = np.zeros(calls + 1, dtype=bool)  # the last entry is for work without a call, whose launch is -1
    marked[launch[: work.kernels]] = True
    marked[launch[work.kernels :][work.kinds(slice(work.kernels, None)) == GRAPH]] = True
    return marked[:calls]


def count_totals(tables: Tables, found: Attribution) -> Totals:
    """Return the totals of a trace; None is unknown."""
    silent, launched, memory = found.replays[1], found.launch_calls, found.memory
    work = tables.work
    others = slice(work.kernels, None)
    kind, sizes = work.kinds(others), work.bytes
    opaque = len(silent) > 0 or bool((kind == GRAPH).any())
    no_launches = tables.calls is None
    busy, span = _busy_and_span(work)
    moved = kind == MIGRATION
    any_busy = busy if not moved.any() else _union(work, slice(None))
    copied = (kind == COPY) | moved
    by_kind = {
        copy_name(int(which)): int(sizes[copied & (work.copy_kind == which)].sum())
        for which in np.unique(work.copy_kind[copied])
    }
    return Totals(
        kernel_count=None if opaque else work.kernels,
        launch_count=None if no_launches else int(launched.launches.sum()),
        graph_launch_count=None if no_launches else int((launched.launches & launched.replays).sum()),
        kernel_total_ns=None if opaque else int(work.duration_ns[: work.kernels].sum(dtype=np.int64)),
        gpu_busy_ns=None if len(silent) else busy,
        gpu_span_ns=None if len(silent) else span,
        memcpy_bytes=by_kind,
        memset_bytes=int(sizes[kind == FILL].sum()),
        peak_vram_bytes=None if memory is None else memory.peaks(),
        migration_count=int(moved.sum()),
        migration_total_ns=int(work.duration_ns[others][moved].sum(dtype=np.int64)),
        migration_bytes=int(sizes[moved].sum()),
        gpu_busy_with_migrations_ns=None if len(silent) else any_busy,
    )


def _unknown_totals(counted: Totals) -> Totals:
    """Return the totals of a trace whose GPU work is unknown. Launches come from the calls, if there are any."""
    launches, replays = (counted.launch_count or None), counted.graph_launch_count
    replays = None if launches is None else replays
    return Totals(None, launches, replays, None, None, None, None, None, counted.peak_vram_bytes)


def _busy_and_span(work: Work) -> tuple[int, int]:
    """Return how long devices were busy, added over devices, and the time from first start to last end (ns).

    Migrations of unified memory belong to no stream and do not keep a device busy.
    """
    stays = work.kind_of != MIGRATION
    rows = slice(None) if stays.all() else np.flatnonzero(stays[work.variant])
    if len(work.variant[rows]) == 0:
        return 0, 0
    last = work.last_end_ns() if isinstance(rows, slice) else int(work.ends_ns(rows).max())
    first = int(work.start_ns[rows].min())
    return _union(work, rows), last - first


def _union(work: Work, rows: Int64s | slice) -> int:
    """Return how long the rows kept each device busy, added over devices; ns."""
    devices, device = np.unique(work.device_of, return_inverse=True)
    variant = work.variant[rows]
    of_row = device.astype(np.int16)[variant] if len(devices) > 1 else np.broadcast_to(np.int16(0), len(variant))
    return int(union_ns(work.start_ns[rows], work.duration_ns[rows], of_row).sum())
