"""Define how long the steps of a program took, and the parts that their time consists of (integer ns)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.results.column_registry.analysis_columns import CAUSES, WORK_CATEGORIES, cause_column, work_column
from nsysprof.results.findings import TRACE

OUTSIDE = "outside"


@dataclass(frozen=True)
class StepPart:
    """The mean time of a steady step in one kind of work, or idle for one cause."""

    # A category of work, a cause of idle time, or OUTSIDE.
    name: str
    is_busy: bool
    # Mean over the steady steps, without those that are slow.
    mean_ns: float


@dataclass(frozen=True)
class StepTimes:
    """The steps of a program."""

    # The step range; STEP where steps are known by their kernels alone; TRACE for a trace as a whole.
    per: str
    # The columns of steps.csv.
    table: pd.DataFrame
    # How sure the steps are where no range marks them: the share of all kernels that they hold (percent); else None.
    found_pct: float | None = None

    @property
    def are_steps(self) -> bool:
        """Return whether the program repeats itself. Otherwise the only row stands for the whole trace."""
        return self.per != TRACE

    @property
    def devices(self) -> list[int]:
        """Return the devices, the busiest one first."""
        busy = self.table[[work_column(category) for category in WORK_CATEGORIES]].sum(axis=1)
        total = busy.groupby(self.table["device_id"], sort=True).sum()
        return [int(device) for device in total.sort_values(ascending=False, kind="stable").index]

    @cached_property
    def steps(self) -> pd.DataFrame:
        """Return one row per step: step, start_ns, wall_ns, is_warmup and is_slow."""
        return self.table.drop_duplicates("step")[["step", "start_ns", "wall_ns", "is_warmup", "is_slow"]]

    @property
    def step_ns(self) -> float:
        """Return how long a step takes (ns): the mean of the usual ones, which are neither warm-up nor slow."""
        steps = self.steps
        return float(steps.loc[~(steps["is_warmup"] | steps["is_slow"]).to_numpy(dtype=bool), "wall_ns"].mean())

    def steady_walls_ns(self) -> npt.NDArray[np.int64]:
        """Return how long each step after the warm-up took."""
        steps = self.steps
        steady: npt.NDArray[np.int64] = steps.loc[~steps["is_warmup"].to_numpy(dtype=bool), "wall_ns"].to_numpy(
            np.int64
        )
        return steady

    def usual_window_ns(self) -> tuple[int, int]:
        """Return start and end of a typical steady step: the first one whose time is the median, or next to it."""
        steps = self.steps[~self.steps["is_warmup"].to_numpy(dtype=bool)]
        wall = steps["wall_ns"].to_numpy(dtype=np.int64)
        row = int(np.argmin(np.abs(wall - np.median(wall))))
        start = int(steps["start_ns"].iloc[row])
        return start, start + int(wall[row])

    def parts_of(self, device_id: int) -> list[StepPart]:
        """Return the parts of a usual steady step on a device. They add up to its mean wall time."""
        return [part for part in self._means(device_id, None) if part.mean_ns > 0]

    def largest_excess(self, step: int, device_id: int) -> StepPart:
        """Return the part by which a step exceeds the usual steady ones the most on a device, with the excess (ns)."""
        pairs = zip(self._means(device_id, step), self._means(device_id, None), strict=True)
        more = [StepPart(mine.name, mine.is_busy, mine.mean_ns - usual.mean_ns) for mine, usual in pairs]
        return max(more, key=lambda part: part.mean_ns)

    def _means(self, device_id: int, step: int | None) -> list[StepPart]:
        """Return every part of one step on a device, or their means over the usual steady steps."""
        table = self.table[(self.table["device_id"] == device_id).to_numpy(dtype=bool)]
        if step is None:
            chosen = ~(table["is_warmup"] | table["is_slow"]).to_numpy(dtype=bool)
        else:
            chosen = (table["step"] == step).to_numpy(dtype=bool)
        columns = [(name, True, work_column(name)) for name in WORK_CATEGORIES]
        columns += [(cause, False, cause_column(cause)) for cause in CAUSES]
        columns.append((OUTSIDE, False, "outside_ns"))
        return [StepPart(name, busy, float(table[chosen][column].mean())) for name, busy, column in columns]

    def busy_pct(self, device_id: int) -> float:
        """Return the share of a usual steady step in which the device ran anything (percent)."""
        parts = self.parts_of(device_id)
        whole = sum(part.mean_ns for part in parts)
        return 100 * sum(part.mean_ns for part in parts if part.is_busy) / whole if whole else 0.0
