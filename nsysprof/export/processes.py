"""Assign the numbers and names under which viewers show processes, threads and devices."""

from __future__ import annotations

from dataclasses import dataclass

from nsysprof.export.content import Content
from nsysprof.results.analysis import Analysis, TraceRows
from nsysprof.trace.schema import MetricSeries

_ID_BITS = 0xFFFFFF
_PID_MASK = ~_ID_BITS


@dataclass(frozen=True)
class Numbers:
    """A unique number for every process and device. Pids repeat where reports of several machines were merged."""

    # By global pid.
    pids: dict[int, int]
    # By device id, for viewers that know only processes.
    device_pids: dict[int, int]

    def pid(self, global_id: int) -> int:
        return self.pids[global_id & _PID_MASK]


def number_processes(content: Content) -> Numbers:
    """Return the numbers: a process keeps its pid, or gets the next free number where another process has that pid."""
    timeline = content.analysis.timeline
    seen = [content.calls.variants["global_tid"], timeline.nvtx["global_tid"]]
    global_pids = sorted({int(key) & _PID_MASK for column in seen for key in column.unique()})
    taken: set[int] = set()
    pids = {key: _free((key >> 24) & _ID_BITS, taken) for key in global_pids}
    return Numbers(pids, {device: _free(device, taken) for device in device_ids(content)})


def device_ids(content: Content) -> list[int]:
    """Return every device that has work, memory or samples, or that the trace names."""
    work = content.work.variants
    tables = (work[work["kind"].notna()], content.analysis.timeline.memory)
    used = [int(device) for table in tables for device in table["device_id"].unique()]
    named = [device.device_id for device in content.analysis.devices]
    return sorted({*used, *named, *map(device_of, content.metrics)})


def device_of(series: MetricSeries) -> int:
    """Return the number that results use for the sampled device, or nsys' own number where they have none."""
    return series.gpu if series.device_id is None else series.device_id


def device_name(analysis: Analysis | TraceRows, device_id: int) -> str:
    """Return a name such as `GPU 0: NVIDIA H200`. The CPU of an operator trace is `cpu`."""
    name = next((device.name for device in analysis.devices if device.device_id == device_id), None)
    if analysis.trace.work_kind == "operator":
        return name or "cpu"
    number = f"GPU {device_id}"
    return f"{number}: {name}" if name and name != number else number


def thread_id(global_tid: int) -> int:
    """Return the thread's number within its process."""
    return global_tid & _ID_BITS


def _free(wanted: int, taken: set[int]) -> int:
    while wanted in taken:
        wanted += 1
    taken.add(wanted)
    return wanted
