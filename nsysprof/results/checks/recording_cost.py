"""Define what recording costs a program: its ranges as recorded, compared with only NVTX recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from nsysprof.results.column_registry.analysis_columns import RECORDING_COST

# A range that recording slows by more than this share says little about the CPU.
MOST_COST = 0.10
# The name for the program's steps as a whole, where its output shows them and not its ranges.
STEPS = "(all steps)"
# The file in a recording whose program was compared with itself, recorded and not, in one run.
COSTS = "recording_cost.json"
# The findings about the CPU's time, which recording prolongs.
HOST_FINDINGS = ("launch-bound", "host-bound", "small-copies")


@dataclass(frozen=True)
class RangeCost:
    """The cost for one range (counters folded), from both runs. The first instance is left out as warm-up."""

    range: str
    instances: int
    plain_instances: int
    # The medians of the instances (ns).
    wall_med_ns: int
    plain_wall_med_ns: int
    # The first median divided by the second, with its 95 % interval; None where there are too few instances.
    slowdown: float
    slowdown_low: float | None
    slowdown_high: float | None
    # Whether recording certainly made it slower by more than MOST_COST. Older files do not say it.
    is_distorted: bool = False


@dataclass(frozen=True)
class CostsInOneRun:
    """The content of the file COSTS: what recording cost each range, compared with unrecorded parts of the same run."""

    format_version: int
    costs: tuple[RangeCost, ...]


def cost_table(costs: Sequence[RangeCost]) -> pd.DataFrame:
    """Return the costs with the columns of recording_cost.csv."""
    return pd.DataFrame([asdict(cost) for cost in costs], columns=list(RECORDING_COST.names))
