"""Define what is exported: rows of a trace, the arrows between them, and the numbers and names of processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nsysprof.arrays import Int64s
from nsysprof.files.plain_file import VERSION, json_value
from nsysprof.results.analysis import Analysis, TraceRows
from nsysprof.results.event_rows import CallRows, WorkRows
from nsysprof.trace.schema import MetricSeries

# A function that is called with the number of further rows that have been written.
Advance = Callable[[int], None]
# Rows handled at once: enough to make arrays worth while, few enough to stay within 100 MB.
CHUNK_ROWS = 1 << 16


@dataclass(frozen=True)
class Content:
    """What is exported: a trace, whose timeline has the rows, and the samples of every GPU metric."""

    analysis: Analysis | TraceRows
    metrics: tuple[MetricSeries, ...] = ()

    @cached_property
    def work(self) -> WorkRows:
        """Return the work of the GPUs."""
        return self.analysis.timeline.work

    @cached_property
    def calls(self) -> CallRows:
        """Return the CUDA API calls."""
        return self.analysis.timeline.calls

    @cached_property
    def shift_ns(self) -> int:
        """Return the shift (ns) that makes all times positive, as Perfetto needs them.

        It is 0 unless something happened before the session's start.
        """
        timeline = self.analysis.timeline
        earliest = [int(rows.start_ns[rows.numbers(0, 1)][0]) for rows in (self.work, self.calls) if len(rows)]
        earliest += [int(timeline.nvtx["start_ns"].iloc[0])] if len(timeline.nvtx) else []
        earliest += [int(timeline.memory["time_ns"].min())] if len(timeline.memory) else []
        earliest += [int(series.time_ns[0]) for series in self.metrics]
        return max(0, -min(earliest, default=0))

    @cached_property
    def rows(self) -> int:
        """Return how many rows there are to write."""
        timeline = self.analysis.timeline
        tables = (timeline.nvtx, timeline.memory)
        return len(self.work) + len(self.calls) + sum(map(len, tables)) + sum(map(len, self.metrics))

    def provenance(self) -> dict[str, Any]:
        """Return the origin of the numbers and the notes about them, for the header of a file."""
        trace = self.analysis.trace
        return {
            "nsysprof_version": VERSION,
            "trace": trace.path_name,
            "sha256": trace.sha256,
            "tool": trace.tool,
            "tool_version": trace.tool_version,
            "work_kind": trace.work_kind,
            "memory_kind": trace.memory_kind,
            "shift_ns": self.shift_ns,
            "notes": json_value(self.analysis.notes),
        }


@dataclass
class Counts:
    """How many rows of each kind were written (`kernel`, `memcpy`, `api`, `range`, `flow`, `sample`, ...)."""

    rows: dict[str, int] = field(default_factory=dict)

    def add(self, what: str, number: int = 1) -> None:
        if number:
            self.rows[what] = self.rows.get(what, 0) + number


_Ints = npt.NDArray[Any]
_Bools = npt.NDArray[np.bool_]


class Flows:
    """The arrow into the first work of a call has the call's number plus 1, so that nothing is stored for it.

    Further work of the same call, as a graph replay has it, gets the numbers after those of all calls.
    """

    def __init__(self, work: WorkRows) -> None:
        self._call, self._calls = work.call, len(work.calls)
        self._launches: _Bools = np.zeros(self._calls, dtype=np.bool_)
        self._work = work
        # How many arrows there are.
        self.count = 0
        for rows in self._parts():
            self._launches[self._call[rows]] = True
            self.count += len(rows)
        self._more_work, self._more_of = self._list_more()

    def _parts(self) -> Any:
        """Yield the numbers of the work that a call launched, some at a time and by start."""
        for low in range(0, len(self._work), CHUNK_ROWS):
            rows = self._work.numbers(low, low + CHUNK_ROWS)
            yield rows[self._call[rows] >= 0]

    def _list_more(self) -> tuple[_Ints, _Ints]:
        """Return the work that is not the first of its call, in order of its numbers, and its calls."""
        none = np.zeros(0, dtype=np.int32)
        if self.count == int(np.count_nonzero(self._launches)):
            return none, none
        first = np.full(self._calls, -1, dtype=np.int32)
        more = []
        for rows in self._parts():
            calls = self._call[rows]
            fresh = first[calls] < 0
            first[calls[fresh][::-1]] = rows[fresh][::-1]
            more.append(rows[first[calls] != rows])
        more_work = np.sort(np.concatenate(more))
        return more_work, self._call[more_work]

    def into(self, rows: _Ints) -> Int64s:
        """Return the number of the arrow into each of the rows of work; 0 for none."""
        arrows = self._call[rows].astype(np.int64) + 1
        if len(self._more_work):
            at = np.minimum(np.searchsorted(self._more_work, rows), len(self._more_work) - 1)
            is_more = self._more_work[at] == rows
            arrows[is_more] = self._calls + 1 + at[is_more]
        return arrows

    def out_of(self, calls: _Ints) -> Int64s:
        """Return the number of the first arrow out of each of the calls; 0 for none."""
        return np.where(self._launches[calls], calls.astype(np.int64) + 1, 0)

    def more_out_of(self, calls: _Ints) -> tuple[Int64s, Int64s]:
        """Return how many further arrows each of the calls has, and the numbers of all of them, call by call."""
        if len(self._more_work) == 0:
            return np.zeros(len(calls), dtype=np.int64), np.zeros(0, dtype=np.int64)
        low = np.searchsorted(self._more_calls, calls, "left")
        count = np.searchsorted(self._more_calls, calls, "right") - low
        place = np.repeat(low - (np.cumsum(count) - count), count) + np.arange(int(count.sum()))
        return count, self._calls + 1 + self._by_call[place].astype(np.int64)

    @cached_property
    def _by_call(self) -> _Ints:
        return np.argsort(self._more_of, kind="stable").astype(np.int32)

    @cached_property
    def _more_calls(self) -> _Ints:
        calls: _Ints = self._more_of[self._by_call]
        return calls


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
