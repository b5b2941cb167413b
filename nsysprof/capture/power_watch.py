"""Sample the energy that the GPUs use while a program runs, from their own counters (by NVML)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from nsysprof.files.plain_file import write_whole
from nsysprof.results.power_samples import POWER_COLUMNS

# The interval between samples (s). The counters of H200s change less often.
_EVERY_S = 0.01
# The most changes to keep: four days of one board's counter.
_MOST_CHANGES = 4_000_000
ReadEnergy = Callable[[], Mapping[str, int]]


class PowerWatch:
    """Samples the energy of every GPU inside the context, and keeps the moments at which a counter changed.

    read: returns the energy of each GPU (mJ) by its name; None where NVML does not report it.
    """

    def __init__(self, read: ReadEnergy | None = None) -> None:
        self._read = read or find_counters()
        self._changes: list[tuple[int, str, int]] = []
        self._last: dict[str, int] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nsysprof-power", daemon=True)

    def __enter__(self) -> PowerWatch:
        if self._read is not None:
            self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def write(self, path: Path) -> bool:
        """Write the samples as CSV, and return whether there were any. Raises OutputError."""
        if not self._changes:
            return False
        lines = [",".join(POWER_COLUMNS), *(f"{at},{gpu},{energy}" for at, gpu, energy in self._changes), ""]
        write_whole(path, "\n".join(lines).encode())
        return True

    def look(self) -> None:
        """Read every counter once."""
        before = time.time_ns()
        energies = {} if self._read is None else self._read()
        at = (before + time.time_ns()) // 2
        for gpu, energy in energies.items():
            if self._last.get(gpu) != energy and len(self._changes) < _MOST_CHANGES:
                self._last[gpu] = energy
                self._changes.append((at, gpu, energy))

    def _watch(self) -> None:
        self.look()
        while not self._over.wait(_EVERY_S):
            self.look()
        self.look()


def find_counters() -> ReadEnergy | None:
    """Return a function that reads the energy of every GPU by UUID; None without NVML or without such a counter."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        names = [_text(pynvml.nvmlDeviceGetUUID(handle)) for handle in handles]
        for handle in handles:
            pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)
    except pynvml.NVMLError:
        return None

    def read() -> Mapping[str, int]:
        energies = {}
        for name, handle in zip(names, handles, strict=True):
            try:
                energies[name] = int(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))
            except pynvml.NVMLError:  # a board that has failed meanwhile
                continue
        return energies

    return read if names else None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
