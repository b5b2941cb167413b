"""Watch a program from outside while it runs: which of its processes use CUDA, and how long its GPUs work."""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from nsysprof.results.checks.recording_check import CudaProcess, WatchedGpu

# A variable that every process of the program inherits; its value tells one capture from another.
MARK = "NSYSPROF_WATCHED"
_PROC = Path("/proc")
_OFTEN_S, _SELDOM_S, _AT_FIRST_S = 0.25, 1.0, 10.0
# The driver starts threads of these names with a process's first context. A forked process does not inherit threads.
_CUDA_THREAD = re.compile(r"cuda(-EvtHandlr|[0-9a-f]{8})")
_OWN_TOOLS = ("nsys", "QdstrmImporter")


class GpuWatch:
    """Watches the processes that have `environment` in theirs, from entering to leaving.

    devices: returns the share of time that each GPU works (0 to 1) and how many processes use them; None without NVML.
    """

    def __init__(self, *, proc: Path = _PROC, devices: Callable[[], tuple[float, int] | None] | None = None) -> None:
        self._value = secrets.token_hex(8)
        self._proc = proc
        self._devices = devices or _read_devices
        self._mine: dict[str, bool] = {}
        self._found: dict[int, CudaProcess] = {}
        self._busy_s: float | None = None
        self._strangers = 0
        self._is_shared = False
        self._last = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nsysprof-watch", daemon=True)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variable that marks the processes to watch."""
        return {MARK: self._value}

    def __enter__(self) -> GpuWatch:
        before = self._devices()
        self._is_shared = before is not None and (before[0] > 0 or before[1] > 0)
        self._last = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def seen(self, *, is_whole: bool) -> WatchedGpu:
        """Return what was seen until now. is_whole: whether everything was to be recorded."""
        processes = tuple(self._found[pid] for pid in sorted(self._found))
        return WatchedGpu(processes, self._busy_s, self._is_shared, is_whole)

    def _watch(self) -> None:
        began = time.monotonic()
        while not self._over.wait(_OFTEN_S if time.monotonic() - began < _AT_FIRST_S else _SELDOM_S):
            self.look()

    def look(self) -> None:
        """Look once at the processes and the GPUs."""
        now = time.monotonic()
        for name in self._own_processes():
            if int(name) not in self._found and self._uses_cuda(name):
                self._found[int(name)] = CudaProcess(int(name), self._name_of(name))
        read = self._devices()
        if read is not None:
            share, users = read
            self._busy_s = (self._busy_s or 0.0) + share * (now - self._last)
            # A context may be a moment older than its thread, so that one look does not tell.
            self._strangers = self._strangers + 1 if users > len(self._found) else 0
            self._is_shared = self._is_shared or self._strangers >= 4
        self._last = now

    def _own_processes(self) -> list[str]:
        with contextlib.suppress(OSError):
            running = {path.name for path in self._proc.iterdir() if path.name.isdigit()}
            self._mine = {name: mine for name, mine in self._mine.items() if name in running}
            for name in running - self._mine.keys():
                is_mine = self._is_mine(name)
                if is_mine is not None:
                    self._mine[name] = is_mine
        return [name for name, mine in self._mine.items() if mine]

    def _is_mine(self, name: str) -> bool | None:
        """Return whether a process is the program's; None while it cannot be told."""
        try:
            environment = (self._proc / name / "environ").read_bytes()
        except PermissionError:
            return False
        except OSError:
            return None
        return f"{MARK}={self._value}".encode() in environment.split(b"\0") if environment else None

    def _uses_cuda(self, name: str) -> bool:
        with contextlib.suppress(OSError):
            for task in (self._proc / name / "task").iterdir():
                if _CUDA_THREAD.match((task / "comm").read_text(encoding="utf-8", errors="replace")):
                    return not self._name_of(name).startswith(_OWN_TOOLS)
        return False

    def _name_of(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return (self._proc / name / "comm").read_text(encoding="utf-8", errors="replace").strip()
        return "?"


def _read_devices() -> tuple[float, int] | None:
    """Return the shares of time that the GPUs work, added, and how many processes use them; None without NVML."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        share, users = 0.0, 0
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            share += pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
            users += len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except pynvml.NVMLError:
        return None
    return share, users
