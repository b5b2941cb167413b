"""What is wrong with a trace, as notes: lost kernels, missing tables, partial exports."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nsysprof.analysis.diagnostics import diagnostic_notes
from nsysprof.analysis.memory import DeviceMemory
from nsysprof.analysis.ranges import Attributed, ranges_of_calls
from nsysprof.analysis.work import Rows
from nsysprof.bundle_format import LEFT_OUT
from nsysprof.notes import Note, Severity
from nsysprof.range_name import parse_range
from nsysprof.trace.schema import COPY, FILL, GRAPH, KERNEL, PID_MASK, Bools, Int64s, Tables
from nsysprof.units import format_bytes

_UPDATE_NSYS = (
    "nsys is probably older than the driver: use a newer nsys (nsys --version, nvidia-smi), and see that no other "
    "profiler runs."
)
_SYNCHRONIZE = (
    "The GPU runs behind the host: synchronize before the recorded part ends (torch.cuda.synchronize()), or record a "
    "longer part."
)


def find_data_loss(
    tables: Tables, launch: Rows, attributed: Attributed, launches: Bools, launching: Bools, silent: Int64s
) -> tuple[int | None, list[Note]]:
    """The number of launch calls without GPU work (None when no calls were recorded), and what follows from it.

    launches: which calls are launches. launching: which ones launched a kernel or replayed a recorded graph. silent:
    those that replayed a graph and left no record.
    """
    kind_of, variant = tables.work.kind_of, tables.work.variant
    # Every variant has rows but those of a table that was read twice.
    present = np.zeros(len(kind_of), dtype=bool)
    present[variant] = True
    kinds = set(kind_of[present].tolist())
    recorded = not kinds.isdisjoint((KERNEL, GRAPH))
    matched = launching.copy()
    # A replayed graph may consist of fills alone.
    others = launch[tables.work.kernels :][tables.work.kinds(slice(tables.work.kernels, None)) == FILL]
    matched[others[others >= 0]] = True
    if recorded:
        matched[silent] = True
    total, lost = int(launches.sum()), int((launches & ~matched).sum())
    ours, empty = _measured_ranges(tables, attributed, silent)
    known_lost = lost if len(launches) else None
    if not recorded:
        return known_lost, [_no_kernels(tables, total, ours, not kinds.isdisjoint((COPY, FILL)))]
    notes = []
    if lost:
        severity = Severity.ERROR if lost > 0.01 * total else Severity.WARNING
        why, step = "the profiler lost them", _UPDATE_NSYS
        if _ended_early(tables, launches & ~matched, launches & matched):
            why, step = "they are the last ones, and the recording ended before they had run", _SYNCHRONIZE
        text = f"{lost:,} of {total:,} kernel launches have no kernel in the trace: {why}."
        notes.append(Note("launches-without-kernels", severity, text, step))
    if empty:
        text = f"{empty} of {ours} measured ranges hold no launch and no kernel: the profiler lost them."
        notes.append(Note("measured-ranges-empty", Severity.ERROR, text, _UPDATE_NSYS))
    return known_lost, notes


def _ended_early(tables: Tables, lost: Bools, matched: Bools) -> bool:
    """Whether the lost launches of each process came after all others, and its GPU work went on until they came."""
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
        # What was running when the recording ended is not recorded either.
        if work.ends_ns(ran).max() + work.duration_ns[ran].max() < begins.max():
            return False
    return True


def _measured_ranges(tables: Tables, attributed: Attributed, silent: Int64s) -> tuple[int, int]:
    """How many ranges are of our own captures, and how many of those enclose no work: each measures some.

    A silent graph replay is work, though unrecorded.
    """
    ours = attributed.keys["name"].map(lambda name: parse_range(name) is not None).to_numpy(dtype=bool)
    names = attributed.keys["name"][ours]
    with_work = [segments.instance for segments in attributed.segments.values()]
    instances = np.concatenate([*with_work, ranges_of_calls(tables, attributed, silent)])
    groups = np.unique(attributed.ranges["group"].to_numpy(dtype=np.int64)[instances])
    filled = set(attributed.keys["name"].iloc[groups])
    return names.nunique(), len(set(names) - filled)


def _no_kernels(tables: Tables, calls: int, ours: int, gpu_recorded: bool) -> Note:
    if not tables.devices and not calls and not gpu_recorded:
        return Note(
            "no-gpu",
            Severity.WARNING,
            "The trace names no GPU and no launch: it holds NVTX ranges alone, and their wall time.",
            "Record on a machine with a GPU, or use --profiler torch for operators on the CPU.",
        )
    if calls:
        text = f"The trace has no kernels, although {calls:,} launches were recorded."
        return Note("no-kernels", Severity.ERROR, text, _UPDATE_NSYS)
    if ours:
        text = f"The trace has {ours} measured ranges but not one kernel: the profiler recorded no GPU work."
        return Note("no-kernels", Severity.ERROR, text, _UPDATE_NSYS)
    if gpu_recorded and tables.calls is not None:
        return Note("no-kernels", Severity.INFO, "The program copied or set memory and launched no kernel.")
    return Note(
        "no-kernels",
        Severity.WARNING,
        "The trace has no kernels; whether the program ran any is unknown.",
        "Record with --trace=cuda,nvtx, and follow child processes if the GPU work is theirs.",
    )


def read_health(
    tables: Tables, *, silent: int, open_ranges: int, bad_ranges: int, memory: DeviceMemory | None
) -> list[Note]:
    """Notes on everything else that changes what the numbers mean.

    silent: replays of graphs that left no record. open_ranges, bad_ranges: NVTX ranges without an end, and those left
    out because their times are impossible.
    """
    return [
        *_unrecorded(tables),
        *_graphs(tables, silent),
        *_left_out(tables, open_ranges, bad_ranges, memory),
        *([] if memory is None else _memory(memory)),
        *_partial(tables),
        *diagnostic_notes(tables),
    ]


def _unrecorded(tables: Tables) -> Iterator[Note]:
    """What the recording was not asked for."""
    torch = tables.capture_facts.get("NSYSPROF:TOOL") == ["torch"]
    if tables.ranges is None or len(tables.ranges) == 0:
        text = "The trace has no NVTX ranges; only the whole trace is counted."
        step = "Record with --trace=cuda,nvtx and mark the code with NVTX ranges."
        if torch:
            step = "Mark the code with torch.profiler.record_function."
        yield Note("no-nvtx", Severity.WARNING, text, step)
    if tables.memory is None:
        missing, step = "--cuda-memory-usage", "Record with nsys profile --cuda-memory-usage=true."
        if torch:
            missing, step = "profile_memory", "Record with torch.profiler.profile(profile_memory=True)."
        text = f"Peak memory is unknown: no allocation was recorded, as without {missing}."
        yield Note("no-memory-usage", Severity.WARNING, text, step)
    if tables.gpu_metrics is None:
        text = "DRAM traffic is unknown: no hardware counters were recorded. Copied and set bytes are not DRAM traffic."
        yield Note("no-dram-counters", Severity.INFO, text, "Record with nsys profile --gpu-metrics-devices=all.")
    if tables.calls is None and len(tables.work):
        text = (
            "No CUDA API calls were recorded: which range launched what, and how many launches there were, is unknown."
        )
        step = "Record with --trace=cuda, and export without leaving out CUPTI_ACTIVITY_KIND_RUNTIME."
        yield Note("no-calls", Severity.WARNING, text, step)


def _graphs(tables: Tables, silent: int) -> Iterator[Note]:
    wholes = int((tables.work.kinds(slice(tables.work.kernels, None)) == GRAPH).sum())
    for count, how in ((wholes, "recorded as wholes: their kernels are"), (silent, "not recorded: their GPU work is")):
        if count:
            text = f"{count:,} CUDA graph replays were {how} unknown."
            yield Note("graph-mode", Severity.WARNING, text, "Record with --cuda-graph-trace=node to see the kernels.")


def _left_out(tables: Tables, open_ranges: int, bad_ranges: int, memory: DeviceMemory | None) -> Iterator[Note]:
    dropped = tables.work.dropped + (tables.calls.dropped if tables.calls is not None else 0)
    unplaced, unmatched = (memory.unplaced, memory.unmatched_frees) if memory is not None else (0, 0)
    counts = {
        "impossible-sizes": (tables.work.unsized, "copies and fills have no size and count as 0 bytes"),
        "impossible-memory": (unplaced, "allocations or frees have no device, address, size or time and were left out"),
        "impossible-times": (dropped, "rows of GPU work or calls have no, negative or absurd times and were left out"),
        "impossible-ranges": (bad_ranges, "NVTX ranges end before they start, or have no start, and were left out"),
        "open-ranges": (open_ranges, "NVTX ranges were never closed; they end with the trace"),
        "unmatched-frees": (unmatched, "frees of memory whose allocation was not recorded"),
    }
    for code, (count, text) in counts.items():
        if count:
            yield Note(code, Severity.WARNING, f"{count:,} {text}.")


def _memory(memory: DeviceMemory) -> Iterator[Note]:
    if memory.managed_peak_bytes:
        text = (
            f"Up to {format_bytes(memory.managed_peak_bytes)} of managed memory were allocated; how much of it a GPU "
            "held is not recorded, so the peaks are without it."
        )
        yield Note("managed-memory", Severity.INFO, text)
    if memory.unsized_pools:
        text = (
            "Memory came from pools whose sizes were not recorded: the peaks count what was handed out, and not what "
            "the pools kept."
        )
        yield Note("pool-sizes-unknown", Severity.WARNING, text)


def _partial(tables: Tables) -> Iterator[Note]:
    for name in ("TABLES_TO_EXPORT", "TIMES_TO_EXPORT"):
        if tables.export_facts.get(f"EXPORT_PARAM_{name}", "").strip():
            text = f"The export was restricted ({name})."
            yield Note("partial-export", Severity.WARNING, text, "Export the whole report.")
    for gone in tables.capture_facts.get(LEFT_OUT, []):
        text = f"This trace was made to be shared, without {gone}."
        yield Note("bundle-left-out", Severity.WARNING, text, "Ask for the whole trace if that matters.")
