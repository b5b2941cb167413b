"""The tables of a trace by our names: what the reader makes and the analysis takes."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.notes import Note
from nsysprof.trace.gpu_metrics_schema import GpuMetrics

Ints = npt.NDArray[np.integer]
Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# NULL in a 64-bit integer column: no nsys timestamp or id is this value, and NaN would cost the low bits of ids.
NULL = int(np.iinfo(np.int64).min)
# Kinds of GPU work. Migrations are copies that unified memory made on its own: no call of the program asked for them.
KERNEL, COPY, FILL, GRAPH, MIGRATION = range(5)
# What a globalTid keeps of itself in its globalPid.
PID_MASK = ~0xFFFFFF


@dataclass(frozen=True)
class DeviceRow:
    """A GPU as the trace names it; `device_id` is its number on the machine, whatever a process calls it."""

    device_id: int
    name: str
    total_memory_bytes: int | None
    sm_count: int | None
    uuid: str | None


@dataclass(frozen=True)
class Work:
    """GPU work as arrays of one length: kernels first, then copies and migrations, fills, graph replays.

    Whatever repeats is a row of a small table, so that ten million kernels fit in 200 MB. Rows with impossible times
    are not here; `dropped` counts them.

    start_ns: int64 since session start. duration_ns: uint32, int64 where one takes longer than four seconds.
    correlation_id: uint32, 0 where there is none. variant: row of `variants`, int64 (n, 8): kind, global_pid,
    device_id, context_id, stream_id, name_id, short_name_id, whether it is a kernel of a graph replay.
    bytes (0 where there is no possible size; `unsized` counts these), copy_kind (-1: no copy): of the rows after the
    kernels only, so they are `kernels` shorter.
    """

    start_ns: Int64s
    duration_ns: Ints
    correlation_id: npt.NDArray[np.uint32]
    variant: Ints
    bytes: Int64s
    copy_kind: Int64s
    variants: Int64s
    kernels: int
    dropped: int
    unsized: int

    def __len__(self) -> int:
        return len(self.start_ns)

    @cached_property
    def kind_of(self) -> npt.NDArray[np.int8]:
        """The kind of each variant."""
        return self.variants[:, 0].astype(np.int8)

    @property
    def pid_of(self) -> Int64s:
        """The global pid of each variant."""
        return self.variants[:, 1]

    @property
    def device_of(self) -> Int64s:
        """The device id of each variant."""
        return self.variants[:, 2]

    @property
    def streams_of(self) -> Int64s:
        """global_pid, device_id, context_id, stream_id of each variant; (n, 4)."""
        return self.variants[:, 1:5]

    @property
    def names_of(self) -> Int64s:
        """name_id, short_name_id of each variant; (n, 2), NULL for what is no kernel."""
        return self.variants[:, 5:7]

    @property
    def in_graph_of(self) -> Bools:
        """Whether each variant is of a graph replay."""
        in_graph: Bools = self.variants[:, 7] != 0
        return in_graph

    def kinds(self, rows: Any = slice(None)) -> npt.NDArray[np.int8]:
        """The kind of each of the rows."""
        kinds: npt.NDArray[np.int8] = self.kind_of[self.variant[rows]]
        return kinds

    def ends_ns(self, rows: Any = slice(None)) -> Int64s:
        """The end of each of the rows."""
        ends: Int64s = self.start_ns[rows] + self.duration_ns[rows]
        return ends


@dataclass(frozen=True)
class Calls:
    """CUDA API calls, runtime and driver, as arrays of one length, in file order; backtraces excluded.

    start_ns, duration_ns, correlation_id: as in Work. variant: row of `variants`, int64 (n, 3): name_id, global_tid,
    whether the call failed.
    """

    start_ns: Int64s
    duration_ns: Ints
    correlation_id: npt.NDArray[np.uint32]
    variant: Ints
    variants: Int64s
    dropped: int

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def name_of(self) -> Int64s:
        """The name id of each variant."""
        return self.variants[:, 0]

    @property
    def tid_of(self) -> Int64s:
        """The global tid of each variant."""
        return self.variants[:, 1]

    @property
    def failed_of(self) -> Bools:
        """Whether each variant is of calls that failed."""
        failed: Bools = self.variants[:, 2] != 0
        return failed

    def ends_ns(self, rows: Any = slice(None)) -> Int64s:
        """The end of each of the rows."""
        ends: Int64s = self.start_ns[rows] + self.duration_ns[rows]
        return ends


@dataclass
class Tables:
    """What was read. A table is None when the trace has none; times are ns since session start, ids as in nsys.

    digest: the file's SHA-256, computed while the tables are read and counted.
    recorded: the kinds of work of which the trace has any. calls: None when no API call was recorded.
    launch: once they are matched, for each row of work its row of calls, or -1; int32. The correlation ids, a tenth of
        all memory, are dropped then.
    ranges: start_ns, end_ns (NULL: open), style, global_tid, end_global_tid, domain_id, name, domain
    memory: time_ns, global_pid, device_id, address, bytes, kind, operation (0 allocation, 1 free, 2 pool resized),
        pool (address, NULL: none), pool_bytes (its size then, NULL: unknown), imported (pool of another process, NULL:
        none)
    gpu_metrics: sampled DRAM counters
    """

    path_name: str
    digest: Future[str]
    bytes: int
    capture_facts: dict[str, list[str]]
    export_facts: dict[str, str]
    diagnostics: list[tuple[int, str]]
    strings: pd.Series
    devices: tuple[DeviceRow, ...]
    work: Work
    recorded: frozenset[int]
    calls: Calls | None
    ranges: pd.DataFrame | None
    memory: pd.DataFrame | None
    gpu_metrics: GpuMetrics | None
    notes: list[Note] = field(default_factory=list)
    launch: npt.NDArray[np.int32] | None = None


@dataclass(frozen=True)
class RecordedKinds:
    """Which kinds of events there are. launches: at least one call that launches a kernel."""

    kernels: bool
    gpu_work: bool
    launches: bool
    ranges: bool
    calls: bool
    diagnostics: list[tuple[int, str]]
