"""Define the samples of the energy that GPUs used while a program was recorded."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from nsysprof.arrays import Floats, Int64s

# The file of a capture folder, and its columns.
POWER_FILE = "power.csv"
POWER_COLUMNS = ("time_ns", "gpu", "energy_mj")


@dataclass(frozen=True)
class GpuEnergy:
    """What one board's own counter of energy said, at each moment at which it changed."""

    # As NVML has it, and the board's place in NVML's order.
    uuid: str
    index: int
    # Since session start; ascending.
    time_ns: Int64s
    # Since the driver was loaded (mJ); ascending.
    energy_mj: Int64s

    @property
    def period_ns(self) -> int:
        """Return how often the counter changes: the median time between two changes (ns)."""
        gaps = sorted(int(later - earlier) for earlier, later in pairwise(self.time_ns))
        return gaps[len(gaps) // 2] if gaps else 0


@dataclass(frozen=True)
class RangeEnergy:
    """The energy that a board used during intervals, one entry a group (J); NaN where it was not sampled."""

    energy_j: Floats
    # A bound on the distance of the truth from it, if the counter is right.
    error_j: Floats
    # How long the intervals are together (ns), each moment once.
    covered_ns: Int64s
