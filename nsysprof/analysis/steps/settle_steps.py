"""Give the step range the warm-up of the steps, so that tables of ranges and the time of a step tell the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nsysprof.analysis.attribution.attributed_ranges import Attributed
from nsysprof.analysis.attribution.range_names import name_families
from nsysprof.analysis.attribution.range_structure import SteadyFrom, count_warm_up
from nsysprof.analysis.steps.find_steps import Steps
from nsysprof.analysis.steps.step_bounds import bound_steps
from nsysprof.trace.schema import PID_MASK, Tables

# Each thread costs a look at all work. More threads with steps than this keep the warm-up by the time of the host.
_MOST_THREADS = 16


def settle_steps(tables: Tables, attributed: Attributed, steps: Steps | None) -> Attributed:
    """Return the ranges with the warm-up of the step range decided by when the GPU had done each step.

    The host's time of a step changes for as long as the host runs ahead of the GPU, while steps take equally long.
    """
    if steps is None or not steps.name:
        return attributed
    families = name_families(attributed.keys["name"].tolist())
    is_step = np.array([family == steps.name for family in families], dtype=bool)
    ranges = attributed.ranges[is_step[attributed.ranges["group"].to_numpy(dtype=np.int64)]]
    steady_from = []
    for tid, mine in list(ranges.groupby("global_tid", sort=False))[:_MOST_THREADS]:
        start = mine["start_ns"].to_numpy(dtype=np.int64)
        issued = np.append(start, mine["end_ns"].to_numpy(dtype=np.int64)[-1])
        if bool((np.diff(issued) > 0).all()):
            warmup = count_warm_up(np.diff(bound_steps(tables, int(tid) & PID_MASK, issued)))
            steady_from.append(SteadyFrom(steps.name, int(tid), int(issued[warmup])))
    return replace(attributed, steady_from=tuple(steady_from))
