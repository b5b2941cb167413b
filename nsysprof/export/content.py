"""Define what is exported: the rows of a trace, its GPU metrics, and counts of what was written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nsysprof.files.json_file import VERSION, json_value
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
