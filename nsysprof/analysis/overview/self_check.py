"""Check a recording for completeness: compare it with its own calls and graphs, and with what NVML saw meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from nsysprof.analysis.attribution.calls import launch_calls, lost_launches, opaque_replays
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.overview.diagnostics import COUNTERS, RECORDS, explain_messages
from nsysprof.analysis.overview.graph_replays import find_short_replays, judge_short_replays
from nsysprof.analysis.overview.health import judge_lost_launches
from nsysprof.notes import Loss, Remark, Remarks, make_loss, make_note, split_losses
from nsysprof.results.checks import CudaProcess, Lost, RecordedProcess, RecordingCheck, WatchedGpu
from nsysprof.trace.schema import GRAPH, PID_MASK, Bools, RecordedKinds, Tables

# NVML's share of busy time is coarse. A difference below this (s) is not held against a recording.
_LEAST_BUSY_S = 1.0
# A recording with less than this share of the busy time that NVML saw is suspicious.
_LEAST_SHARE, _LEAST_GAP_S = 0.3, 3.0
# SMs that were active for less than this (s) may have run only what nsys itself needs.
_LEAST_SAMPLED_S = 0.01
_SM_ACTIVE = re.compile(r"^SMs? Active")
_MOST_NAMED = 4
_OF_BUFFERS = {COUNTERS: Lost.SAMPLES, RECORDS: Lost.KERNELS}
Found = Iterator[tuple[Lost | None, Remark]]


def check_recording(
    tables: Tables, recorded: RecordedKinds, watched: WatchedGpu, *, began_ns: int | None = None
) -> RecordingCheck:
    """Return what a recording lost.

    recorded: the kinds of events in the recording.
    watched: what was observed from outside while the program ran.
    began_ns: when the clock of the trace began (ns since 1970); None where it does not tell.
    """
    launches = launch_calls(tables)
    silent = opaque_replays(tables, launches)[1]
    missing = lost_launches(tables, launches, silent)
    has_kernels = tables.work.kernels > 0 or bool((tables.work.kinds() == GRAPH).any())
    quick = inspect_recording(recorded)
    told = explain_messages(recorded.diagnostics, recorded.helper_diagnostics, has_kernels=recorded.kernels)
    found: list[tuple[Lost | None, Remark]] = [
        (_OF_BUFFERS.get(loss.buffer) or (Lost.EVENTS if loss in told else Lost.KERNELS), loss) for loss in quick.losses
    ]
    of_losses = [loss.note for loss in quick.losses]
    found += [(None, note) for note in quick.notes if note not in of_losses]
    if has_kernels:
        found += _launches(tables, launches, missing)
        found += _replays(tables)
    processes = _recorded(tables, began_ns)
    found += [*_processes(processes, watched), *_busy(tables, watched, is_known=not len(silent))]
    found += _sampled(tables, watched)
    remarks = split_losses(remark for _, remark in found)
    opaque = len(silent) > 0 or bool((tables.work.kinds() == GRAPH).any())
    return RecordingCheck(
        remarks,
        tuple(dict.fromkeys(kind for kind, _ in found if kind is not None)),
        kernels=None if opaque else tables.work.kernels,
        launches=None if tables.calls is None else int(launches.sum()),
        gpu_work=len(tables.work),
        processes=processes,
        domains=_domains(tables),
    )


def _launches(tables: Tables, launches: Bools, missing: Bools) -> Found:
    """Yield remarks about launches without kernels, and about processes without any kernel."""
    for remark in judge_lost_launches(tables, launches, missing):
        yield (Lost.KERNELS if isinstance(remark, Loss) else None), remark
    calls = tables.calls
    if calls is None or not missing.any():
        return
    pid = calls.tid_of[calls.variant] & PID_MASK
    lost = [int(each) for each in np.unique(pid[missing]) if not (launches & ~missing & (pid == each)).any()]
    if lost and len(np.unique(pid[launches])) > len(lost):
        numbers = _named([str((each >> 24) & 0xFFFFFF) for each in lost])
        yield Lost.KERNELS, make_loss("process-lost", "without-kernels", processes=numbers)


def _replays(tables: Tables) -> Found:
    short = find_short_replays(tables)
    if short is not None:
        remark = judge_short_replays(short)
        yield (Lost.GRAPH_NODES if isinstance(remark, Loss) else None), remark


def _processes(recorded: tuple[RecordedProcess, ...], watched: WatchedGpu) -> Found:
    """Yield remarks about processes with a CUDA context that are not in the trace, wholly or in part."""
    replaced = watched.replaced(recorded)
    gone = [each for each in watched.missing(recorded) if each not in replaced]
    if gone:
        yield Lost.PROCESS, make_loss("process-lost", processes=_named(_titles(gone)))
    if replaced:
        yield Lost.REPLACED, make_loss("process-lost", "replaced", processes=_named(_titles(replaced)))


def _domains(tables: Tables) -> frozenset[str]:
    return frozenset() if tables.ranges is None else frozenset(map(str, tables.ranges["domain"].dropna().unique()))


def _titles(processes: Iterable[CudaProcess]) -> list[str]:
    return [f"{each.name} ({each.pid})" for each in processes]


def _recorded(tables: Tables, began_ns: int | None) -> tuple[RecordedProcess, ...]:
    """Return the processes that have calls or work in the trace. began_ns: when its clock began."""
    calls, work = tables.calls, tables.work
    first: dict[int, int] = {}
    columns = [(work.pid_of[work.variant], work.start_ns)]
    if calls is not None:
        columns.append((calls.tid_of[calls.variant] & PID_MASK, calls.start_ns))
    for global_pids, starts_ns in columns:
        for each in np.unique(global_pids).tolist():
            pid, start_ns = (each >> 24) & 0xFFFFFF, int(starts_ns[global_pids == each].min())
            first[pid] = min(first.get(pid, start_ns), start_ns)
    return tuple(
        RecordedProcess(pid, None if began_ns is None else began_ns + start_ns)
        for pid, start_ns in sorted(first.items())
    )


def _busy(tables: Tables, watched: WatchedGpu, *, is_known: bool) -> Found:
    """Yield remarks about GPUs that were busy while the trace has no work, or much less.

    is_known: whether the trace knows when the GPUs were busy.
    """
    if not watched.is_whole or watched.is_shared or not is_known or (watched.busy_s or 0.0) < _LEAST_BUSY_S:
        return
    seen_s, work = watched.busy_s or 0.0, tables.work
    if not len(work):
        if watched.processes:  # otherwise the work may have belonged to another program
            yield Lost.KERNELS, make_loss("busy-without-work", seen=seen_s)
        return
    device = np.unique(work.device_of, return_inverse=True)[1].astype(np.int16)
    known_s = float(union_ns(work.start_ns, work.duration_ns, device[work.variant]).sum()) / 1e9
    if watched.processes and known_s < _LEAST_SHARE * seen_s and seen_s - known_s > _LEAST_GAP_S:
        yield None, make_note("busy-without-work", "some", seen=seen_s, known=known_s)


def _sampled(tables: Tables, watched: WatchedGpu) -> Found:
    """Yield a remark where sampled counters show that SMs worked, while the trace has no work at all."""
    metrics = tables.gpu_metrics
    if metrics is None or watched.is_shared or len(tables.work):
        return
    series = [each for each in metrics.use if _SM_ACTIVE.search(each.metric)]
    active_s = sum(float(each.use_pct.clip(0, 100).sum()) / 100 * each.period_ns / 1e9 for each in series)
    if active_s >= _LEAST_SAMPLED_S:
        yield Lost.KERNELS, make_loss("busy-without-work", "sampled", seen=active_s)


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


_UPDATE_NSYS = "nsys is probably older than the driver: use a newer nsys (nsys --version, nvidia-smi)."


def inspect_recording(recorded: RecordedKinds) -> Remarks:
    """Return what nsys reports as lost, and which kinds of events are missing although the program made them."""
    remarks = explain_messages(
        recorded.diagnostics, recorded.helper_diagnostics, has_kernels=recorded.kernels, is_strict=True
    )
    if recorded.launches and not recorded.kernels:
        remarks.append(make_loss("no-kernels", "right-after-recording", update_nsys=_UPDATE_NSYS))
    elif not (recorded.ranges or recorded.calls or recorded.gpu_work):
        remarks.append(make_note("nothing-recorded"))
    return split_losses(remarks)
