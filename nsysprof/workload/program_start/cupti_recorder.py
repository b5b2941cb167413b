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
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any

FOLDER = "NSYSPROF_CUPTI_FOLDER"
_OF_GPU = ("torch", "cupy", "jax", "numba.cuda", "tensorflow", "pycuda")
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
        self._process = os.getpid()
        self._path = os.path.join(folder, f"{self._process}.jsonl")  # noqa: PTH118
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
        found = (self._writers[int(each.kind)](each) for each in activities if int(each.kind) in self._writers)
        lines = "".join(each for each in found if each)
        if lines:
            with self._lock, open(self._path, "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(lines)

    def _flush(self) -> None:
        while not self._over.wait(_EVERY_S):
            self._cupti.activity_flush_all(0)  # what has not ended yet comes the next time

    def _kernel(self, each: Any) -> str:
        more = {
            "registers per thread": int(each.registers_per_thread),
            "grid": [int(each.grid_x), int(each.grid_y), int(each.grid_z)],
            "block": [int(each.block_x), int(each.block_y), int(each.block_z)],
            "graph node id": int(each.graph_node_id),
        }
        return self._work("kernel", demangle(str(each.name)), each, more)

    def _copy(self, each: Any) -> str:
        name = f"Memcpy {_COPIES.get(int(each.copy_kind), '')}".strip()
        return self._work("gpu_memcpy", name, each, {"bytes": int(each.bytes)})

    def _fill(self, each: Any) -> str:
        return self._work("gpu_memset", "Memset", each, {"bytes": int(each.bytes)})

    def _work(self, category: str, name: str, each: Any, more: dict[str, Any]) -> str:
        place = {"device": int(each.device_id), "context": int(each.context_id), "stream": int(each.stream_id)}
        arguments = {**place, "correlation": int(each.correlation_id), **more}
        return line(category, name, (place["device"], place["stream"]), int(each.start), int(each.end), arguments)

    def _call(self, each: Any) -> str:
        key = int(each.kind), int(each.cbid)
        if key not in self._names:
            domain = self._cupti.CallbackDomain
            is_driver = key[0] == int(self._cupti.ActivityKind.DRIVER)
            name = self._cupti.get_callback_name(domain.DRIVER_API if is_driver else domain.RUNTIME_API, key[1])
            self._names[key] = str(name) if any(word in str(name) for word in _CALLS) else ""
        name = self._names[key]
        if not name:
            return ""
        category = "cuda_driver" if key[0] == int(self._cupti.ActivityKind.DRIVER) else "cuda_runtime"
        thread = int(each.process_id), int(each.thread_id)
        return line(category, name, thread, int(each.start), int(each.end), {"correlation": int(each.correlation_id)})

    def _marker(self, each: Any) -> str:
        """Return a range of NVTX once its end has come."""
        flags, number, at = int(each.flags_), int(each.id), int(each.timestamp)
        if flags & _MARKER_BEGINS:
            self._open[number] = (str(each.name), at)
        elif flags & _MARKER_ENDS and number in self._open:
            name, began = self._open.pop(number)
            return line("user_annotation", name, (self._process, _thread_of(each)), began, at, {})
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
    found = read(name.encode(), None, None, ctypes.byref(status))
    if not found:
        return name
    text = ctypes.string_at(found).decode(errors="replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(found))
    return text


def _thread_of(marker: Any) -> int:
    """Return the thread of a range, as far as this cupti-python tells it."""
    thread = getattr(getattr(marker.object_id, "pt", None), "thread_id", 0)
    return int(thread) & 0xFFFFFFFF


def _lead_nvtx_here() -> None:
    """Have the ranges of NVTX reported to the CUPTI that is loaded; NVTX asks for it at its first call."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123
        found = [words[-1] for words in map(str.split, maps) if len(words) > 5 and "libcupti.so" in words[-1]]
    if found:
        os.environ["NVTX_INJECTION64_PATH"] = found[0]


class _WatchImports:
    """A finder that leaves the search to others. It starts the recording when a library of the GPU is wanted."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        if name in _OF_GPU and self in sys.meta_path:
            sys.meta_path.remove(self)
            try:
                from cupti import cupti

                CuptiRecorder(cupti, os.environ[FOLDER]).start()
            except Exception as error:  # noqa: BLE001
                text = f"nsysprof: CUPTI does not record this process: {type(error).__name__}: {error}"
                print(text, file=sys.stderr)  # noqa: T201
        return None


def begin() -> None:
    """Record this process from when it imports a library of the GPU."""
    sys.meta_path.insert(0, _WatchImports())
