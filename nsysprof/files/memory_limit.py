"""Keep the memory of a process below a limit, by keeping what it allocates in a file.

The C library's heap grows upwards. Its next gigabytes are reserved and mapped to a file that has no name, so every
array that is made from then on lies in this file. A thread watches how much memory the process has. Near the limit, it
lets go of the pages of the file: their content stays in the file, and the system brings a page back when it is used
again. No code that computes knows of this, so the results are the same.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import sys
import tempfile
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from nsysprof.errors import OutputError, UsageError

# The least limit: Python and its libraries take a third of it, and the margin below another third.
LEAST_BYTES = 768 << 20
# What is reserved in the file. The heap of an analysis has been the size of the trace at ten million kernels, and three
# times a trace of a million, which the first part holds: twice the size leaves room for traces of another make.
_FILE_BYTES, _FILE_TIMES = 1 << 30, 2
_PIECE_BYTES = 256 << 20
# From this size on, a preferred limit is kept; and how many times the size a command may write beside that file.
LARGE_TRACE_BYTES, _SCRATCH_TIMES = 256 << 20, 4
# Pages are let go this far below the limit, or this part of a large one: memory grows until the thread gets its turn.
_MARGIN_BYTES, _MARGIN_PART = 192 << 20, 3 / 16
_SECONDS_BETWEEN_LOOKS = 0.002
# How long other threads may keep this one from Python's lock (s).
_SECONDS_A_TURN = 0.0005
# The pages of programs and libraries, which the system takes back by itself.
_LIBRARY_BYTES = 160 << 20
# The options of <malloc.h>: how much free memory is returned to the system, and how many blocks lie outside the heap.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
# What <sys/mman.h> has and Python's mmap has not everywhere.
_MAP_FIXED = 0x10
# Given the areas, the limit and the margin, keeps the limit and returns what _keep_in_turns does.
_KeepBelow = Callable[[list[tuple[int, int]], int, int], int]
# The bytes before and after a block that belong to the heap.
_HEADER_BYTES = 64


@dataclass
class _Watch:
    """The limit of this process, if it has one.

    is_in_file: whether what this process allocates lies in a file.
    needed_bytes: the memory outside the file, once it is too much for the limit.
    times: how often pages were let go, as its only item.
    """

    limit_bytes: int | None = None
    # Whether the process is interrupted where the limit cannot be kept; otherwise it goes on without.
    is_firm: bool = True
    is_in_file: bool = False
    needed_bytes: int | None = None
    times: Any = field(default_factory=lambda: [0])


_watch = _Watch()


def set_memory_limit(limit_bytes: int) -> None:
    """Choose the limit of this process. It holds from keep_memory_limit on."""
    if not sys.platform.startswith("linux") or _c_library() is None:
        raise UsageError("--memory-limit needs Linux with the GNU C library.", "Leave it out.")
    if limit_bytes < LEAST_BYTES:
        raise UsageError(
            f"--memory-limit {limit_bytes >> 20:,} MiB is too small: Python and its libraries alone take 200 MiB.",
            f"Give {LEAST_BYTES >> 20}MiB or more.",
        )
    _watch.limit_bytes, _watch.is_firm = limit_bytes, True


def prefer_memory_limit(limit_bytes: int) -> None:
    """Choose a limit that this process keeps with a large trace, for as long as that can be done."""
    if sys.platform.startswith("linux") and _c_library() is not None:
        _watch.limit_bytes, _watch.is_firm = limit_bytes, False


def has_memory_limit() -> bool:
    """Return whether this process has a limit that it must keep."""
    return _watch.limit_bytes is not None and _watch.is_firm


def is_memory_in_file() -> bool:
    """Return whether what this process allocates lies in a file, so that the C library must not return its heap."""
    return _watch.is_in_file


def keep_memory_limit(trace: Path) -> None:
    """Keep the limit from now on until the process ends. Without a limit, this does nothing.

    Raises OutputError where the disk has no room for a limit that was not only preferred.

    trace: the SQLite file that will be read.
    """
    if _watch.limit_bytes is None:
        return
    trace_bytes = trace.stat().st_size
    file_bytes = _FILE_BYTES + _FILE_TIMES * trace_bytes
    if _watch.is_firm:
        limit_memory(_watch.limit_bytes, file_bytes)
    elif trace_bytes >= LARGE_TRACE_BYTES:
        # A disk with less room is left to what the command writes.
        with suppress(OutputError, OSError):
            if shutil.disk_usage(_folder()).free >= file_bytes + _SCRATCH_TIMES * trace_bytes:
                limit_memory(_watch.limit_bytes, file_bytes)


def limit_memory(limit_bytes: int, file_bytes: int) -> None:
    """Keep the memory of this process below a limit until it ends.

    file_bytes: how much of what it allocates has room in the file.
    """
    library = _c_library()
    assert library is not None
    _watch.is_in_file = True  # even if mapping fails halfway
    areas = _map_heap(library, _make_file(file_bytes), file_bytes)
    sys.setswitchinterval(_SECONDS_A_TURN)
    margin = max(_MARGIN_BYTES, int(limit_bytes * _MARGIN_PART))
    keep = _compiled_keep() or partial(_keep_in_turns, library)
    threading.Thread(target=_keep, args=(keep, areas, limit_bytes, margin), daemon=True).start()


def memory_limit_failure() -> OutputError | None:
    """Return why the process was interrupted, if that was because of its limit."""
    limit, needed = _watch.limit_bytes, _watch.needed_bytes
    if needed is None or limit is None:
        return None
    enough = (3 * needed // 2 + _LIBRARY_BYTES + _MARGIN_BYTES >> 26) + 1
    return OutputError(
        f"--memory-limit {limit >> 20:,} MiB is too small: {needed >> 20:,} MiB of memory cannot lie in a file.",
        f"Give {64 * enough}MiB or more.",
    )


def _c_library() -> Any | None:
    """Return the functions of the C library; None where it is not the GNU one."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        library.mallopt  # noqa: B018 - only this library has it
    except (AttributeError, OSError, TypeError):
        return None
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


