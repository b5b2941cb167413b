"""Write what torch's profiler recorded as a SQLite file with the tables and columns of nsys.

On a GPU these are kernels, copies, fills, API calls and the events of torch's allocator. With a CPU alone, a row of the
kernel table is a leaf operator on the device `cpu`, and META_DATA_CAPTURE's NSYSPROF:WORK_KIND says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from nsysprof.files.written_by import VERSION
from nsysprof.torchprof.kineto_events import GPU_CALLS, GPU_WORK, MEMORY, Event, int64
from nsysprof.torchprof.leaf_operators import Operator, select_leaves

Row = dict[str, Any]

_WORK = "start end deviceId contextId streamId correlationId globalPid "
_KERNEL, _MEMCPY, _MEMSET = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
_RUNTIME, _NVTX, _USAGE = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "CUDA_GPU_MEMORY_USAGE_EVENTS"
# All columns are integers except name, value and text.
_COLUMNS: dict[str, str] = {
    "StringIds": "id value",
    "META_DATA_CAPTURE": "name value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    "TARGET_INFO_GPU": "id name totalMemory smCount cuDevice computeMajor computeMinor",
    _KERNEL: _WORK + "demangledName shortName registersPerThread gridX gridY gridZ blockX blockY blockZ graphNodeId",
    _MEMCPY: _WORK + "bytes copyKind",
    _MEMSET: _WORK + "bytes",
    _RUNTIME: "start end eventClass globalTid correlationId nameId returnValue",
    _NVTX: "start end eventType rangeId text globalTid endGlobalTid textId domainId",
    _USAGE: "start globalPid deviceId contextId address bytes memKind memoryOperationType",
}
_TEXTS = ("name", "value", "text")

_PUSH_POP, _START_END = 59, 60
_COPY_KINDS = {
    "HtoD": 1, "DtoH": 2, "HtoA": 3, "AtoH": 4, "AtoA": 5, "AtoD": 6, "DtoA": 7, "DtoD": 8, "HtoH": 9, "PtoP": 10,
}  # fmt: skip
_DEVICE_MEMORY = 2  # ENUM_CUDA_MEM_KIND: device
_DEVICE_TYPES = {"cpu": 0, "cuda": 1}  # c10::DeviceType
_BATCH_ROWS = 20_000
_PID_MASK = ~0xFFFFFF


class TorchTables:
    """A trace to which one profiled session after another is appended. Several processes may do so in turn.

    device: "cuda", or "cpu" to make rows of work from operators.
    """

    def __init__(self, path: Path, device: str) -> None:
        """Open the file, or create it. Raises sqlite3.Error."""
        self._device = device
        self._database = sqlite3.connect(path)
        self._rows: dict[str, list[Row]] = {table: [] for table in _COLUMNS}
        for table, columns in _COLUMNS.items():
            typed = ", ".join(f"{name} {'TEXT' if name in _TEXTS else 'INTEGER'}" for name in columns.split())
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({typed})")
        self._strings = {text: key for key, text in self._database.execute("SELECT id, value FROM StringIds")}

    def close(self) -> None:
        self._database.close()

    def describe(self, origin_ns: int, devices: Iterable[Mapping[str, Any]], tool_version: str | None) -> None:
        """Write what the trace is.

        origin_ns: its time zero (ns since 1970, UTC).
        devices: rows of TARGET_INFO_GPU.
        """
        facts = {
            "NSYSPROF:VERSION": VERSION,
            "NSYSPROF:TOOL": "torch",
            "NSYSPROF:TOOL_VERSION": tool_version,
            "NSYSPROF:WORK_KIND": "kernel" if self._device == "cuda" else "operator",
            "NSYSPROF:MEMORY_KIND": "allocator",
        }
        self._rows["META_DATA_CAPTURE"] += [{"name": name, "value": value} for name, value in facts.items() if value]
        self._rows["TARGET_INFO_SESSION_START_TIME"].append({"utcEpochNs": origin_ns})
        self._rows["TARGET_INFO_GPU"] += [dict(device) for device in devices]
        if self._device == "cpu":
            self._rows["TARGET_INFO_GPU"].append({"id": 0, "name": "cpu", "cuDevice": 0})
        self._flush()

    def announce(self, start_ns: int, end_ns: int, thread: int) -> None:
        """Add the range with this tool's name and version. Each of our traces begins with it."""
        self._add_range(f"nsysprof {VERSION}", start_ns, end_ns, thread, _START_END)
        self._flush()

    @property
    def origin_ns(self) -> int | None:
        """Return the time zero (ns since 1970, UTC) that `describe` was given, or None before that."""
        row = self._database.execute("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME").fetchone()
        return None if row is None else int(row[0])

    def append(self, events: Iterable[Event], shift_ns: int, *, earlier_memory: bool = False) -> int:
        """Write the events of one session, and return how many rows they became. Raises sqlite3.Error.

        shift_ns: what to add to the events' times to get times of the trace.
        earlier_memory: whether to count memory that was allocated before the session, from the allocator's totals.
        """
        session = _Session(self, self._device, shift_ns, self._largest_correlation(), earlier_memory)
        for event in events:
            session.add(event)
        session.finish()
        self._flush()
        self._place_work(session.processes)
        self._database.commit()
        return session.rows

    def _largest_correlation(self) -> int:
        ((largest,),) = self._database.execute(f"SELECT max(correlationId) FROM {_RUNTIME}")
        return int(largest or 0)

    def add(self, table: str, row: Row) -> None:
        rows = self._rows[table]
        rows.append(row)
        if len(rows) >= _BATCH_ROWS:
            self._flush()

    def add_range(self, event: Event, start_ns: int | None, end_ns: int | None) -> None:
        """Add a range twice, as our NVTX annotation does: for the process, and as push/pop on its thread."""
        for kind in (_START_END, _PUSH_POP):
            self._add_range(event.name, start_ns, end_ns, global_tid(event.pid, event.tid), kind)

    def _add_range(self, name: str, start_ns: int | None, end_ns: int | None, thread: int, kind: int) -> None:
        self.add(
            _NVTX,
            {
                "start": start_ns,
                "end": end_ns,
                "eventType": kind,
                "globalTid": thread,
                "endGlobalTid": thread if kind == _START_END else None,
                "textId": self.string_id(name),
                "domainId": 0,
            },
        )

    def string_id(self, text: str) -> int:
        number = self._strings.get(text)
        if number is None:
            number = self._strings[text] = len(self._strings) + 1
            self.add("StringIds", {"id": number, "value": text})
        return number

    def _flush(self) -> None:
        for table, rows in self._rows.items():
            names = _COLUMNS[table].split()
            marks = ", ".join("?" * len(names))
            values = ([row.get(name) for name in names] for row in rows)
            self._database.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
            rows.clear()
        self._database.commit()

    def _place_work(self, processes: set[int]) -> None:
        """Give GPU work its process, which its events do not name: the only one, or the launching call's process."""
        if len(processes) == 1:
            self._place("SELECT ?", tuple(processes), "globalPid IS NULL")
            return
        # Correlation ids are unique within a process only. Where two processes use the same one, the owner is unknown.
        self._database.execute(
            "CREATE TEMP TABLE caller AS SELECT correlationId AS id, min(globalTid) & ? AS pid "
            f"FROM {_RUNTIME} GROUP BY correlationId HAVING min(globalTid) & ? = max(globalTid) & ?",
            (_PID_MASK, _PID_MASK, _PID_MASK),
        )
        self._database.execute("CREATE INDEX temp.caller_id ON caller (id)")
        self._place("SELECT pid FROM caller WHERE id = correlationId", (), "globalPid IS NULL")
        self._database.execute("DROP TABLE caller")

    def _place(self, pid: str, values: tuple[int, ...], condition: str) -> None:
        for table in (_KERNEL, _MEMCPY, _MEMSET):
            self._database.execute(f"UPDATE {table} SET globalPid = ({pid}) WHERE {condition}", values)


