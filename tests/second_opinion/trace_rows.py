"""Read the rows of an nsys export as plain tuples, with names and boards resolved."""

from __future__ import annotations

import bisect
import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

PID = ~0xFFFFFF
# The range around the steps whose operators `capture --operators` recorded.
OPERATORS = "nsysprof operators"
# How ranges begin that a capture adds for modules, optimizers, compilers and Python's garbage collection.
ADDED = ("nsysprof forward ", "nsysprof backward", "nsysprof optimizer ", "nsysprof gc ", "nsysprof compile ",
         "nsysprof load")  # fmt: skip
STYLES = {59: "PushPop", 60: "StartEnd", 70: "PushPop", 71: "StartEnd"}
MIGRATIONS = (11, 12, 13)
_DEVICE_KINDS = (2, 3, 5)
_LAUNCH = re.compile(r"(cuda|cu)Launch(?!HostFunc)|cudaLaunchCooperative|(cuda|cu)GraphLaunch")
_REPLAY = re.compile(r"(cuda|cu)GraphLaunch")
_BEGIN, _END = re.compile(r"(cuda|cu)StreamBeginCapture"), re.compile(r"(cuda|cu)StreamEndCapture")
_TORCH = re.compile(r"(?P<name>.+?)(?P<more>(?:, (?:op_id|seq) = \d+|, (?:sizes|input_op_ids) = \[.*?\])+)")
_COPIES = {
    1: "Host-to-Device", 2: "Device-to-Host", 3: "Host-to-Array", 4: "Array-to-Host", 5: "Array-to-Array",
    6: "Array-to-Device", 7: "Device-to-Array", 8: "Device-to-Device", 9: "Host-to-Host", 10: "Peer-to-Peer",
    11: "Unified Host-to-Device", 12: "Unified Device-to-Host", 13: "Unified Device-to-Device",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel, copy, fill, migration or whole graph. call: the API call that asked for it, None where unknown."""

    kind: str
    start: int
    end: int
    pid: int
    board: int
    name: str
    bytes: int
    is_node: bool
    correlation: int | None
    call: Call | None

    @property
    def duration(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Call:
    """A CUDA API call."""

    start: int
    end: int
    tid: int
    correlation: int | None
    name: str
    failed: bool
    number: int


@dataclass(frozen=True, slots=True)
class Range:
    """An instance of an NVTX range; `number` is its row."""

    start: int
    end: int
    tid: int
    style: str
    name: str
    domain: str
    op_id: int | None
    seq: int | None
    number: int
    # The thread that ended it, where the trace says one.
    end_tid: int | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.name, self.style, self.domain


def _is_of_recording(name: str, start: int, tid: int, recorded: list[tuple[int, int, int]]) -> bool:
    """Return whether a recording of operators added a range, which is none of the program."""
    inside = any(low <= start < high and tid & PID == process for low, high, process in recorded)
    return name == OPERATORS or name.startswith(ADDED) or (", op_id = " in name and inside)


class TraceRows:
    """Everything that the figures are made of. backtraces: keep the rows that repeat a call for its backtrace."""

    def __init__(self, path: Path, *, backtraces: bool = False) -> None:
        self._backtraces = backtraces
        self._database = sqlite3.connect(path.resolve().as_uri() + "?mode=ro&immutable=1", uri=True)
        self._database.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
        self.strings: dict[int, str] = {}
        for number, text in self._rows("StringIds", "id, value"):
            self.strings.setdefault(number, str(text))
        self.calls_were_recorded = bool(self._rows("CUPTI_ACTIVITY_KIND_RUNTIME", "start LIMIT 1"))
        self.calls = list(self._calls())
        self.work = list(self._work())
        self.ranges = list(self._ranges())
        self.facts = self._rows("META_DATA_CAPTURE", "name, value")
        self.memory = self._memory()
        self._database.close()

    def _rows(self, table: str, columns: str) -> list[Any]:
        """Return the rows with NULL for every column that this export does not have; none without the table."""
        there = {name.lower() for _, name, *_ in self._database.execute(f"PRAGMA table_info({table})")}
        if not there:
            return []
        wanted = columns.removesuffix(" LIMIT 1").split(", ")
        cells = ", ".join(f'"{name}"' if name.lower() in there else "NULL" for name in wanted)
        limit = " LIMIT 1" if columns.endswith(" LIMIT 1") else ""
        return self._database.execute(f"SELECT {cells} FROM {table} NOT INDEXED{limit}").fetchall()

    # Boards: a process' ordinal leads to a board's id, and that to the ordinal on the machine.

    @cached_property
    def _boards(self) -> tuple[dict[tuple[int, int], int], dict[int, int]]:
        mapping = [row for row in self._rows("TARGET_INFO_CUDA_DEVICE", "gpuId, cudaId, pid") if None not in row]
        known = {}
        for number, device, ordinal, name in self._rows("TARGET_INFO_GPU", "id, deviceId, cuDevice, name") or [
            (None, device, None, "") for (device,) in self._rows("TARGET_INFO_CUDA_GPU", "deviceId")
        ]:
            key = device if number is None else number
            if "Basic Render" in str(name):
                continue
            seen = [cuda for gpu, cuda, _ in mapping if gpu == key]
            known[key] = next(each for each in (ordinal, *seen[:1], device, key) if each is not None)
        if len(set(known.values())) < len(known):
            known = {key: key for key in known}
        return {(pid, cuda): gpu for gpu, cuda, pid in mapping}, known

    def board(self, pid: int, ordinal: int) -> int:
        """Return the number on the machine of what a process calls `ordinal`."""
        by_process, known = self._boards
        gpu = by_process.get(((pid >> 24) & 0xFFFFFF, ordinal))
        return known.get(gpu, ordinal) if gpu is not None else ordinal

    def _text(self, number: int | None) -> str:
        return "" if number is None else self.strings.get(number, f"<string {number}>")

    def _calls(self) -> Iterator[Call]:
        columns = "start, end, eventClass, globalTid, correlationId, nameId, returnValue"
        for number, (start, end, kind, tid, correlation, name, result) in enumerate(
            self._rows("CUPTI_ACTIVITY_KIND_RUNTIME", columns)
        ):
            if (kind != 67 or self._backtraces) and is_possible(start, end):  # 67: a backtrace
                yield Call(start, end, tid, correlation or None, self._text(name), bool(result), number)

    def _work(self) -> Iterator[Work]:
        first: dict[tuple[int, int], Call] = {}
        for call in sorted(self.calls, key=lambda call: (call.start, call.number)):
            if call.correlation is not None:
                first.setdefault((call.tid & PID, call.correlation), call)
        times = "start, end, deviceId, correlationId, globalPid"
        tables = {
            "kernel": ("KERNEL", "demangledName, shortName, graphNodeId"),
            "copy": ("MEMCPY", "bytes, copyKind, graphNodeId"),
            "fill": ("MEMSET", "bytes, value, graphNodeId"),
            "graph": ("GRAPH_TRACE", "graphId, graphExecId, x"),
        }
        for kind, (table, more) in tables.items():
            for row in self._rows(f"CUPTI_ACTIVITY_KIND_{table}", f"{times}, {more}"):
                start, end, device, correlation, pid, one, two, node = row
                if not is_possible(start, end):
                    continue
                which = "migration" if kind == "copy" and two in MIGRATIONS else kind
                name = {
                    "kernel": lambda: self._text(two if one is None else one),  # noqa: B023
                    "copy": lambda: copy_name(two),  # noqa: B023
                    "fill": lambda: "[CUDA memset]",
                    "graph": lambda: "[CUDA graph]" if one is None else f"[CUDA graph {one}]",  # noqa: B023
                }[kind]()
                size = one if kind in ("copy", "fill") and one is not None and one >= 0 else 0
                call = first.get((pid, correlation)) if correlation else None
                yield Work(
                    which, start, end, pid, self.board(pid, device), name, size, bool(node), correlation or None, call
                )

    def _ranges(self) -> Iterator[Range]:
        columns = "start, end, globalTid, eventType, text, textId, domainId, endGlobalTid"
        rows = self._rows("NVTX_EVENTS", columns)

        def name_of(text: str | None, number: int | None) -> str:
            return text if text is not None else self.strings.get(number, "") if number is not None else ""

        domains = {
            (tid & PID, domain): name_of(text, number)
            for _, _, tid, kind, text, number, domain, _ in rows
            if kind == 75
        }
        known = [
            time for start, end, _, kind, *_ in rows if kind in STYLES for time in (start, end) if time is not None
        ]
        recorded = [
            (start, end, tid & PID)
            for start, end, tid, _, text, number, *_ in rows
            if name_of(text, number) == OPERATORS and end is not None
        ]
        last = max([*known, *(each.end for each in self.work), *(call.end for call in self.calls)], default=0)
        for number, (start, end, tid, kind, text, text_id, domain, end_tid) in enumerate(rows):
            if kind not in STYLES or start is None or (end is not None and end < start):
                continue
            if _is_of_recording(name_of(text, text_id), start, tid, recorded):
                continue
            name, op_id, seq = without_numbers(name_of(text, text_id))
            plain = "" if domain in (0, None) else f"domain {domain}"
            whose = domains.get((tid & PID, domain), plain)
            yield Range(
                start, last if end is None else end, tid, STYLES[kind], name, whose, op_id, seq, number, end_tid
            )

    # Calls by what they do.

    @cached_property
    def launches(self) -> set[int]:
        """The numbers of calls that launched kernels or graphs, by their names or by what the GPU did."""
        windows: dict[int, list[tuple[int, int]]] = defaultdict(list)
        begun: dict[int, list[int]] = defaultdict(list)
        for call in sorted(self.calls, key=lambda call: (call.start, call.number)):
            if _BEGIN.match(call.name) and not call.failed:
                begun[call.tid].append(call.start)
            elif _END.match(call.name) and begun[call.tid]:
                windows[call.tid & PID].append((begun[call.tid].pop(), call.end))
        found = {each.call.number for each in self.work if each.call is not None and each.kind in ("kernel", "graph")}
        for call in self.calls:
            captured = any(low <= call.start and call.end <= high for low, high in windows[call.tid & PID])
            if _LAUNCH.match(call.name) and not call.failed and not captured:
                found.add(call.number)
        return found

    @cached_property
    def replays(self) -> set[int]:
        """The numbers of the launches that replayed a graph."""
        return {call.number for call in self.calls if call.number in self.launches and _REPLAY.match(call.name)}

    @cached_property
    def silent(self) -> set[int]:
        """The numbers of replays that leave no record, because this recording has none of graphs."""
        by_node = any(name.endswith("CUDA_GRAPH_TRACE_OPTIONS:MODE") and value == "Node" for name, value in self.facts)
        if by_node or any(each.kind == "graph" or each.is_node for each in self.work):
            return set()
        with_work = {each.call.number for each in self.work if each.call is not None}
        return self.replays - with_work

    @cached_property
    def lost(self) -> set[int]:
        """Return the numbers of the launches whose work is not in the trace."""
        with_work = {each.call.number for each in self.work if each.call is not None}
        recorded = any(each.kind in ("kernel", "graph") for each in self.work)
        return self.launches - with_work - (self.silent if recorded else set())

    # Memory.

    def _memory(self) -> list[tuple[int, int, int, int]] | None:
        """Return (time, process, board, change in bytes) in order of time; None where nothing was recorded."""
        usage = "start, globalPid, deviceId, address, bytes, memKind, memoryOperationType"
        pool = "localMemoryPoolAddress, localMemoryPoolSize, importedMemoryPoolAddress"
        rows = self._rows("CUDA_GPU_MEMORY_USAGE_EVENTS", f"{usage}, {pool}")
        if not rows:
            return None
        for start, pid, device, address, kind, size in self._rows(
            "CUDA_GPU_MEMORY_POOL_EVENTS", "start, globalPid, deviceId, address, operationType, localMemoryPoolSize"
        ):
            rows.append((start, pid, device, None, 0, 2, 2, address, 0 if kind == 2 else size, None))
        direct, pools = [], []
        held: dict[tuple[int, int], tuple[int, int] | None] = {}
        sizes: dict[tuple[int, int, int], int] = {}
        for start, pid, device, address, size, kind, operation, pool_at, pool_size, imported in sorted(
            rows, key=lambda row: row[0]
        ):
            if (
                imported is not None
                or kind not in _DEVICE_KINDS
                or device is None
                or (address is None and pool_size is None)
            ):
                continue
            board = self.board(pid, device)
            if pool_at is not None and pool_size is not None:
                before = sizes.get((pid, board, pool_at), 0)
                sizes[pid, board, pool_at] = pool_size
                pools.append((start, pid, board, pool_size - before))
            elif operation == 0:
                old = held.get((pid, address))
                held[pid, address] = size, board
                direct.append((start, pid, board, size - (old[0] if old is not None and old[1] == board else 0)))
            elif operation == 1 and held.get((pid, address)) is not None:
                gone = held.pop((pid, address))
                direct.append((start, pid, gone[1], -gone[0]))
        events = sorted([*direct, *pools], key=lambda event: event[0])
        # What a process still holds at its last call is given back there.
        left: dict[tuple[int, int], int] = defaultdict(int)
        last: dict[int, int] = {}
        for time, pid, board, change in events:
            left[pid, board] += change
            last[pid] = max(last.get(pid, time), time)
        for call in self.calls:
            pid = call.tid & PID
            if pid in last:
                last[pid] = max(last[pid], call.end)
        events += [(last[pid] + 1, pid, board, -size) for (pid, board), size in left.items() if size > 0]
        return sorted(events, key=lambda event: event[0])


class Enclosed:
    """What ranges enclose: the calls of their own thread, or of all threads of their process for start/end ranges."""

    def __init__(self, calls: list[Call]) -> None:
        self._by_owner: dict[tuple[str, int], list[Call]] = defaultdict(list)
        for call in sorted(calls, key=lambda call: (call.start, call.number)):
            self._by_owner["PushPop", call.tid].append(call)
            self._by_owner["StartEnd", call.tid & PID].append(call)
        self._starts = {owner: [call.start for call in of_owner] for owner, of_owner in self._by_owner.items()}

    def of(self, each: Range) -> list[Call]:
        """Return the calls that begin and end inside the range."""
        return self._of(each, each.style)

    def of_thread(self, each: Range) -> list[Call]:
        """Return those of the range's own thread, whatever its style."""
        return self._of(each, "PushPop")

    def _of(self, each: Range, style: str) -> list[Call]:
        owner = style, each.tid if style == "PushPop" else each.tid & PID
        starts = self._starts.get(owner, [])
        low, high = bisect.bisect_left(starts, each.start), bisect.bisect_right(starts, each.end)
        return [call for call in self._by_owner.get(owner, ())[low:high] if call.end <= each.end]


def is_possible(start: int | None, end: int | None) -> bool:
    """Return whether a program can have caused these times; CUPTI writes 0 and 0 for what it could not time."""
    return start is not None and end is not None and end >= start and (start, end) != (0, 0)


def copy_name(kind: int | None) -> str:
    """Return what nsys stats calls a copy of a kind."""
    if kind is None:
        return "[CUDA memcpy of unknown kind]"
    return f"[CUDA memcpy {_COPIES.get(kind, f'kind {kind}')}]"


def without_numbers(name: str) -> tuple[str, int | None, int | None]:
    """Return the name without what torch's emit_nvtx appends, and its op_id and seq."""
    found = _TORCH.fullmatch(name) if ", op_id = " in name or ", seq = " in name else None
    if found is None:
        return name, None, None
    numbers = dict(re.findall(r", (op_id|seq) = (\d+)", found["more"]))
    op_id, seq = (int(numbers[key]) if key in numbers else None for key in ("op_id", "seq"))
    return found["name"], op_id, seq


def union(spans: list[tuple[int, int]]) -> int:
    """Return how long at least one of the spans lasts."""
    total, reached = 0, None
    for start, end in sorted(spans):
        if reached is None or start > reached:
            total, reached = total + end - start, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total
