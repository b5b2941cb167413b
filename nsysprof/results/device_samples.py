"""Hold what was measured of a device beside the trace: counters of kernels, and samples of power."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from nsysprof.arrays import Floats, Int64s
from nsysprof.results.column_registry.case_columns import COUNTERS


class Run(StrEnum):
    """The two runs of ncu over the cases."""

    TRAFFIC = "traffic"
    DETAIL = "detail"


@dataclass(frozen=True)
class CountedKernel:
    """One launch within the one counted call of a case."""

    run: Run
    range: str
    # The position in the order of launches of its range, from 0.
    position: int
    # The name as ncu demangles it, and the mangled name.
    name: str
    symbol: str
    grid: str
    block: str
    gpu: str
    # How often it was replayed; None where ncu does not say.
    passes: int | None
    # The counters by column; None where the GPU does not have one.
    values: dict[str, float | None]
    # Metrics that the user asked for, by ncu's name.
    more: dict[str, float] = field(default_factory=dict)
    # The trace's name for the symbol, which nsys demangles in its own way; empty when unknown.
    kernel: str = ""


_FIXED = ("run", "range", "position", "kernel", "name", "symbol", "grid", "block", "gpu", "passes")
# The columns of counters.csv that ncu's metrics fill, in the order of the file.
COUNTED_COLUMNS = tuple(name for name in COUNTERS.names if name not in _FIXED)


# The name of the file in a capture folder, and its columns.
POWER_FILE = "power.csv"
POWER_COLUMNS = ("time_ns", "gpu", "energy_mj")
_PACKED = (".xz", ".gz", ".zst")


def power_beside(trace: Path) -> Path:
    """Return the file of the samples that belong to the trace of one rank of a job (`rank00000.power.csv`)."""
    plain = trace.with_suffix("") if trace.suffix in _PACKED else trace
    return plain.with_suffix("." + POWER_FILE)


@dataclass(frozen=True)
class GpuEnergy:
    """The readings of one board's energy counter, at each moment at which it changed."""

    # The UUID as NVML reports it, and the board's position in NVML's order.
    uuid: str
    index: int
    # The times of changes (ns since session start), ascending.
    time_ns: Int64s
    # The energy since the driver was loaded (mJ), ascending.
    energy_mj: Int64s

    @property
    def period_ns(self) -> int:
        """Return how often the counter changes: the median time between two changes (ns)."""
        gaps = sorted(int(later - earlier) for earlier, later in pairwise(self.time_ns))
        return gaps[len(gaps) // 2] if gaps else 0


@dataclass(frozen=True)
class RangeEnergy:
    """The energy (J) that a board used during intervals, one entry per group; NaN where it was not sampled."""

    energy_j: Floats
    # A bound on how far the true energy may be from it, if the counter is right.
    error_j: Floats
    # How long the intervals are together (ns), each moment once.
    covered_ns: Int64s
