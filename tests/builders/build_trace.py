"""Writes tiny nsys exports from lists, so that a test shows in a few lines what its trace holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.builders.generations import LABELS, VERSIONS, schema

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

# The columns that the reader asks for and no others: what a trace has when its test names no generation.
_SMALL = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, graphNodeId INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "bytes INTEGER NOT NULL, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "bytes INTEGER NOT NULL, value INTEGER",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, "
    "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
    "contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, "
    "syncType INTEGER NOT NULL, eventId INTEGER NOT NULL, eventSyncId INTEGER",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, "
    "streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, eventId INTEGER NOT NULL, "
    "eventSyncId INTEGER",
    "PROFILER_OVERHEAD": "start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER NOT NULL",
    "OSRT_API": "start INTEGER NOT NULL, end INTEGER NOT NULL, globalTid INTEGER, nameId INTEGER NOT NULL",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, "
    "contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER",
    "NVTX_EVENTS": "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, text TEXT, "
    "globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER",
    "CUDA_GPU_MEMORY_USAGE_EVENTS": "start INTEGER NOT NULL, globalPid INTEGER, deviceId INTEGER NOT NULL, "
    "contextId INTEGER, address INTEGER, bytes INTEGER, memKind INTEGER, memoryOperationType INTEGER",
    "TARGET_INFO_GPU": "id INTEGER, name TEXT, totalMemory INTEGER, smCount INTEGER, uuid TEXT, cuDevice INTEGER",
    "TARGET_INFO_CUDA_DEVICE": "gpuId INTEGER, cudaId INTEGER NOT NULL, pid INTEGER NOT NULL",
}


class TraceBuilder:
    """Collects rows; `write` makes the file. Tables without rows are absent, as in nsys' lazy exports.

    With a `generation` (see generations.py) the tables are those of that nsys: rows and cells that it has no
    table or column for are left out, and what it always writes is there. `lazy=False` then gives every table.
    """

    def __init__(self, generation: str | None = None, *, lazy: bool = True) -> None:
        self.generation = generation
        self.strings: dict[str, int] = {}
        self.tables: dict[str, tuple[str, list[Sequence[object]]]] = {}
        if generation is not None:
            self._put_what_every_export_has(generation, lazy)

    def text(self, value: str) -> int:
        return self.strings.setdefault(value, len(self.strings) + 1)

    def row(self, table: str, columns: str, values: Sequence[object]) -> None:
        self.tables.setdefault(table, (columns, []))[1].append(values)

    def put(self, table: str, **cells: object) -> None:
        """Add a row by the names of its columns."""
        if self.generation is None:
            columns = dict(column.split(maxsplit=1) for column in _SMALL[table].split(", "))
        elif table in schema(self.generation):
            columns = schema(self.generation)[table]
        else:
            return
        values = [cells.get(name, _blank(constraints)) for name, constraints in columns.items()]
        self.row(table, ", ".join(f"{name} {constraints}" for name, constraints in columns.items()), values)

    def kernel(
        self, start: int, end: int, correlation: int | None, name: str = "kernel", *,
        pid: int = PID, device: int = 0, stream: int = 7, node: int | None = None,
    ) -> None:  # fmt: skip
        self.put(
            "CUPTI_ACTIVITY_KIND_KERNEL", start=start, end=end, deviceId=device, contextId=1, streamId=stream,
            correlationId=correlation, globalPid=pid, demangledName=self.text(f"{name}(int)"),
            shortName=self.text(name), graphNodeId=node,
        )  # fmt: skip

    def call(
        self, start: int, end: int, correlation: int | None, name: str = "cudaLaunchKernel_v7000", *,
        tid: int = TID, event_class: int = 0, result: int = 0,
    ) -> None:  # fmt: skip
        self.put(
            "CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, eventClass=event_class, globalTid=tid,
            correlationId=correlation, nameId=self.text(name), returnValue=result,
        )  # fmt: skip

    def launch(
        self, at: int, correlation: int, *,
        tid: int = TID, name: str = "kernel", delay: int = 100, device: int = 0,
    ) -> None:  # fmt: skip
        """Add a launch call of 10 ns, and its kernel of 50 ns `delay` ns later."""
        self.call(at, at + 10, correlation, tid=tid)
        self.kernel(at + delay, at + delay + 50, correlation, name, pid=tid & ~0xFFFFFF, device=device)

    def copy(
        self, start: int, end: int, correlation: int, size: int, kind: int = 1, *, device: int = 0, pid: int = PID,
        host: int | None = None, stream: int = 7,
    ) -> None:  # fmt: skip
        """host: the kind of memory on the host's side, 0 pageable and 1 pinned."""
        self.put(
            "CUPTI_ACTIVITY_KIND_MEMCPY", start=start, end=end, deviceId=device, contextId=1, streamId=stream,
            correlationId=correlation, globalPid=pid, bytes=size, copyKind=kind,
            srcKind=host if kind == 1 else 2, dstKind=host if kind == 2 else 2,
        )  # fmt: skip

    def sync(
        self, start: int, end: int, correlation: int, kind: int = 3, *, stream: int = 7, event: int = 0, pid: int = PID,
        event_sync: int | None = None,
    ) -> None:  # fmt: skip
        """Add what a synchronising call waited for: 1 an event, 2 a stream for an event, 3 a stream, 4 the context."""
        self.put(
            "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", start=start, end=end, deviceId=0, contextId=1, streamId=stream,
            correlationId=correlation, globalPid=pid, syncType=kind, eventId=event, eventSyncId=event_sync,
        )  # fmt: skip

    def event_record(self, correlation: int, event: int, event_sync: int | None = None, *, stream: int = 7) -> None:
        self.put(
            "CUPTI_ACTIVITY_KIND_CUDA_EVENT", deviceId=0, contextId=1, streamId=stream, correlationId=correlation,
            globalPid=PID, eventId=event, eventSyncId=event_sync,
        )  # fmt: skip

    def system_call(self, start: int, end: int, name: str, *, tid: int = TID) -> None:
        self.put("OSRT_API", start=start, end=end, globalTid=tid, nameId=self.text(name))

    def overhead(self, start: int, end: int, name: str = "CUPTI Buffer flush", *, tid: int = TID) -> None:
        self.put("PROFILER_OVERHEAD", start=start, end=end, globalTid=tid, nameId=self.text(name))

    def fill(
        self, start: int, end: int, correlation: int, size: int, *, device: int = 0, pid: int = PID
    ) -> None:  # fmt: skip
        self.put(
            "CUPTI_ACTIVITY_KIND_MEMSET", start=start, end=end, deviceId=device, contextId=1, streamId=7,
            correlationId=correlation, globalPid=pid, bytes=size, value=0,
        )  # fmt: skip

    def graph(self, start: int, end: int, correlation: int) -> None:
        self.put(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", start=start, end=end, deviceId=0, contextId=1, streamId=7,
            correlationId=correlation, globalPid=PID, graphId=1,
        )  # fmt: skip

    def range(
        self, start: int, end: int | None, name: str, *,
        kind: int = 59, tid: int = TID, domain: int = 0, registered: bool = False,
    ) -> None:  # fmt: skip
        text, text_id = (None, self.text(name)) if registered else (name, None)
        self.put(
            "NVTX_EVENTS", start=start, end=end, eventType=kind, rangeId=1, text=text, globalTid=tid,
            textId=text_id, domainId=domain,
        )  # fmt: skip

    def allocate(self, at: int, address: int, size: int, *, kind: int = 2, pid: int = PID, device: int = 0) -> None:
        self._memory(at, address, size, kind, pid, device, 0)

    def free(self, at: int, address: int, *, size: int = 0, kind: int = 2, pid: int = PID, device: int = 0) -> None:
        self._memory(at, address, size, kind, pid, device, 1)

    def _memory(self, at: int, address: int, size: int, kind: int, pid: int, device: int, operation: int) -> None:
        self.put(
            "CUDA_GPU_MEMORY_USAGE_EVENTS", start=at, globalPid=pid, deviceId=device, contextId=1, address=address,
            bytes=size, memKind=kind, memoryOperationType=operation,
        )  # fmt: skip

    def gpu(self, number: int = 0, name: str | None = "NVIDIA H200", cuda: int | None = None) -> None:
        """Add a board: `number` is its id, `cuda` the ordinal by which kernels name it."""
        ordinal = number if cuda is None else cuda
        self.put(
            "TARGET_INFO_GPU", id=number, deviceId=ordinal, name=name, totalMemory=150 << 30, smCount=132,
            uuid=f"GPU-{number}", cuDevice=cuda,
        )  # fmt: skip
        if self.generation is not None:
            self.put("TARGET_INFO_CUDA_GPU", deviceId=ordinal, name=name, numMultiprocessors=132)

    def cuda_device(self, gpu: int | None, cuda: int, pid: int = PID) -> None:
        """Let the process see the board `gpu` as its device `cuda`."""
        self.put("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=cuda, pid=(pid >> 24) & 0xFFFFFF)

    def sampled_gpu(self, number: int = 0, *, peak: object = 10**11, cuda: int | None = None) -> None:
        """Add a GPU with its memory bandwidth (bytes/s); at 10**11, one percent for 1 ns is one byte."""
        columns = "id INTEGER, name TEXT, cuDevice INTEGER, memoryBandwidth INTEGER"
        self.row("TARGET_INFO_GPU", columns, (number, "NVIDIA H200", cuda, peak))

    def metric_names(self, names: Sequence[object] = METRICS, *, gpu: int = 0) -> None:
        """Names for metric ids 0, 1, ... of a GPU's samples."""
        columns = "typeId INTEGER, sourceId INTEGER, typeName TEXT, metricId INTEGER, metricName TEXT"
        for metric_id, name in enumerate(names):
            self.row("TARGET_INFO_GPU_METRICS", columns, (METRIC_TYPE | gpu, METRIC_TYPE, "", metric_id, name))

    def sample(self, at: object, values: Sequence[object], *, gpu: int = 0) -> None:
        """Add a row for each of metric ids 0, 1, ... at one time."""
        columns = "rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER, metricId INTEGER, value INTEGER"
        for metric_id, value in enumerate(values):
            self.row("GPU_METRICS", columns, (at, at, METRIC_TYPE | gpu, metric_id, value))

    def json_sample(self, at: object, data: str, *, gpu: int = 0) -> None:
        """Add a sample as older nsys versions export it."""
        columns = "rawTimestamp INTEGER, timestamp INTEGER, typeId INTEGER, data TEXT"
        self.row("GENERIC_EVENTS", columns, (at, at, METRIC_TYPE | gpu, data))

    def fact(self, name: str, value: str, table: str = "META_DATA_CAPTURE") -> None:
        if self.generation is None:
            self.row(table, "name TEXT, value TEXT", (name, value))
        else:
            self.put(table, name=name, value=value)

    def _put_what_every_export_has(self, generation: str, lazy: bool) -> None:
        if not lazy:
            for table, columns in schema(generation).items():
                if table != "StringIds":
                    self.tables[table] = (", ".join(f"{n} {constraints}" for n, constraints in columns.items()), [])
        self.put("ANALYSIS_DETAILS", duration=10**9, stopTime=10**9)
        for table, labels in LABELS.items():
            for number, label in labels.items():
                self.put(table, id=number, name=label, label=label)
        if generation in VERSIONS:
            table, product, version = VERSIONS[generation]
            self.fact("EXPORT_PRODUCT_VERSION", product, table)
            self.fact("EXPORT_SCHEMA_VERSION", version, table)

    def write(self, path: Path) -> Path:
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
            pairs: Iterable[tuple[int, str]] = [(number, value) for value, number in self.strings.items()]
            database.executemany("INSERT INTO StringIds VALUES (?, ?)", pairs)
            for table, (columns, rows) in self.tables.items():
                database.execute(f"CREATE TABLE {table} ({columns})")
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    database.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        database.close()
        return path


def _blank(constraints: str) -> object:
    """Return what a cell that nobody gave holds: NULL where it may."""
    if "NOT NULL" not in constraints or "PRIMARY KEY" in constraints:
        return None
    return "" if constraints.startswith("TEXT") else 0
