"""What recording costs a program: its ranges as recorded, against the same ranges with NVTX recorded alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from nsysprof.results.column_registry.analysis_columns import RECORDING_COST

# A range that recording slows by more than this part says little about the CPU.
MOST_COST = 0.10
# The program's steps as a whole, where its output tells them and not its ranges.
STEPS = "(all steps)"
# The file of a recording whose program was compared with itself, recorded and not, in one run.
COSTS = "recording_cost.json"
# Findings about the time that the CPU takes, which recording prolongs.
HOST_FINDINGS = ("launch-bound", "host-bound", "small-copies")


@dataclass(frozen=True)
class RangeCost:
    """One range, counters folded, in both runs. The first instance is left out as a warm-up."""

    range: str
    instances: int
    plain_instances: int
    # Medians of the instances.
    wall_med_ns: int
    plain_wall_med_ns: int
    # The first median by the second, with its 95 % interval; None where there are too few instances.
    slowdown: float
    slowdown_low: float | None
    slowdown_high: float | None

    @property
    def is_distorted(self) -> bool:
        """Return whether recording made it slower by more than MOST_COST, and not by chance."""
        return self.slowdown > 1 + MOST_COST and self.slowdown_low is not None and self.slowdown_low > 1


@dataclass(frozen=True)
class CostsInOneRun:
    """The content of COSTS: what recording cost each range, against the same run while it was not recorded."""

    format_version: int
    costs: tuple[RangeCost, ...]


def cost_table(costs: Sequence[RangeCost]) -> pd.DataFrame:
    """Return the costs with the columns of recording_cost.csv."""
    rows = [{**asdict(cost), "is_distorted": cost.is_distorted} for cost in costs]
    return pd.DataFrame(rows, columns=list(RECORDING_COST.names))
