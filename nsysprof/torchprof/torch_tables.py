"""Write what torch's profiler recorded as a SQLite file with the tables and columns of nsys.

On a GPU these are kernels, copies, fills, API calls and the events of torch's allocator. With a CPU alone, a row of the
kernel table is a leaf operator on the device `cpu`, and META_DATA_CAPTURE's NSYSPROF:WORK_KIND says so.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nsysprof.torchprof.kineto_events import Event
from nsysprof.torchprof.session_rows import (
    KERNEL,
    MEMCPY,
    MEMSET,
    NVTX,
    PID_MASK,
    RUNTIME,
    USAGE,
    Row,
    SessionRows,
    global_tid,
)  # fmt: skip

_WORK = "start end deviceId contextId streamId correlationId globalPid "
# All columns are integers except name, value and text.
_COLUMNS: dict[str, str] = {
    "StringIds": "id value",
    "META_DATA_CAPTURE": "name value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs",
    "TARGET_INFO_GPU": "id name totalMemory smCount cuDevice computeMajor computeMinor",
    KERNEL: _WORK + "demangledName shortName registersPerThread gridX gridY gridZ blockX blockY blockZ graphNodeId",
    MEMCPY: _WORK + "bytes copyKind srcKind dstKind",
    MEMSET: _WORK + "bytes",
    RUNTIME: "start end eventClass globalTid correlationId nameId returnValue",
    NVTX: "start end eventType rangeId text globalTid endGlobalTid textId domainId",
    USAGE: "start globalPid deviceId contextId address bytes memKind memoryOperationType",
}
_TEXTS = ("name", "value", "text")

_PUSH_POP, _START_END = 59, 60
_BATCH_ROWS = 20_000


class TorchTables:
    """A trace to which one profiled session after another is appended. Several processes may do so in turn.

    device: "cuda", or "cpu" to make rows of work from operators.
    written_by: the version of nsysprof, which the trace names.
    """

    def __init__(self, path: Path, device: str, written_by: str) -> None:
        """Open the file, or create it. Raises sqlite3.Error."""
        self._device, self._written_by = device, written_by
        self._database = sqlite3.connect(path)
        self._rows: dict[str, list[Row]] = {table: [] for table in _COLUMNS}
        for table, columns in _COLUMNS.items():
            typed = ", ".join(f"{name} {'TEXT' if name in _TEXTS else 'INTEGER'}" for name in columns.split())
            self._database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({typed})")
        self._strings = {text: key for key, text in self._database.execute("SELECT id, value FROM StringIds")}

    def close(self) -> None:
        self._database.close()

    def describe(
        self,
        origin_ns: int,
        devices: Iterable[Mapping[str, Any]],
        tool_version: str | None,
        *,
        memory_kind: str = "allocator",
    ) -> None:
        """Write the trace's metadata.

        origin_ns: its time zero (ns since 1970, UTC).
        devices: rows of TARGET_INFO_GPU.
        memory_kind: what allocated the memory: "allocator", or "driver" in a file that was exported from another trace.
        """
        facts = {
            "NSYSPROF:VERSION": self._written_by,
            "NSYSPROF:TOOL": "torch",
            "NSYSPROF:TOOL_VERSION": tool_version,
            "NSYSPROF:WORK_KIND": "kernel" if self._device == "cuda" else "operator",
            "NSYSPROF:MEMORY_KIND": memory_kind,
        }
        self._rows["META_DATA_CAPTURE"] += [{"name": name, "value": value} for name, value in facts.items() if value]
        self._rows["TARGET_INFO_SESSION_START_TIME"].append({"utcEpochNs": origin_ns})
        self._rows["TARGET_INFO_GPU"] += [dict(device) for device in devices]
        if self._device == "cpu":
            self._rows["TARGET_INFO_GPU"].append({"id": 0, "name": "cpu", "cuDevice": 0})
        self._flush()

    def announce(self, start_ns: int, end_ns: int, thread: int) -> None:
        """Add the range with this tool's name and version. Each of our traces begins with it."""
        self._add_range(f"nsysprof {self._written_by}", start_ns, end_ns, thread, _START_END)
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
        session = SessionRows(self, self._device, shift_ns, self._largest_correlation(), earlier_memory)
        for event in events:
            session.add(event)
        session.finish()
        self._flush()
        self._place_work(session.processes)
        self._database.commit()
        return session.rows

    def _largest_correlation(self) -> int:
        ((largest,),) = self._database.execute(f"SELECT max(correlationId) FROM {RUNTIME}")
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
            NVTX,
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
            f"FROM {RUNTIME} GROUP BY correlationId HAVING min(globalTid) & ? = max(globalTid) & ?",
            (PID_MASK, PID_MASK, PID_MASK),
        )
        self._database.execute("CREATE INDEX temp.caller_id ON caller (id)")
        self._place("SELECT pid FROM caller WHERE id = correlationId", (), "globalPid IS NULL")
        self._database.execute("DROP TABLE caller")

    def _place(self, pid: str, values: tuple[int, ...], condition: str) -> None:
        for table in (KERNEL, MEMCPY, MEMSET):
            self._database.execute(f"UPDATE {table} SET globalPid = ({pid}) WHERE {condition}", values)
