"""Record a Python program from inside its own process with CUPTI (package cupti-python), at low cost.

It needs nothing else, because it runs in the program's own Python. NSYSPROF_CUPTI_FOLDER names the folder. A process
that imports a library for the GPU writes PROCESS.jsonl there: one event in Kineto's format per line. Events are written
every second, so that a process that is killed loses no more than that.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import threading
from collections.abc import Sequence
from typing import Any

from .watched_program.after_import import before_gpu_library
from .watched_program.process_file import process_path

FOLDER = "NSYSPROF_CUPTI_FOLDER"
_EVERY_S = 1.0
_BUFFER_BYTES = 4 << 20
# Calls that launch, copy, fill, wait or capture; others are so many that they would cost more than they tell.
_CALLS = ("Launch", "Memcpy", "Memset", "Synchronize", "Capture", "Graph")
_MARKER_BEGINS, _MARKER_ENDS = 2, 4
_COPIES = {
    1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA", 8: "DtoD", 9: "HtoH", 10: "PtoP",
}  # fmt: skip


class CuptiRecorder:
    """The activity of this process, as CUPTI reports it. cupti: the module of cupti-python."""

    def __init__(self, cupti: Any, folder: str) -> None:
        self._cupti = cupti
        self._process, self._path = os.getpid(), process_path(folder, ".jsonl")
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._names: dict[tuple[int, int], str] = {}
        self._open: dict[int, tuple[str, int]] = {}
        kinds = cupti.ActivityKind
        self._writers = {
            int(kinds.CONCURRENT_KERNEL): self._kernel,
            int(kinds.MEMCPY): self._copy,
            int(kinds.MEMSET): self._fill,
            int(kinds.RUNTIME): self._call,
            int(kinds.DRIVER): self._call,
            int(kinds.MARKER): self._marker,
        }

    def start(self) -> None:
        """Begin, and have what is there written again and again."""
        self._cupti.activity_register_callbacks(lambda: (_BUFFER_BYTES, 0), self.take)
        for kind in self._writers:
            self._cupti.activity_enable(kind)
        _lead_nvtx_here()
        atexit.register(self.stop)
        os.register_at_fork(after_in_child=self._over.set)
        threading.Thread(target=self._flush, name="nsysprof-cupti", daemon=True).start()

    def stop(self) -> None:
        """Write the rest."""
        if os.getpid() == self._process and not self._over.is_set():
            self._over.set()
            self._cupti.activity_flush_all(1)

    def take(self, activities: Sequence[Any]) -> None:
        """Write the records of a buffer of CUPTI's. They are gone once this returns."""
        if os.getpid() != self._process:
            return
        texts = (self._writers[int(record.kind)](record) for record in activities if int(record.kind) in self._writers)
        lines = "".join(text for text in texts if text)
        if lines:
            with self._lock, open(self._path, "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(lines)

    def _flush(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._cupti.activity_flush_all(0)  # what has not ended yet comes the next time

    def _kernel(self, record: Any) -> str:
        more = {
            "registers per thread": int(record.registers_per_thread),
            "grid": [int(record.grid_x), int(record.grid_y), int(record.grid_z)],
            "block": [int(record.block_x), int(record.block_y), int(record.block_z)],
            "graph node id": int(record.graph_node_id),
        }
        return self._work("kernel", demangle(str(record.name)), record, more)

    def _copy(self, record: Any) -> str:
        name = f"Memcpy {_COPIES.get(int(record.copy_kind), '')}".strip()
        return self._work("gpu_memcpy", name, record, {"bytes": int(record.bytes)})

    def _fill(self, record: Any) -> str:
        return self._work("gpu_memset", "Memset", record, {"bytes": int(record.bytes)})

    def _work(self, category: str, name: str, record: Any, more: dict[str, Any]) -> str:
        place = {"device": int(record.device_id), "context": int(record.context_id), "stream": int(record.stream_id)}
        arguments = {**place, "correlation": int(record.correlation_id), **more}
        return line(category, name, (place["device"], place["stream"]), int(record.start), int(record.end), arguments)

    def _call(self, record: Any) -> str:
        key = int(record.kind), int(record.cbid)
        if key not in self._names:
            domain = self._cupti.CallbackDomain
            is_driver = key[0] == int(self._cupti.ActivityKind.DRIVER)
            name = self._cupti.get_callback_name(domain.DRIVER_API if is_driver else domain.RUNTIME_API, key[1])
            self._names[key] = str(name) if any(word in str(name) for word in _CALLS) else ""
        name = self._names[key]
        if not name:
            return ""
        category = "cuda_driver" if key[0] == int(self._cupti.ActivityKind.DRIVER) else "cuda_runtime"
        thread = int(record.process_id), int(record.thread_id)
        return line(
            category, name, thread, int(record.start), int(record.end), {"correlation": int(record.correlation_id)}
        )

    def _marker(self, record: Any) -> str:
        """Return a range of NVTX once its end has come."""
        flags, number, at = int(record.flags_), int(record.id), int(record.timestamp)
        if flags & _MARKER_BEGINS:
            self._open[number] = (str(record.name), at)
        elif flags & _MARKER_ENDS and number in self._open:
            name, began = self._open.pop(number)
            return line("user_annotation", name, (self._process, _thread_of(record)), began, at, {})
        return ""


def line(category: str, name: str, place: tuple[int, int], start: int, end: int, arguments: dict[str, Any]) -> str:
    """Return an event as a line. place: device and stream, or process and thread. start, end: ns since 1970."""
    begin = f"{start // 1000}.{start % 1000:03d}"  # a float would lose the nanoseconds
    took = f"{(end - start) // 1000}.{(end - start) % 1000:03d}" if end >= start else "0"
    head = json.dumps({"ph": "X", "cat": category, "name": name, "pid": place[0], "tid": place[1], "args": arguments})
    return f'{head[:-1]}, "ts": {begin}, "dur": {took}}}\n'


@functools.lru_cache(maxsize=10_000)
def demangle(name: str) -> str:
    """Return a kernel's name as C++ writes it; CUPTI gives its symbol. Return a text that is not a symbol unchanged."""
    if not name.startswith("_Z"):
        return name
    try:
        read = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return name
    read.restype = ctypes.c_void_p
    status = ctypes.c_int()
    demangled = read(name.encode(), None, None, ctypes.byref(status))
    if not demangled:
        return name
    text = ctypes.string_at(demangled).decode(errors="replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(demangled))
    return text


def _thread_of(marker: Any) -> int:
    """Return the thread of a range, as far as this cupti-python tells it."""
    thread = getattr(getattr(marker.object_id, "pt", None), "thread_id", 0)
    return int(thread) & 0xFFFFFFFF


def _lead_nvtx_here() -> None:
    """Have the ranges of NVTX reported to the CUPTI that is loaded; NVTX asks for it at its first call."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
        libraries = [words[-1] for words in map(str.split, maps) if len(words) > 5 and "libcupti.so" in words[-1]]
    if libraries:
        os.environ["NVTX_INJECTION64_PATH"] = libraries[0]


def begin() -> None:
    """Record this process from when it wants a library of the GPU."""
    before_gpu_library("CUPTI activities", _start)


def _start() -> None:
    from cupti import cupti

    CuptiRecorder(cupti, os.environ[FOLDER]).start()
