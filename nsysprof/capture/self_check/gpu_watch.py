"""Watch a program from outside while it runs: which of its processes use CUDA, and how long its GPUs are busy."""

from __future__ import annotations

import contextlib
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from nsysprof.results.checks import CudaProcess, WatchedGpu

PROC = Path("/proc")
# An environment variable that every process of the program inherits. Its value distinguishes captures.
MARK = "NSYSPROF_WATCHED"
_OFTEN_S, _SELDOM_S, _AT_FIRST_S = 0.25, 1.0, 10.0
# The driver starts threads of these names with a process's first context. A forked process does not inherit threads.
_CUDA_THREAD = re.compile(r"cuda(-EvtHandlr|[0-9a-f]{8})")
_NSYS = "nsys"
_NAMES = (f"{_NSYS}-", "CudaGpuInfoDump", "QdstrmImporter")


class MarkedProcesses:
    """The processes that have `environment` in theirs. A process that clears its environment is not found.

    value: what the variable is set to; empty for a value that no other processes have.
    """

    def __init__(self, variable: str, proc: Path = PROC, *, value: str = "") -> None:
        self._mark = f"{variable}={value or secrets.token_hex(8)}"
        self._proc = proc
        self._mine: dict[str, bool] = {}
        self._own = b""
        with contextlib.suppress(OSError):
            self._own = (PROC / "self" / "environ").read_bytes()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variable that marks the processes."""
        name, _, value = self._mark.partition("=")
        return {name: value}

    def look(self) -> list[Path]:
        """Return the folders in /proc of the processes that run now."""
        with contextlib.suppress(OSError):
            running = {path.name for path in self._proc.iterdir() if path.name.isdigit()}
            self._mine = {name: mine for name, mine in self._mine.items() if name in running}
            for name in running - self._mine.keys():
                is_mine = self._is_mine(name)
                if is_mine is not None:
                    self._mine[name] = is_mine
        return [self._proc / name for name, mine in self._mine.items() if mine]

    def _is_mine(self, name: str) -> bool | None:
        """Return whether a process belongs to the program; None while this cannot be determined."""
        try:
            environment = (self._proc / name / "environ").read_bytes()
        except PermissionError:
            return False
        except OSError:
            return None
        if self._mark.encode() in environment.split(b"\0"):
            return True
        # A child of this process has its environment until it starts its own program.
        return False if environment and environment != self._own else None


class GpuWatch:
    """Watches the processes whose environment contains `environment`, inside the context.

    nsys: its own programs use the GPUs too, and do not belong to the program.
    only_with: a variable; processes without it are not recorded, such as torch's launcher beside its workers.
    devices: returns the share of time in which the GPU is busy (0 to 1) and how many processes use it; None where
        unknown.
    """

    def __init__(
        self,
        nsys: Path | None = None,
        *,
        only_with: str = "",
        proc: Path = PROC,
        devices: Callable[[], tuple[float, int] | None] | None = None,
    ) -> None:
        self._processes = MarkedProcesses(MARK, proc)
        self._tools, self._only_with = NsysTools(nsys), only_with
        self._devices = devices or _read_devices
        self._users: dict[int, CudaProcess] = {}
        # By process: what tells its program from the next one, and when it was last seen (ns since 1970).
        self._images: dict[int, tuple[bytes, int]] = {}
        self._busy_s: float | None = None
        self._strangers = 0
        self._is_shared = False
        self._last = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nsysprof-watch", daemon=True)

    @property
    def environment(self) -> dict[str, str]:
        """Return the variable that marks the processes to watch."""
        return self._processes.environment

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
        # nsys has imported the recording meanwhile. A GPU that is still busy works for another program.
        after = self._devices()
        self._is_shared = self._is_shared or (after is not None and after[0] > 0)

    def seen(self, *, is_whole: bool) -> WatchedGpu:
        """Return what was observed until now.

        is_whole: whether everything should have been recorded.
        """
        processes = tuple(self._users[pid] for pid in sorted(self._users))
        return WatchedGpu(processes, self._busy_s, self._is_shared, is_whole)

    def _watch(self) -> None:
        began = time.monotonic()
        while not self._over.wait(_OFTEN_S if time.monotonic() - began < _AT_FIRST_S else _SELDOM_S):
            self.look()

    def look(self) -> None:
        """Check the processes and the GPUs once."""
        now = time.monotonic()
        for process in self._processes.look():
            self._look_at(process)
        read = self._devices()
        if read is not None:
            share, users = read
            self._busy_s = (self._busy_s or 0.0) + share * (now - self._last)
            # A context may be slightly older than its thread, so a single check does not prove it.
            self._strangers = self._strangers + 1 if users > len(self._users) else 0
            self._is_shared = self._is_shared or self._strangers >= 4
        self._last = now

    def _look_at(self, process: Path) -> None:
        """Note a process that uses CUDA, and one that did and has replaced itself by another program since."""
        pid, image, now_ns = int(process.name), _image(process), time.time_ns()
        if pid not in self._users:
            if not _uses_cuda(process) or self._tools.has(process) or not self._counts(process):
                return
            self._users[pid] = CudaProcess(pid, name_of(process), command=_command(process))
        elif image and pid in self._images and image != self._images[pid][0]:
            if self._users[pid].replaced_after_ns is None:
                self._users[pid] = replace(self._users[pid], replaced_after_ns=self._images.pop(pid)[1])
            return
        if image and self._users[pid].replaced_after_ns is None:
            self._images[pid] = image, now_ns

    def _counts(self, process: Path) -> bool:
        if not self._only_with:
            return True
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            return False
        return any(variable.startswith(f"{self._only_with}=".encode()) for variable in environment.split(b"\0"))


def _uses_cuda(process: Path) -> bool:
    with contextlib.suppress(OSError):
        for task in (process / "task").iterdir():
            if _CUDA_THREAD.match((task / "comm").read_text(encoding="utf-8", errors="replace")):
                return True
    return False


def _command(process: Path) -> tuple[str, ...]:
    try:
        words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ()
    return tuple(word for word in words if word)


def _image(process: Path) -> bytes:
    """Return what the kernel tells each program when it starts: addresses that differ from one `exec` to the next.

    Return nothing where it cannot be read, or has gone.
    """
    try:
        return (process / "auxv").read_bytes()
    except OSError:
        return b""


def _read_devices() -> tuple[float, int] | None:
    """Return the share of time in which the GPU is busy, and how many processes use it.

    Return None without NVML, and where there are several GPUs, because it is unknown which of the work is the
    program's.
    """
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        if pynvml.nvmlDeviceGetCount() != 1:
            return None
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        share = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
        return share, len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle))
    except pynvml.NVMLError:
        return None


class NsysTools:
    """The programs of one nsys. Without an nsys they are recognised only by name."""

    def __init__(self, nsys: Path | None) -> None:
        self._folder = None if nsys is None else _tool_folder(nsys)

    def has(self, process: Path) -> bool:
        """Return whether a process is one of them.

        process: its folder in /proc.
        """
        name = name_of(process)
        if name == _NSYS or name.startswith(_NAMES):
            return True
        try:
            return self._folder is not None and self._folder in (process / "exe").readlink().parents
        except OSError:
            return False


def name_of(process: Path) -> str:
    with contextlib.suppress(OSError):
        return (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    return "?"


def _tool_folder(nsys: Path) -> Path | None:
    """Return the folder of nsys' own programs; None where the installation has an unknown layout."""
    for place in nsys.resolve().parents[:3]:
        if place.name.startswith("target-linux"):
            return place
        folder = next(place.glob("target-linux*"), None)
        if folder is not None:
            return folder
    return None
