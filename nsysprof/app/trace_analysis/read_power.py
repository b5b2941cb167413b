"""Read the energy samples of a captured program's GPUs, converted to the clock of its trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsysprof.results.power_samples import GpuEnergy


def read_power(source: Path, trace: Path) -> Sequence[GpuEnergy]:
    """Return the energy samples in a capture folder, or beside the trace of a rank: one entry per GPU.

    There are none without samples, or without a clock to place them. Raises TraceError for a damaged file.

    trace: the SQLite file of the capture.
    """
    from nsysprof.app.trace_analysis.join_memory import session_start_ns
    from nsysprof.ranks.power_file import parse_power, power_of

    path = power_of(source)
    if not path.is_file():
        return ()
    start_ns = session_start_ns(trace)
    return () if start_ns is None else parse_power(path, start_ns)
