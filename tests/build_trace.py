"""Writes tiny nsys exports from lists, so that a test shows in a few lines what its trace holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

PID = (1 << 48) | (100 << 24)
TID = PID | 1
OTHER_TID = PID | 2
OTHER_PID = (1 << 48) | (200 << 24)
# Of GPU metrics: the typeId less its low byte, which is the GPU, and the names of metric ids 0, 1, 2 and 3.
METRIC_TYPE = 0x1000100000000
METRICS = (
    "GPC Clock Frequency [MHz]", "SMs Active [Throughput %]", "DRAM Read Bandwidth [Throughput %]",
    "DRAM Write Bandwidth [Throughput %]",
)  # fmt: skip

_KERNEL = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, "
    "shortName INTEGER NOT NULL, graphNodeId INTEGER"
)
_COPY = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER"
)
_FILL = _COPY.replace("copyKind", "value")
_CALL = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, "
    "correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL"
)
_RANGE = (
    "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, text TEXT, globalTid INTEGER, "
    "endGlobalTid INTEGER, textId INTEGER, domainId INTEGER"
)
_MEMORY = (
    "start INTEGER NOT NULL, globalPid INTEGER, deviceId INTEGER NOT NULL, contextId INTEGER, address INTEGER, "
    "bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER"
)
_GRAPH = (
    "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER, streamId INTEGER, "
    "correlationId INTEGER, globalPid INTEGER, graphId INTEGER"
)


class TraceBuilder:
    """Collects rows; `write` makes the file. Tables without rows are absent, as in nsys' lazy exports."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.tables: dict[str, tuple[str, list[Sequence[object]]]] = {}

    def text(self, value: str) -> int:
        return self.strings.setdefault(value, len(self.strings) + 1)

    def row(self, table: str, columns: str, values: Sequence[object]) -> None:
        self.tables.setdefault(table, (columns, []))[1].append(values)

    def kernel(
        self, start: int, end: int, correlation: int | None, name: str = "kernel", *,
        pid: int = PID, device: int = 0, stream: int = 7, node: int | None = None,
    ) -> None:  # fmt: skip
        values = (start, end, device, 1, stream, correlation, pid, self.text(f"{name}(int)"), self.text(name), node)
        self.row("CUPTI_ACTIVITY_KIND_KERNEL", _KERNEL, values)

    def call(
        self, start: int, end: int, correlation: int | None, name: str = "cudaLaunchKernel_v7000", *,
        tid: int = TID, event_class: int = 0, result: int = 0,
    ) -> None:  # fmt: skip
        values = (start, end, event_class, tid, correlation, self.text(name), result)
        self.row("CUPTI_ACTIVITY_KIND_RUNTIME", _CALL, values)

    def launch(self, at: int, correlation: int, *, tid: int = TID, name: str = "kernel", delay: int = 100) -> None:
        """A launch call of 10 ns and its kernel of 50 ns, `delay` later."""
        self.call(at, at + 10, correlation, tid=tid)
        self.kernel(at + delay, at + delay + 50, correlation, name, pid=tid & ~0xFFFFFF)

    def copy(self, start: int, end: int, correlation: int, size: int, kind: int = 1, *, device: int = 0) -> None:
        self.row("CUPTI_ACTIVITY_KIND_MEMCPY", _COPY, (start, end, device, 1, 7, correlation, PID, size, kind))

    def fill(self, start: int, end: int, correlation: int, size: int) -> None:
        self.row("CUPTI_ACTIVITY_KIND_MEMSET", _FILL, (start, end, 0, 1, 7, correlation, PID, size, 0))

    def graph(self, start: int, end: int, correlation: int) -> None:
        self.row("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", _GRAPH, (start, end, 0, 1, 7, correlation, PID, 1))

    def range(
        self, start: int, end: int | None, name: str, *,
        kind: int = 59, tid: int = TID, domain: int = 0, registered: bool = False,
    ) -> None:  # fmt: skip
        text, text_id = (None, self.text(name)) if registered else (name, None)
        self.row("NVTX_EVENTS", _RANGE, (start, end, kind, 1, text, tid, None, text_id, domain))

    def allocate(self, at: int, address: int, size: int, *, kind: int = 2, pid: int = PID, device: int = 0) -> None:
        self.row("CUDA_GPU_MEMORY_USAGE_EVENTS", _MEMORY, (at, pid, device, 1, address, size, kind, 0))

    def free(self, at: int, address: int, *, size: int = 0, kind: int = 2, pid: int = PID, device: int = 0) -> None:
        self.row("CUDA_GPU_MEMORY_USAGE_EVENTS", _MEMORY, (at, pid, device, 1, address, size, kind, 1))

    def gpu(self, number: int = 0, name: str = "NVIDIA H200", cuda: int | None = None) -> None:
        columns = "id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, uuid TEXT, cuDevice INTEGER"
        self.row("TARGET_INFO_GPU", columns, (number, name, 150 << 30, 132, f"GPU-{number}", cuda))

    def sampled_gpu(self, number: int = 0, *, peak: object = 10**11, cuda: int | None = None) -> None:
        """A GPU with its memory bandwidth in bytes/s; at 10**11, one percent for 1 ns is one byte."""
        columns = "id INTEGER, name TEXT, cuDevice INTEGER, memoryBandwidth INTEGER"
        self.row("TARGET_INFO_GPU", columns, (number, "NVIDIA H200", cuda, peak))

    def cuda_device(self, gpu: int, ordinal: int, pid: int = PID) -> None:
        """Which GPU a process calls `ordinal`."""
        self.row(
            "TARGET_INFO_CUDA_DEVICE",
            "gpuId INTEGER, cudaId INTEGER, pid INTEGER",
            (gpu, ordinal, pid >> 24 & 0xFFFFFF),
        )

    def metric_names(self, names: Sequence[object] = METRICS, *, gpu: int = 0) -> None:
        """Names for metric ids 0, 1, ... of a GPU's samples."""
        columns = "typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, metricName TEXT"
        for metric_id, name in enumerate(names):
            self.row("TARGET_INFO_GPU_METRICS", columns, (METRIC_TYPE | gpu, METRIC_TYPE, "", metric_id, name))

    def sample(self, at: object, values: Sequence[object], *, gpu: int = 0) -> None:
        """A row for each of metric ids 0, 1, ... at one time."""
        columns = "rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER"
        for metric_id, value in enumerate(values):
            self.row("GPU_METRICS", columns, (at, at, METRIC_TYPE | gpu, metric_id, value))

    def json_sample(self, at: object, data: str, *, gpu: int = 0) -> None:
        """A sample as older nsys versions export it."""
        columns = "rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER, data TEXT"
        self.row("GENERIC_EVENTS", columns, (at, at, METRIC_TYPE | gpu, data))

    def fact(self, name: str, value: str, table: str = "META_DATA_CAPTURE") -> None:
        self.row(table, "name TEXT, value TEXT", (name, value))

    def write(self, path: Path) -> Path:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
            pairs: Iterable[tuple[int, str]] = [(number, value) for value, number in self.strings.items()]
            database.executemany("INSERT INTO StringIds VALUES (?, ?)", pairs)
            for table, (columns, rows) in self.tables.items():
                database.execute(f"CREATE TABLE {table} ({columns})")
                marks = ", ".join("?" * len(rows[0]))
                database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        database.close()
        return path