def _make_file(size: int) -> int:
    """Return the descriptor of a file of this size. It has no name, so that nothing is left however the process ends.

    All its blocks are allocated now: a disk that fills up later would kill the process.
    """
    folder = _folder()
    try:
        with tempfile.TemporaryFile(prefix="nsysprof-", dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, size)
            return os.dup(file.fileno())
    except OSError as error:
        raise OutputError(
            f"--memory-limit needs a file of {size >> 20:,} MiB in {folder}: {error.strerror}.",
            "Free space there, or set TMPDIR to a folder on a disk with more.",
        ) from error


def _folder() -> Path:
    """Return the folder for the file: the one for temporary files, or /var/tmp where that is kept in memory."""
    folder = tempfile.gettempdir()
    for each in (Path(folder), Path("/var/tmp")):
        if each.is_dir() and not _is_in_memory(each):
            return each
    raise OutputError(
        f"--memory-limit needs a folder on a disk, and {folder} is kept in memory.",
        "Set TMPDIR to a folder on a disk.",
    )


def _is_in_memory(folder: Path) -> bool:
    device = folder.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()]
    return any(words[2] == number and words[words.index("-") + 1] in ("tmpfs", "ramfs") for words in lines)


def _map_heap(library: Any, file: int, size: int) -> list[tuple[int, int]]:
    """Map the next `size` bytes of the heap to the file; return these areas (address, bytes)."""
    library.mallopt(_MMAP_MAX, 0)
    library.mallopt(_TRIM_THRESHOLD, -1)  # free memory at the end of the heap stays there
    blocks: list[int] = []
    areas: list[tuple[int, int]] = []
    try:
        offset = 0
        while offset + _PIECE_BYTES <= size:
            block = library.malloc(_PIECE_BYTES)
            if block is None:
                raise OutputError(
                    f"--memory-limit needs {size >> 20:,} MiB of address space, and the system gives less.",
                    "Raise the limit of the shell (ulimit -v unlimited).",
                )
            blocks.append(block)
            begin = -(-(block + _HEADER_BYTES) // mmap.PAGESIZE) * mmap.PAGESIZE
            length = (block + _PIECE_BYTES - _HEADER_BYTES - begin) // mmap.PAGESIZE * mmap.PAGESIZE
            flags = mmap.MAP_SHARED | _MAP_FIXED
            if library.mmap(begin, length, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, offset) != begin:
                reason = os.strerror(ctypes.get_errno())
                raise OutputError(f"--memory-limit cannot map its file: {reason}.", "Set TMPDIR to a folder on a disk.")
            library.madvise(begin, length, mmap.MADV_DONTFORK)  # two processes must not share a heap
            areas.append((begin, length))
            offset += length
    finally:
        for block in reversed(blocks):
            library.free(block)
        os.close(file)
    return areas


def _keep(keep: _KeepBelow, areas: list[tuple[int, int]], limit: int, margin: int) -> None:
    """Keep the limit; interrupt the process once a firm one can be kept no longer."""
    needed_bytes = keep(areas, limit, margin)
    if _watch.is_firm:
        _watch.needed_bytes = needed_bytes
        interrupt_main()


def _compiled_keep() -> _KeepBelow | None:
    """Return compiled code that does what _keep_in_turns does; None where it cannot be had.

    numpy keeps Python's lock while it writes some gigabytes. A thread of Python would get its turn too late.
    """
    try:
        import numpy as np

        from nsysprof.files.resident_memory import keep_below

        descriptor = os.open("/proc/self/statm", os.O_RDONLY)
        none, times = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
        keep_below(descriptor, none, none, 0, 0, 0, 0, times)  # returns at once
    except Exception:  # noqa: BLE001 - no llvmlite, or one that makes no code here, which can raise anything
        return None
    times[0] = 0

    def keep(areas: list[tuple[int, int]], limit: int, margin: int) -> int:
        _watch.times = times
        begins, lengths = np.array(areas, dtype=np.int64).reshape(-1, 2).T.copy()
        pause_us = int(1e6 * _SECONDS_BETWEEN_LOOKS)
        return int(keep_below(descriptor, begins, lengths, limit, margin, _LIBRARY_BYTES, pause_us, times))

    return keep


def _keep_in_turns(library: Any, areas: list[tuple[int, int]], limit: int, margin: int) -> int:
    """Let go of the pages of the areas near the limit; return what lies in no file, once that is too much (bytes)."""
    resident = _resident_bytes()
    while True:
        if (reached := resident()) > limit - margin:
            # On a busy machine, memory grows further until this thread gets its turn.
            margin = min(max(margin, 2 * (reached - limit + margin)), limit // 2)
            for begin, length in areas:
                library.madvise(begin, length, mmap.MADV_DONTNEED)
            _watch.times[0] += 1
            outside = _bytes_outside_files()
            if outside + _LIBRARY_BYTES > limit:
                return outside
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _resident_bytes() -> Callable[[], int]:
    """Return a function that returns how much memory the process has (bytes)."""
    descriptor = os.open("/proc/self/statm", os.O_RDONLY)
    return lambda: int(os.pread(descriptor, 100, 0).split()[1]) * mmap.PAGESIZE


def _bytes_outside_files() -> int:
    """Return how much of the process's memory belongs to no file (bytes)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))
