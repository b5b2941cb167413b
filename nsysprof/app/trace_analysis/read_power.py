"""Read the energy samples of a captured program's GPUs, converted to the clock of its trace."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nsysprof.errors import TraceError
from nsysprof.results.power_samples import POWER_COLUMNS, POWER_FILE, power_beside

if TYPE_CHECKING:
    from nsysprof.results.power_samples import GpuEnergy

_LARGEST_BYTES = 512 << 20
_LARGEST = 2**62


def read_power(source: Path, trace: Path) -> Sequence[GpuEnergy]:
    """Return the energy samples in a capture folder, or beside the trace of a rank: one entry per GPU.

    There are none without samples, or without a clock to place them. Raises TraceError for a damaged file.

    trace: the SQLite file of the capture.
    """
    path = source / POWER_FILE if source.is_dir() else power_beside(source)
    if not path.is_file():
        return ()
    from nsysprof.app.trace_analysis.join_memory import session_start_ns

    start_ns = session_start_ns(trace)
    return () if start_ns is None else parse_power(path, start_ns)


def parse_power(path: Path, start_ns: int) -> Sequence[GpuEnergy]:
    """Return the samples in a file.

    start_ns: when the clock of the session began (ns since 1970).
    """
    import numpy as np

    from nsysprof.results.power_samples import GpuEnergy

    damaged = TraceError(f"{path} is damaged: it is not a table of energy.", "Remove it, and analyze again.")
    found: dict[str, list[tuple[int, int]]] = {}
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
                found.setdefault(gpu, []).append((int(at) - start_ns, int(energy)))
    except (ValueError, csv.Error, UnicodeError) as error:
        raise damaged from error
    series = []
    for index, (gpu, samples) in enumerate(found.items()):
        table = np.array(samples, dtype=np.int64)
        if (np.diff(table, axis=0) < 0).any():  # the driver was reloaded, or the clock was set back
            raise damaged
        kept = np.concatenate([[True], np.diff(table[:, 0]) > 0])
        series.append(GpuEnergy(gpu, index, table[kept, 0], table[kept, 1]))
    return series
