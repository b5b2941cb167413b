"""Read a file with samples of the energy counters of GPUs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nsysprof.errors import TraceError
from nsysprof.results.power_samples import POWER_COLUMNS, POWER_FILE, GpuEnergy, power_beside

_LARGEST_BYTES = 512 << 20
_LARGEST = 2**62


def power_of(source: Path) -> Path:
    """Return where the energy samples of a capture folder are, or those beside the trace of a rank."""
    return source / POWER_FILE if source.is_dir() else power_beside(source)


def parse_power(path: Path, start_ns: int) -> Sequence[GpuEnergy]:
    """Return the samples in a file, one entry per GPU. Raises TraceError for a damaged file.

    start_ns: when the clock of the session began (ns since 1970).
    """
    damaged = TraceError(f"{path} is damaged: it is not a table of energy.", "Remove it, and analyze again.")
    samples_of: dict[str, list[tuple[int, int]]] = {}
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise damaged
        with path.open(encoding="ascii", newline="") as file:
            rows = csv.reader(file)
            if tuple(next(rows, ())) != POWER_COLUMNS:
                raise damaged
            for at, gpu, energy in rows:
                if not (0 <= int(at) < _LARGEST and 0 <= int(energy) < _LARGEST and len(gpu) < 100):
                    raise damaged
                samples_of.setdefault(gpu, []).append((int(at) - start_ns, int(energy)))
    except (ValueError, csv.Error, UnicodeError) as error:
        raise damaged from error
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    series = []
    for index, (gpu, samples) in enumerate(samples_of.items()):
        table = np.array(samples, dtype=np.int64)
        if (np.diff(table, axis=0) < 0).any():  # the driver was reloaded, or the clock was set back
            raise damaged
        kept = np.concatenate([[True], np.diff(table[:, 0]) > 0])
        series.append(GpuEnergy(gpu, index, table[kept, 0], table[kept, 1]))
    return series