class _Session:
    """Turns the events of one session, in any order, into rows."""

    def __init__(
        self, tables: TorchTables, device: str, shift_ns: int, correlation_base: int, earlier_memory: bool
    ) -> None:
        self._tables = tables
        self._device = device
        self._shift_ns = shift_ns
        self._correlation_base = correlation_base
        self._operators: list[Operator] = []
        self._names: dict[str, str] = {}
        self._earlier = EarlierMemory() if earlier_memory else None
        self.processes: set[int] = set()
        self.rows = 0

    def add(self, event: Event) -> None:
        if event.category == MEMORY:
            self._add_memory(event)
            return
        if event.category not in GPU_WORK:
            self.processes.add(global_tid(event.pid, 0))
        if event.category == "user_annotation":
            self.rows += 1
            self._tables.add_range(event, *self._times(event))
        elif event.category == "cpu_op":
            if self._device == "cpu":
                self._keep_operator(event)
        elif self._device == "cuda":
            self.rows += 1
            if event.category in GPU_CALLS:
                self._add_call(event)
            else:
                self._add_work(event)

    def finish(self) -> None:
        """Write what only the whole session shows: which operators are leaves, and how much memory was held before."""
        self._add_operators()
        for (pid, device), size in self._earlier.left().items() if self._earlier else ():
            # No allocator returns these addresses.
            self._add_usage(min(0, self._shift_ns), pid, device, -1 - device, size, 0)

    def _times(self, event: Event) -> tuple[int | None, int | None]:
        start, end = (None if time is None else int64(time + self._shift_ns) for time in (event.start_ns, event.end_ns))
        return start, end

    def _correlation(self, event: Event) -> int | None:
        number = int64(event.arguments.get("correlation"))
        return None if number is None or number <= 0 else int64(self._correlation_base + number)

    def _add_call(self, event: Event) -> None:
        start, end = self._times(event)
        self._tables.add(
            _RUNTIME,
            {
                "start": start,
                "end": end,
                "eventClass": 0 if event.category == "cuda_runtime" else 1,
                "globalTid": global_tid(event.pid, event.tid),
                "correlationId": self._correlation(event),
                "nameId": self._tables.string_id(event.name),
                "returnValue": 0,
            },
        )

    def _add_work(self, event: Event) -> None:
        start, end = self._times(event)
        arguments = event.arguments
        # A copy between two devices names each of them three times; the device `in` is where the copy ran.
        device = first(arguments.get("device"), arguments.get("inDevice"), event.pid, 0)
        row: Row = {
            "start": start,
            "end": end,
            "deviceId": device,
            "contextId": first(arguments.get("context"), arguments.get("inContext"), 0),
            "streamId": first(arguments.get("stream"), event.tid, 0),
            "correlationId": self._correlation(event),
        }
        if event.category == "kernel":
            self._tables.add(_KERNEL, {**row, **self._kernel_fields(event)})
        elif event.category == "gpu_memcpy":
            kind = next((number for word, number in _COPY_KINDS.items() if word in event.name), None)
            self._tables.add(_MEMCPY, {**row, "bytes": int64(arguments.get("bytes")), "copyKind": kind})
        else:
            self._tables.add(_MEMSET, {**row, "bytes": int64(arguments.get("bytes"))})

    def _kernel_fields(self, event: Event) -> Row:
        arguments = event.arguments
        return {
            "demangledName": self._tables.string_id(event.name),
            "shortName": self._tables.string_id(short_name(event.name)),
            "registersPerThread": int64(arguments.get("registers per thread")),
            # Zero means a kernel outside graphs.
            "graphNodeId": int64(arguments.get("graph node id")) or None,
            **_axes("grid", arguments.get("grid")),
            **_axes("block", arguments.get("block")),
        }

    def _keep_operator(self, event: Event) -> None:
        """Keep only a few fields of an operator: there are millions, and their arguments are shapes and strides."""
        self.rows += 1
        start, end = self._times(event)
        thread = global_tid(event.pid, event.tid)
        name = self._names.setdefault(event.name, event.name)
        if start is None or end is None or end < start:
            self._add_operator(name, thread, 0, start, end, None)  # the reader counts it as an impossible time
        else:
            self._operators.append(Operator(name, thread, start, end - start))

    def _add_operators(self) -> None:
        """Add each leaf operator as its own launch: one row of work and one API call, tied by a correlation id."""
        threads = {thread: index for index, thread in enumerate(dict.fromkeys(o.thread for o in self._operators))}
        for number, leaf in enumerate(select_leaves(self._operators), start=self._correlation_base + 1):
            end = leaf.start_ns + leaf.duration_ns
            self._add_operator(leaf.name, leaf.thread, threads[leaf.thread], leaf.start_ns, end, number)

    def _add_operator(
        self, name: str, thread: int, stream: int, start: int | None, end: int | None, correlation: int | None
    ) -> None:
        key = self._tables.string_id(name)
        shared = {"start": start, "end": end, "correlationId": correlation}
        self._tables.add(
            _KERNEL,
            {
                **shared,
                "deviceId": 0,
                "contextId": 0,
                "streamId": stream,
                "globalPid": thread & _PID_MASK,
                "demangledName": key,
                "shortName": key,
            },
        )
        call = {**shared, "eventClass": 0, "globalTid": thread, "nameId": key, "returnValue": 0}
        self._tables.add(_RUNTIME, call)

    def _add_memory(self, event: Event) -> None:
        arguments = event.arguments
        if int64(arguments.get("Device Type")) != _DEVICE_TYPES[self._device]:
            return
        self.rows += 1
        start, _ = self._times(event)
        pid = global_tid(event.pid, 0)
        device = max(0, first(arguments.get("Device Id"), 0))
        address, size = int64(arguments.get("Addr")), int64(arguments.get("Bytes"))
        operation = 0 if size is None or size > 0 else 1
        if self._earlier and address is not None and size is not None:
            total = int64(arguments.get("Total Allocated"))
            if self._earlier.see((pid, device), address, size, total):
                self._add_usage(min(0, start or 0), pid, device, address, -size, 0)
        self._add_usage(start, pid, device, address, None if size is None else abs(size), operation)

    def _add_usage(
        self, start: int | None, pid: int, device: int, address: int | None, size: int | None, operation: int
    ) -> None:
        self._tables.add(
            _USAGE,
            {
                "start": start,
                "globalPid": pid,
                "deviceId": device,
                "contextId": 0,
                "address": address,
                "bytes": size,
                "memKind": _DEVICE_MEMORY,
                "memoryOperationType": operation,
            },
        )


