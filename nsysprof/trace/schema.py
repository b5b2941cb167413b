"""Define the tables of a trace under our names, for the reader that makes them and the analysis that uses them."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

# Whoever takes tables takes their columns.
from nsysprof.arrays import Floats as Floats  # noqa: PLC0414
from nsysprof.arrays import Int64s as Int64s  # noqa: PLC0414
from nsysprof.notes import Loss, Note

Ints = npt.NDArray[np.integer]
Bools = npt.NDArray[np.bool_]
# The type of row numbers: no trace has 2^31 rows in one table.
Rows = npt.NDArray[np.int32]
# Correlation ids; 0 where there is none. They are matched while a trace is read and then dropped, because they take a
# tenth of all memory.
CorrelationIds = npt.NDArray[np.uint32]

# NULL in a 64-bit integer column: no time or id of nsys has this value, and NaN would cost the low bits of ids.
NULL = int(np.iinfo(np.int64).min)
# Kinds of GPU work. Unified memory makes migrations by itself, without a call of the program.
KERNEL, COPY, FILL, GRAPH, MIGRATION = range(5)
# How many rows are looked at at a time where all of them would take much memory.
_BLOCK = 1 << 18
# The bits of a globalTid that its globalPid shares.
PID_MASK = ~0xFFFFFF
Percents = npt.NDArray[np.int16]


@dataclass(frozen=True)
class DeviceRow:
    """A GPU as the trace names it; `device_id` is its number on the machine, whatever a process calls it."""

    device_id: int
    name: str
    total_memory_bytes: int | None
    sm_count: int | None
    uuid: str | None


@dataclass(frozen=True)
class _Timed:
    """Rows with a start and a duration."""

    # The start (ns since session start).
    start_ns: Int64s
    # The duration (ns): uint32, or int64 where one takes longer than four seconds.
    duration_ns: Ints

    def __len__(self) -> int:
        return len(self.start_ns)

    def ends_ns(self, rows: Any = slice(None)) -> Int64s:
        """Return the end of each of the rows (ns)."""
        ends: Int64s = self.start_ns[rows] + self.duration_ns[rows]
        return ends

    def last_end_ns(self) -> int:
        """Return when the last of them ended (ns). There must be one."""
        blocks = (slice(low, low + _BLOCK) for low in range(0, len(self), _BLOCK))
        return max(int(self.ends_ns(block).max()) for block in blocks)


@dataclass(frozen=True)
class Work(_Timed):
    """GPU work as arrays of one length: kernels first, then copies and migrations, fills, and graph replays.

    Values that repeat are rows of the small table `variants`, so that ten million kernels fit in 200 MB. Rows with
    impossible times are left out; `dropped` counts them.
    """

    # The row of `variants`, in the narrowest type of 8 (without a sign), 16 or 32 bits.
    variant: Ints
    # The next three arrays are only for the rows after the kernels, so they are `kernels` shorter.
    bytes: Int64s
    # The kind of copy; -1: not a copy.
    copy_kind: Int64s
    # The memory on the host's side of a copy: 0 pageable, 1 pinned, -1 unknown or none.
    host_kind: npt.NDArray[np.int8]
    # The node id of each row that belongs to a graph replay, in the order of the rows.
    graph_node: Int64s
    # int64 (n, 8): kind, global_pid, device_id, context_id, stream_id, name_id (the graph's id where a graph was
    # replayed as a whole), short_name_id, and whether it belongs to a graph replay recorded by nodes.
    variants: Int64s
    kernels: int
    dropped: int
    unsized: int

    @cached_property
    def kind_of(self) -> npt.NDArray[np.int8]:
        """Return the kind of each variant."""
        return self.variants[:, 0].astype(np.int8)

    @property
    def pid_of(self) -> Int64s:
        """Return the global pid of each variant."""
        return self.variants[:, 1]

    @property
    def device_of(self) -> Int64s:
        """Return the device id of each variant."""
        return self.variants[:, 2]

    @property
    def streams_of(self) -> Int64s:
        """Return global_pid, device_id, context_id and stream_id of each variant, of shape (n, 4)."""
        return self.variants[:, 1:5]

    @property
    def names_of(self) -> Int64s:
        """Return name_id and short_name_id of each variant, of shape (n, 2); NULL for what is not a kernel."""
        return self.variants[:, 5:7]

    @property
    def in_graph_of(self) -> Bools:
        """Return whether each variant belongs to a graph replay."""
        in_graph: Bools = self.variants[:, 7] != 0
        return in_graph

    @cached_property
    def by_start(self) -> Rows:
        """Return the rows in order of start; those that start together in order of the rows."""
        start, kernels = self.start_ns, self.kernels
        if not bool((start[1:kernels] >= start[:kernels][:-1]).all()):
            return np.argsort(start, kind="stable").astype(np.int32)
        # Kernels are mostly in order: the few copies and fills after them are inserted among them.
        late = kernels + np.argsort(start[kernels:], kind="stable").astype(np.int32)
        places = np.searchsorted(start[:kernels], start[late], "right")
        rows: Rows = np.insert(np.arange(kernels, dtype=np.int32), places, late)
        return rows

    def rows_by_start(self, chosen: Bools) -> Rows:
        """Return the rows of some variants in order of start."""
        rows = self.by_start
        if chosen.all():
            return rows
        blocks = (rows[low : low + _BLOCK] for low in range(0, len(rows), _BLOCK))
        return np.concatenate([rows[:0], *(block[chosen[self.variant[block]]] for block in blocks)])

    def kinds(self, rows: Any = slice(None)) -> npt.NDArray[np.int8]:
        """Return the kind of each of the rows."""
        kinds: npt.NDArray[np.int8] = self.kind_of[self.variant[rows]]
        return kinds


@dataclass(frozen=True)
class Calls(_Timed):
    """CUDA API calls (runtime and driver) as arrays of one length in file order, without backtraces."""

    # The row of `variants`.
    variant: Ints
    # int64 (n, 3): name_id, global_tid, and whether the call failed.
    variants: Int64s
    dropped: int

    @property
    def name_of(self) -> Int64s:
        """Return the name id of each variant."""
        return self.variants[:, 0]

    @property
    def tid_of(self) -> Int64s:
        """Return the global tid of each variant."""
        return self.variants[:, 1]

    @property
    def failed_of(self) -> Bools:
        """Return whether each variant is of calls that failed."""
        failed: Bools = self.variants[:, 2] != 0
        return failed


@dataclass(frozen=True)
class Tables:
    """The content of a trace. A table is None when the trace does not have it. Times are ns since session start."""

    path_name: str
    # The file's SHA-256, computed while the tables are read and counted.
    digest: Future[str]
    bytes: int
    capture_facts: dict[str, list[str]]
    export_facts: dict[str, str]
    diagnostics: list[tuple[int, str]]
    strings: pd.Series
    devices: tuple[DeviceRow, ...]
    work: Work
    # The kinds of work that occur in the trace.
    recorded: frozenset[int]
    # The API calls; None when none were recorded.
    calls: Calls | None
    # For each row of work, the row of calls that launched it, or -1.
    launch: Rows
    # Ranges: start_ns, end_ns (NULL: open), style, global_tid, end_global_tid, domain_id, name, domain.
    ranges: pd.DataFrame | None
    # Allocations and frees: time_ns, global_pid, device_id, address, bytes, kind, operation (0 allocation, 1 free, 2
    # pool resized), pool (its address, NULL: none), pool_bytes (the pool's size then, NULL: unknown), imported (the
    # pool of another process, NULL: none).
    memory: pd.DataFrame | None
    # Sampled GPU metrics.
    gpu_metrics: GpuMetrics | None
    notes: list[Note] = field(default_factory=list)
    # The parts of the trace that could not be read. `notes` describes them, too.
    losses: list[Loss] = field(default_factory=list)
    # Synchronisations: start_ns, end_ns, sync_type (1 event, 2 a stream waits for an event, 3 stream, 4 context),
    # device_id, context_id, stream_id, correlation_id, global_pid, event_id, event_sync_id, call (its row of calls or
    # -1). None: not recorded.
    syncs: pd.DataFrame | None = None
    # The profiler's own time: start_ns, end_ns, global_tid, name_id. None: not read.
    overheads: pd.DataFrame | None = None
    # Nodes of CUDA graphs that were created or copied: time_ns, global_tid, node_id, original_id. None: not recorded.
    graph_nodes: pd.DataFrame | None = None
    # What nsys reports about processes that use no CUDA, where another one does: severity and text.
    helper_diagnostics: list[tuple[int, str]] = field(default_factory=list)
    # The payloads of NCCL's ranges, with the columns of collective_payloads (NULL where one does not say). None: no
    # range of the trace has such a payload.
    payloads: pd.DataFrame | None = None
    # Process id, context and stream of every stream whose creation was recorded.
    known_streams: frozenset[tuple[int, int, int]] = frozenset()
    # The ranges of torch's operators: start_ns, end_ns, global_tid, name. None: there are none.
    operators: pd.DataFrame | None = None
    # From when to when operators of which process were recorded, int64 (n, 3): these steps are not timed.
    marks: Int64s = field(default_factory=lambda: np.zeros((0, 3), dtype=np.int64))
    # The ranges of modules that `capture --layers` opened, in order of their start: start_ns, end_ns, global_tid, layer
    # (its path; "" for an optimizer), way (forward, backward or optimizer), kind (its class), is_call (whether a call
    # begins with it). None: there are none.
    layers: pd.DataFrame | None = None
    # When Python collected garbage: start_ns, end_ns, global_tid. None: not recorded, or never.
    collections: pd.DataFrame | None = None
    # When a thread took a batch from a data loader: start_ns, end_ns, global_tid. None: not recorded, or never.
    loads: pd.DataFrame | None = None
    # What was compiled, in order of its start: start_ns, end_ns, global_tid, kind, what, place and why, which are those
    # of CompileRange in layer_ranges. None: not recorded, or nothing.
    compiles: pd.DataFrame | None = None
    # When threads slept, polled or waited at a socket, a queue or a condition: start_ns, end_ns, global_tid. None: the
    # calls of the system were not recorded.
    waits: pd.DataFrame | None = None
    # Calls of the OS runtime, in a trace without GPU work and CUDA calls: start_ns, end_ns, global_tid, name_id.
    # None: not recorded, or not read.
    os_calls: pd.DataFrame | None = None

    @property
    def is_of_processor(self) -> bool:
        """Return whether the trace has torch's operators on a processor in place of a GPU's kernels."""
        return "operator" in self.capture_facts.get("NSYSPROF:WORK_KIND", [])


@dataclass(frozen=True)
class RecordedKinds:
    """Which kinds of events there are.

    launches: whether any call launches a kernel.
    """

    kernels: bool
    gpu_work: bool
    launches: bool
    ranges: bool
    calls: bool
    diagnostics: list[tuple[int, str]]
    # The same as in Tables.
    helper_diagnostics: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class DramSeries:
    """The DRAM counters of one GPU, as sampled."""

    # TARGET_INFO_GPU.id.
    gpu: int
    # The GPU's number in results (see trace.devices); None when the trace does not have this GPU.
    device_id: int | None
    # The bandwidth that 100 percent stands for (bytes/s); None when not recorded.
    peak_bytes_per_s: int | None
    # The median distance between samples (ns).
    period_ns: int
    # Ascending, since session start (ns); the first ones may be negative. A value at time_ns[i] is the average over the
    # period that *begins* there.
    time_ns: Int64s
    # Percent of the peak, rounded to integers.
    read_pct: Percents
    write_pct: Percents
    # The highest value of the SM counter; None when it was not sampled.
    sm_active_max_pct: int | None
    # The number of samples that were left out because a value was missing or not a percentage.
    impossible: int

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class UseSeries:
    """How much one unit of one GPU was used, such as its SMs, its tensor pipes, PCIe or NVLink."""

    # The trace's name without its unit.
    metric: str
    # It means the same as in DramSeries.
    gpu: int
    device_id: int | None
    period_ns: int
    time_ns: Int64s
    # Percent of the most that is possible, rounded to integers.
    use_pct: Percents

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class GpuMetrics:
    """The samples of all GPUs: one series of DRAM counters per GPU, and one per GPU and other unit."""

    series: tuple[DramSeries, ...]
    use: tuple[UseSeries, ...] = ()
    # How far samples may be from the work that they count, in either direction (ns): the two clocks differ, and
    # counters lag. analysis/h200-dram shows how much, for reads of known size.
    clock_error_ns: int = 5_000

    def gpu_of(self, device_id: int) -> int | None:
        """Return the GPU id of a device, or None when it was not sampled."""
        return next((series.gpu for series in self.series if series.device_id == device_id), None)


@dataclass(frozen=True)
class MetricSeries:
    """The samples of one metric of one GPU, whatever the metric is."""

    # The trace's name, with its unit in brackets.
    name: str
    # It means the same as in DramSeries.
    gpu: int
    device_id: int | None
    # Ascending, since session start; may be negative.
    time_ns: Int64s
    # As recorded.
    value: Int64s

    def __len__(self) -> int:
        return len(self.time_ns)
