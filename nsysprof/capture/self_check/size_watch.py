"""Watch how much nsys writes while it records and how much space is left, and stop the recording in time."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path

from nsysprof.capture.self_check.gpu_watch import PROC, MarkedProcesses, NsysTools, name_of

MARK = "NSYSPROF_RECORDING"
_EVERY_S = 0.5
# The space that must stay free (bytes). nsys needs it for its report, and the export needs as much again.
_RESERVE_BYTES = 512 << 20
_BLOCK_BYTES = 512  # the unit of st_blocks (bytes), on every file system


class StopReason(StrEnum):
    """Why a recording was stopped before the program ended."""

    SIZE = "size"
    DISK = "disk"


class SizeWatch:
    """Watches the size of one recording.

    limit_bytes: how much nsys may write while it records; 0: as much as fits.
    folder: where the report will lie.
    processes: those whose files count; None for those that are started with `environment`.
    """

    def __init__(
        self, limit_bytes: int, folder: Path, *, processes: MarkedProcesses | None = None, proc: Path = PROC
    ) -> None:
        self._limit_bytes = limit_bytes
        self._places = tuple({_device(place): place for place in (folder, Path(tempfile.gettempdir()))}.values())
        self._processes = processes or MarkedProcesses(MARK, proc)
        # A disk that is nearly full from the start is not a reason to record nothing.
        self._reserves = tuple(min(_RESERVE_BYTES, _free(place) // 2) for place in self._places)
        self.stopped: StopReason | None = None
        self.bytes = 0
        # What each file held of an earlier recording of the same processes (bytes).
        self._before: dict[tuple[int, int], int] = {}

    @property
    def environment(self) -> dict[str, str]:
        """Return the variable that marks the processes whose files count."""
        return self._processes.environment

    def running(self, tools: NsysTools) -> list[str]:
        """Return the name and number of each running process of the program.

        tools: nsys' own programs, which are left out.
        """
        return [
            f"{name_of(process)} ({process.name})"
            for process in self._processes.look()
            if not tools.has(process) and _has_not_ended(process)
        ]

    @contextlib.contextmanager
    def watching(self, stop: Callable[[], None]) -> Iterator[None]:
        """Measure in the background, and call `stop` once if the recording must end before the program."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(_EVERY_S):
                self.look()
                if self.stopped is not None:
                    stop()
                    return

        thread = threading.Thread(target=watch, name="nsysprof-size", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def begin(self) -> None:
        """Leave out what has been written until now."""
        self._before = self._files() if self._limit_bytes else {}

    def look(self) -> None:
        """Measure once."""
        if self._limit_bytes:
            self.bytes = max(self.bytes, self._written())
        if self._limit_bytes and self.bytes > self._limit_bytes:
            self.stopped = StopReason.SIZE
        elif any(_free(place) < reserve for place, reserve in zip(self._places, self._reserves, strict=True)):
            self.stopped = StopReason.DISK

    def _written(self) -> int:
        """Return how much this recording's part of the files takes on the disk."""
        sizes = self._files()
        # nsys empties some files and writes them anew.
        self._before = {file: min(before, sizes.get(file, 0)) for file, before in self._before.items()}
        return sum(sizes.values()) - sum(self._before.values())

    def _files(self) -> dict[tuple[int, int], int]:
        """Return how much each file of the recording takes on the disk, by device and number."""
        sizes: dict[tuple[int, int], int] = {}
        for process in self._processes.look():
            with contextlib.suppress(OSError):
                for link in (process / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        if _is_of_recording(str(link.readlink())):
                            status = link.stat()
                            sizes[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_BYTES
        return sizes


def _has_not_ended(process: Path) -> bool:
    """Return whether a process still has a command line; a dead one whose parent has not waited for it has none."""
    try:
        return bool((process / "cmdline").read_bytes())
    except OSError:
        return False


def _is_of_recording(path: str) -> bool:
    return path.endswith(".qdstrm") or "/nsight_systems/quadd_session_" in path


def _free(place: Path) -> int:
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return 1 << 62  # what cannot be measured does not stop the recording


def _device(place: Path) -> int:
    try:
        return place.stat().st_dev
    except OSError:
        return -1
