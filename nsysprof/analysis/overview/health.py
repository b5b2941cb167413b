"""Find what is wrong with a trace: lost kernels, missing tables, cut ranges, partial exports. Each becomes a note."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from nsysprof.analysis.attribution.attribute import Attributed, instances_of_calls
from nsysprof.analysis.overview.diagnostics import read_diagnostics
from nsysprof.analysis.overview.graph_replays import find_short_replays, judge_short_replays
from nsysprof.analysis.overview.memory import DeviceMemory
from nsysprof.attention.range_name import parse_range
from nsysprof.notes import Loss, Note, Remark, Severity, make_loss, make_note
from nsysprof.trace.inputs.bundle_file import LEFT_OUT
from nsysprof.trace.schema import COPY, FILL, GRAPH, KERNEL, PID_MASK, Bools, Int64s, Tables
from nsysprof.units import format_bytes

_WORK_TABLES = {
    KERNEL: "CUPTI_ACTIVITY_KIND_KERNEL", COPY: "CUPTI_ACTIVITY_KIND_MEMCPY", FILL: "CUPTI_ACTIVITY_KIND_MEMSET",
}  # fmt: skip
_UPDATE_NSYS = (
    "nsys is probably older than the driver: use a newer nsys (nsys --version, nvidia-smi), and check that no other "
    "profiler runs."
)
# If more than this share of all launches is lost, counts cannot be trusted.
MUCH_LOST = 0.01
_ORPHANS = "kernels-without-launches"
# The share of all kernels from which on a note is made.
_NOTABLE = 0.01
_SYNCHRONIZE = (
    "The GPU runs behind the host: synchronize before the recorded part ends (torch.cuda.synchronize()), or record a "
    "longer part."
)


@dataclass(frozen=True)
class DataLoss:
    """How many launches have no work in the trace, and what that means for its counts."""

    # None where no launches were recorded.
    launches_without_work: int | None
    # Whether kernel counts are known. False where there is no kernel and nothing shows that none ran.
    is_counted: bool
    # Whether there is no kernel although some ran.
    is_lost: bool
    remarks: tuple[Remark, ...]

    @property
    def is_shown(self) -> bool:
        """Return whether launches or kernels without the other show that events are missing."""
        codes = {(remark.note if isinstance(remark, Loss) else remark).code for remark in self.remarks}
        is_lost = not self.is_counted or bool(self.launches_without_work) or _ORPHANS in codes
        return is_lost or any(isinstance(remark, Loss) for remark in self.remarks)


def find_data_loss(tables: Tables, attributed: Attributed, launches: Bools, missing: Bools, silent: Int64s) -> DataLoss:
    """Return how many launch calls have no GPU work, and what follows from that.

    launches: which calls are launches.
    missing: the launches that have no record from the GPU although they should.
    silent: the launches that replayed a graph and left no record.
    """
    kind_of, variant = tables.work.kind_of, tables.work.variant
    # Every variant has rows, unless a table was read twice.
    present = np.zeros(len(kind_of), dtype=bool)
    present[variant] = True
    kinds = set(kind_of[present].tolist())
    recorded = not kinds.isdisjoint((KERNEL, GRAPH))
    total, lost = int(launches.sum()), int(missing.sum())
    ours, empty = _measured_ranges(tables, attributed, silent)
    known_lost = lost if len(launches) else None
    if not recorded:
        ran_other_work = not kinds.isdisjoint((COPY, FILL))
        remark = _no_kernels(tables, total, ours, ran_other_work)
        # A missing kernel table does not prove that no kernel ran: nsys writes no table if it lost all kernels.
        is_counted = _ran_no_kernel(tables, total, ours, ran_other_work)
        # Without a GPU nothing was lost: a capture on a CPU has our ranges, too.
        is_lost = total > 0 or (ours > 0 and bool(tables.devices))
        return DataLoss(known_lost, is_counted=is_counted, is_lost=is_lost, remarks=(remark,))
    remarks: list[Remark] = [*_without_launch(tables), *_unnamed(tables), *_strayed(tables), *_cut_ranges(tables)]
    remarks += judge_lost_launches(tables, launches, missing)
    short = find_short_replays(tables)
    if short is not None:
        remarks.append(judge_short_replays(short))
    if empty:
        remarks.append(
            make_loss(
                "measured-ranges-empty",
                anywhere="ranges that did work have none",
                empty=empty,
                ranges=ours,
                update_nsys=_UPDATE_NSYS,
            )
        )
    return DataLoss(known_lost, is_counted=True, is_lost=False, remarks=tuple(remarks))


def judge_lost_launches(tables: Tables, launches: Bools, missing: Bools) -> list[Remark]:
    """Return what follows from launches without kernels where other launches have theirs.

    The parameters are those of find_data_loss.
    """
    total, lost = int(launches.sum()), int(missing.sum())
    if not lost:
        return []
    why, step = "the profiler lost them", _UPDATE_NSYS
    if _ended_early(tables, missing, launches & ~missing):
        why, step = "they are the last ones, and the recording ended before they had run", _SYNCHRONIZE
    facts: dict[str, Any] = {"lost": lost, "launches": total, "why": why, "next_step": step}
    if lost > MUCH_LOST * total:
        return [make_loss("launches-without-kernels", **facts)]
    return [make_note("launches-without-kernels", severity=Severity.WARNING, **facts)]


def _without_launch(tables: Tables) -> Iterator[Note]:
    kernels = tables.work.kernels
    count = 0 if tables.calls is None else int((tables.launch[:kernels] < 0).sum())
    if count > _NOTABLE * kernels:
        yield make_note(_ORPHANS, count=count, kernels=kernels)


def _unnamed(tables: Tables) -> Iterator[Loss]:
    work, strings = tables.work, tables.strings
    unknown = strings.index[(strings == "[Unknown]").to_numpy(dtype=bool)].to_numpy(dtype=np.int64)
    of_variant = np.isin(work.names_of[:, 0], unknown)
    count = int(of_variant[work.variant[: work.kernels]].sum()) if len(unknown) else 0
    if count > _NOTABLE * work.kernels:
        yield make_loss("unknown-names", count=count, kernels=work.kernels)


def _strayed(tables: Tables) -> Iterator[Note]:
    """Yield a note about kernels on streams that nobody created, which a sound recording does not have."""
    work = tables.work
    if not tables.known_streams:
        return
    pid, context, stream = (work.pid_of >> 24) & 0xFFFFFF, work.streams_of[:, 2], work.streams_of[:, 3]
    lanes = list(zip(pid.tolist(), context.tolist(), stream.tolist(), strict=True))
    processes = {process for process, _, _ in tables.known_streams}
    strayed = np.array([lane[0] in processes and lane not in tables.known_streams for lane in lanes], dtype=bool)
    of_kernel = strayed[work.variant[: work.kernels]]
    count = int(of_kernel.sum())
    if count > _NOTABLE * work.kernels:
        streams = len({lanes[row] for row in np.unique(work.variant[: work.kernels][of_kernel]).tolist()})
        yield make_note("unknown-streams", count=count, kernels=work.kernels, streams=streams)


def _cut_ranges(tables: Tables) -> Iterator[Note]:
    """Yield a note about ranges that all end in one nanosecond with the end of the trace: they were cut there."""
    if tables.ranges is None or len(tables.ranges) == 0 or len(tables.work) == 0:
        return
    ends = tables.ranges["end_ns"].to_numpy(dtype=np.int64)
    last = int(ends.max())
    # A range that is recorded in both styles is one.
    count = len(tables.ranges[ends == last].drop_duplicates(["start_ns", "name"]))
    if count > 1 and last >= tables.work.last_end_ns():
        yield make_note("ranges-cut", count=count)


def _ended_early(tables: Tables, lost: Bools, matched: Bools) -> bool:
    """Return whether the recording ended while the GPU worked.

    Then each process' lost launches come after all others, and its GPU work continues until they come.
    """
    calls, work = tables.calls, tables.work
    assert calls is not None
    pid_of = calls.tid_of & PID_MASK
    missing, found = np.flatnonzero(lost), np.flatnonzero(matched)
    for pid in np.unique(pid_of[calls.variant[missing]]):
        begins = calls.start_ns[missing[pid_of[calls.variant[missing]] == pid]]
        others = calls.start_ns[found[pid_of[calls.variant[found]] == pid]]
        ran = np.flatnonzero(work.pid_of[work.variant] == pid)
        if len(ran) == 0 or (others > begins.min()).any():
            return False
        # Work that was running when the recording ended is not recorded either.
        if work.ends_ns(ran).max() + work.duration_ns[ran].max() < begins.max():
            return False
    return True


def is_measured(name: str) -> bool:
    """Return whether a range of this name belongs to our own captures."""
    return parse_range(name) is not None


def _measured_ranges(tables: Tables, attributed: Attributed, silent: Int64s) -> tuple[int, int]:
    """Return how many ranges belong to our own captures, and how many of those are empty.

    Each of them measures work, so an empty one lost it. A graph replay without a record counts as work too.
    """
    ours = attributed.keys["name"].map(is_measured).to_numpy(dtype=bool)
    names = attributed.keys["name"][ours]
    with_work = [segments.instance for segments in attributed.segments.values()]
    instances = np.concatenate([*with_work, instances_of_calls(tables, attributed, silent)])
    groups = np.unique(attributed.ranges["group"].to_numpy(dtype=np.int64)[instances])
    filled = set(attributed.keys["name"].iloc[groups])
    return names.nunique(), len(set(names) - filled)


def _no_kernels(tables: Tables, calls: int, ours: int, gpu_recorded: bool) -> Remark:
    if not tables.devices and not calls and not gpu_recorded:
        if tables.ranges is not None and len(tables.ranges):
            return make_note("no-gpu")
        return make_note("no-gpu", "nothing", next_step=_mark_ranges(tables))
    if calls:
        return make_loss("no-kernels", "lost", launches=calls, update_nsys=_UPDATE_NSYS)
    if ours:
        return make_loss("no-kernels", "lost-in-ranges", ranges=ours, update_nsys=_UPDATE_NSYS)
    if _ran_no_kernel(tables, calls, ours, gpu_recorded):
        return make_note("no-kernels", "none-launched")
    record = "Follow" if _was_on(tables, "COLLECT_CUDA_TRACE") else "Record with --trace=cuda,nvtx, and follow"
    return make_note("no-kernels", "unknown", next_step=f"{record} child processes if the GPU work is theirs.")


def _ran_no_kernel(tables: Tables, calls: int, ours: int, gpu_recorded: bool) -> bool:
    """Return whether the program really ran no kernel.

    Then other GPU work and calls were recorded, and none of the calls is a launch.
    """
    return gpu_recorded and tables.calls is not None and not calls and not ours


def read_health(
    tables: Tables, *, loss: DataLoss, silent: int, open_ranges: int, bad_ranges: int, memory: DeviceMemory | None
) -> list[Remark]:
    """Return notes on everything else that changes what the numbers mean.

    loss: what find_data_loss returned.
    silent: the replays of graphs that left no record.
    open_ranges: the number of NVTX ranges without an end.
    bad_ranges: the number of NVTX ranges that were left out because their times are impossible.
    """
    return [
        *_unrecorded(tables),
        *_graphs(tables, silent),
        *_left_out(tables, open_ranges, bad_ranges, memory),
        *([] if memory is None else _memory(memory)),
        *_partial(tables),
        *read_diagnostics(tables, lacks_work=loss.is_shown),
    ]


def _was_on(tables: Tables, option: str) -> bool:
    """Return whether any process recorded with this option, so that no advice asks for it."""
    return any(name.rpartition(":")[2] == option and "true" in values for name, values in tables.capture_facts.items())


def _is_of_torch(tables: Tables) -> bool:
    return tables.capture_facts.get("NSYSPROF:TOOL") == ["torch"]


def _mark_ranges(tables: Tables) -> str:
    """Return how the next trace gets ranges."""
    if _is_of_torch(tables):
        return "Mark the code with torch.profiler.record_function."
    record = "" if _was_on(tables, "COLLECT_NVTX_TRACE") else "Record with --trace=cuda,nvtx. "
    return f"{record}Mark the code with NVTX ranges."


def _unrecorded(tables: Tables) -> Iterator[Note]:
    """Yield notes about kinds of events that the recording was not asked for."""
    torch = _is_of_torch(tables)
    on_cpu = tables.calls is None and not len(tables.work)
    if (tables.ranges is None or len(tables.ranges) == 0) and (tables.devices or not on_cpu):  # no-gpu says it, too
        yield make_note("no-nvtx", next_step=_mark_ranges(tables))
    if tables.memory is None and not on_cpu:
        missing, step = "--cuda-memory-usage", "Record with nsys profile --cuda-memory-usage=true."
        if torch:
            missing, step = "profile_memory", "Record with torch.profiler.profile(profile_memory=True)."
        if _was_on(tables, "COLLECT_GPU_MEMORY_USAGE"):
            yield make_note("no-memory-usage", "lost")
        else:
            yield make_note("no-memory-usage", option=missing, next_step=step)
    if tables.gpu_metrics is None and not on_cpu and not tables.is_of_processor:
        sampled = any(name.startswith("GPU_METRICS_OPTIONS:GPU_") for name in tables.capture_facts)
        yield make_note("no-dram-counters", *(["lost"] if sampled else []))
    if tables.calls is None and len(tables.work):
        record = "Export" if _was_on(tables, "COLLECT_CUDA_TRACE") else "Record with --trace=cuda, and export"
        yield make_note("no-calls", next_step=f"{record} without leaving out CUPTI_ACTIVITY_KIND_RUNTIME.")


def _graphs(tables: Tables, silent: int) -> Iterator[Note]:
    wholes = int((tables.work.kinds(slice(tables.work.kernels, None)) == GRAPH).sum())
    for count, how in ((wholes, "recorded as wholes: their kernels are"), (silent, "not recorded: their GPU work is")):
        if count:
            yield make_note("graph-mode", replays=count, how=how)


def _left_out(tables: Tables, open_ranges: int, bad_ranges: int, memory: DeviceMemory | None) -> Iterator[Note]:
    dropped = tables.work.dropped + (tables.calls.dropped if tables.calls is not None else 0)
    unplaced, unmatched = (memory.unplaced, memory.unmatched_frees) if memory is not None else (0, 0)
    counts = {
        "impossible-sizes": tables.work.unsized,
        "impossible-memory": unplaced,
        "impossible-times": dropped,
        "impossible-ranges": bad_ranges,
        "open-ranges": open_ranges,
        "unmatched-frees": unmatched,
    }
    for code, count in counts.items():
        if count:
            yield make_note(code, count=count)


def _leaves_work_out(tables: Tables, chosen: str) -> bool:
    """Return whether an export restricted to these tables, by names or patterns, lacks a kind of work."""
    patterns = [each for each in re.split(r"[\s,;]+", chosen) if each]
    return any(
        kind not in tables.recorded and not any(each in table or fnmatchcase(table, each) for each in patterns)
        for kind, table in _WORK_TABLES.items()
    )


def _memory(memory: DeviceMemory) -> Iterator[Note]:
    if memory.managed_peak_bytes:
        yield make_note("managed-memory", peak=format_bytes(memory.managed_peak_bytes))
    if memory.unsized_pools:
        yield make_note("pool-sizes-unknown")


def _partial(tables: Tables) -> Iterator[Remark]:
    for name in ("TABLES_TO_EXPORT", "TIMES_TO_EXPORT"):
        chosen = tables.export_facts.get(f"EXPORT_PARAM_{name}", "").strip()
        if chosen and name == "TABLES_TO_EXPORT" and _leaves_work_out(tables, chosen):
            # What looks like idle time may be work whose table is not here.
            yield make_loss("partial-export", anywhere="the export leaves out tables of GPU work", parameter=name)
        elif chosen:
            yield make_note("partial-export", parameter=name)
    for gone in tables.capture_facts.get(LEFT_OUT, []):
        yield make_note("bundle-left-out", part=gone)