class EarlierMemory:
    """What torch's allocator held before a session's first event: totals tell how much, and later frees tell what."""

    def __init__(self) -> None:
        self._live: dict[tuple[int, int], set[int]] = {}
        self._held: dict[tuple[int, int], int] = {}

    def see(self, device: tuple[int, int], address: int, size: int, total: int | None) -> bool:
        """Return whether this event frees memory from before the session. Events must come in order of time.

        device: its process and number.
        size: bytes; negative for a free.
        total: the bytes that the allocator held after the event.
        """
        live = self._live.setdefault(device, set())
        self._held.setdefault(device, 0 if total is None else max(0, total - size))
        if size > 0:
            live.add(address)
            return False
        if address in live:
            live.remove(address)
            return False
        self._held[device] += size
        return True

    def left(self) -> dict[tuple[int, int], int]:
        """Return the bytes, by device, that were held before the session and not freed in it."""
        return {device: size for device, size in self._held.items() if size > 0}


def first(*values: object) -> int:
    """Return the first value that is a whole number of 64 bits. The last value must be one."""
    return next(number for number in map(int64, values) if number is not None)


def _axes(name: str, sizes: object) -> Row:
    if not isinstance(sizes, list) or len(sizes) != 3:
        return {}
    return {f"{name}{axis}": int64(size) for axis, size in zip("XYZ", sizes, strict=True)}


def global_tid(pid: int, tid: int) -> int:
    """Return nsys' serialized thread id, <HW:8><VM:8><PID:24><TID:24>. With a tid of zero it is the global pid."""
    return (1 << 48) | ((pid & 0xFFFFFF) << 24) | (tid & 0xFFFFFF)


@lru_cache(maxsize=10_000)
def short_name(name: str) -> str:
    """Return a kernel's base name: without return type, namespaces, template arguments and parameters."""
    head = name.replace("(anonymous namespace)", "anonymous").split("(", maxsplit=1)[0]
    depth, kept = 0, []
    for char in head:
        depth += (char == "<") - (char == ">")
        if depth == 0 and char != ">":
            kept.append(char)
    return "".join(kept).split("::")[-1].split(" ")[-1].strip() or name
