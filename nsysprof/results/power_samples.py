"""Define samples of the energy that GPUs used while a program was recorded, and the energy of ranges."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from nsysprof.arrays import Floats, Int64s

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
