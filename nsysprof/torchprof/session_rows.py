"""Turn the events of one session of torch.profiler into rows of nsys' tables, and choose those that did the work."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from nsysprof.torchprof.kineto_events import GPU_CALLS, GPU_WORK, MEMORY, Event, int64

Row = dict[str, Any]
KERNEL, MEMCPY, MEMSET = (f"CUPTI_ACTIVITY_KIND_{kind}" for kind in ("KERNEL", "MEMCPY", "MEMSET"))
RUNTIME, NVTX, USAGE = "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "CUDA_GPU_MEMORY_USAGE_EVENTS"
_COPY_KINDS = {
    "HtoD": 1, "DtoH": 2, "HtoA": 3, "AtoH": 4, "AtoA": 5, "AtoD": 6, "DtoA": 7, "DtoD": 8, "HtoH": 9, "PtoP": 10,
}  # fmt: skip
# Torch names a copy `Memcpy HtoD (Pageable -> Device)`; the numbers are those of ENUM_CUDA_MEM_KIND.
_COPIED_MEMORY = re.compile(r"\(([A-Z][\w ]{0,20}) -> ([A-Z][\w ]{0,20})\)")
_MEMORY_KINDS = {
    "Pageable": 0, "Pinned": 1, "Device": 2, "Array": 3, "Managed": 4, "Device Static": 5, "Managed Static": 6,
}  # fmt: skip
_DEVICE_MEMORY = 2  # ENUM_CUDA_MEM_KIND: device
_DEVICE_TYPES = {"cpu": 0, "cuda": 1}  # c10::DeviceType
PID_MASK = ~0xFFFFFF
# Operators that move no data, and those that compute by themselves, whatever they call.
_VIEWS = {
    "alias", "as_strided", "as_strided_", "chunk", "detach", "detach_", "diagonal", "expand", "expand_as", "flatten",
    "lift_fresh", "movedim", "mT", "narrow", "numpy_T", "permute", "real", "reshape", "resize_", "resolve_conj",
    "resolve_neg", "select", "set_", "slice", "split", "split_with_sizes", "squeeze", "squeeze_", "swapaxes", "t",
    "t_", "transpose", "transpose_", "unbind", "unflatten", "unsafe_view", "_unsafe_view", "unsqueeze", "unsqueeze_",
    "view", "view_as", "_reshape_alias", "_conj", "to", "result_type", "is_nonzero", "item",
}  # fmt: skip
_ALLOCATIONS = {
    "empty",
    "empty_like",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "_local_scalar_dense",
}
_IDLE = _VIEWS | _ALLOCATIONS
_FILLS = {"fill_", "zero_"}
_WORKERS = {
    "_log_softmax", "_log_softmax_backward_data", "_softmax", "_softmax_backward_data", "add", "add_", "addmm",
    "baddbmm", "baddbmm_", "bmm", "div", "div_", "exp", "masked_fill_", "maximum", "mean", "mm", "mul", "mul_", "pow",
    "rsqrt", "sigmoid", "sub", "sub_", "sum", "tanh", "where",
}  # fmt: skip


class RowSink(Protocol):
    """Receives rows, and gives each text a number."""

    def add(self, table: str, row: Row) -> None: ...
    def add_range(self, event: Event, start_ns: int | None, end_ns: int | None) -> None: ...
    def string_id(self, text: str) -> int: ...


class SessionRows:
    """Turns the events of one session, in any order, into rows."""

    def __init__(
        self, tables: RowSink, device: str, shift_ns: int, correlation_base: int, earlier_memory: bool
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
        """Write what is known only at the end of the session: leaf operators, and the memory held before it."""
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
            RUNTIME,
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
            self._tables.add(KERNEL, {**row, **self._kernel_fields(event)})
        elif event.category == "gpu_memcpy":
            kind = next((number for word, number in _COPY_KINDS.items() if word in event.name), None)
            sides = _COPIED_MEMORY.search(event.name)
            source, target = (None, None) if sides is None else map(_MEMORY_KINDS.get, sides.groups())
            sizes: Row = {"bytes": int64(arguments.get("bytes")), "srcKind": source, "dstKind": target}
            self._tables.add(MEMCPY, {**row, **sizes, "copyKind": kind})
        else:
            self._tables.add(MEMSET, {**row, "bytes": int64(arguments.get("bytes"))})

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
            KERNEL,
            {
                **shared,
                "deviceId": 0,
                "contextId": 0,
                "streamId": stream,
                "globalPid": thread & PID_MASK,
                "demangledName": key,
                "shortName": key,
            },
        )
        call = {**shared, "eventClass": 0, "globalTid": thread, "nameId": key, "returnValue": 0}
        self._tables.add(RUNTIME, call)

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
            USAGE,
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


class EarlierMemory:
    """The memory that torch's allocator held before a session's first event.

    Totals show how much it was, and later frees show what it was.
    """

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


class Operator(NamedTuple):
    """One call of an operator. thread: a number that distinguishes threads."""

    name: str
    thread: int
    start_ns: int
    duration_ns: int


def select_leaves(operators: list[Operator]) -> list[Operator]:
    """Return the operators that did the work, the leaves, in order of start. Leaves of one thread never overlap.

    They are chosen by structure and never by time. Views and allocations move no data and are left out. An operator
    whose only children are views, allocations and fills is a leaf, and its time includes theirs. For example, torch's
    fused CPU attention transposes views inside the operator that does all the work. Some operators are known to compute
    by themselves, and are leaves whatever they call: `mul` by a Python number converts that number by a copy, which
    must not replace the multiplication.
    """
    leaves: list[Operator] = []
    by_thread: dict[int, list[Operator]] = {}
    for operator in operators:
        by_thread.setdefault(operator.thread, []).append(operator)
    for of_thread in by_thread.values():
        leaves += _thread_leaves(of_thread)
    return sorted(leaves, key=lambda operator: operator.start_ns)


def _thread_leaves(operators: list[Operator]) -> list[Operator]:
    ordered = sorted(operators, key=lambda operator: (operator.start_ns, -operator.duration_ns))
    parents = _parents(ordered)
    works = [_base_name(operator.name) not in _IDLE for operator in ordered]
    fills = [_base_name(operator.name) in _FILLS for operator in ordered]
    has_work = [False] * len(ordered)  # whether it has a descendant other than a view, an allocation or a fill
    for index in range(len(ordered) - 1, -1, -1):
        parent = parents[index]
        if parent >= 0 and (has_work[index] or (works[index] and not fills[index])):
            has_work[parent] = True
    leaves: list[Operator] = []
    inside_leaf = [False] * len(ordered)
    for index, operator in enumerate(ordered):
        parent = parents[index]
        inside_leaf[index] = parent >= 0 and inside_leaf[parent]
        leaf = works[index] and (not has_work[index] or _base_name(operator.name) in _WORKERS)
        if leaf and not inside_leaf[index]:
            leaves.append(operator)
            inside_leaf[index] = True
    return leaves


def _parents(ordered: list[Operator]) -> list[int]:
    """Return the index of each operator's innermost enclosing operator, or -1."""
    parents: list[int] = []
    stack: list[tuple[int, int]] = []
    for index, operator in enumerate(ordered):
        end = operator.start_ns + operator.duration_ns
        while stack and stack[-1][1] < end:
            stack.pop()
        parents.append(stack[-1][0] if stack else -1)
        stack.append((index, end))
    return parents


def _base_name(name: str) -> str:
    return name.removeprefix("aten::")
