"""Compute the energy that a GPU used while the work of a range ran, from samples of the board's counter.

The counter changes every few dozen milliseconds. Between two changes only the sum is known, so that a part of that time
gets its share of the sum with an error: at least what the least power seen uses in it, at most what the most does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsysprof.arrays import Floats
from nsysprof.results.power_samples import GpuEnergy, RangeEnergy
from nsysprof.trace.schema import DeviceRow, Int64s

_MJ_PER_J = 1e3


def by_device(power: Sequence[GpuEnergy], devices: Sequence[DeviceRow]) -> dict[int, GpuEnergy]:
    """Return the counters of a trace's GPUs by their number, found by UUID, else by their place in NVML's order."""
    found = {}
    for device in devices:
        same = [each for each in power if device.uuid and _plain(each.uuid) == _plain(device.uuid)]
        same = same or [each for each in power if not device.uuid and each.index == device.device_id]
        if same:
            found[device.device_id] = same[0]
    return found


def _plain(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").replace("-", "")


def energy_in_groups(energy: GpuEnergy, start_ns: Int64s, end_ns: Int64s, group: Int64s, groups: int) -> RangeEnergy:
    """Return the energy of the board during the intervals of each group, times that several cover once.

    start_ns, end_ns: of each interval, since session start. group: of each interval, 0 ... groups-1.
    """
    found, error = np.full(groups, np.nan), np.full(groups, np.nan)
    covered = np.zeros(groups, dtype=np.int64)
    time, counter = energy.time_ns, energy.energy_mj
    if len(time) < 2:
        return RangeEnergy(found, error, covered)
    length = np.diff(time).astype(np.float64)
    spent = np.diff(counter) / _MJ_PER_J
    power = spent / length
    least, most = float(power.min()), float(power.max())
    order = np.argsort(group, kind="stable")
    edges = np.searchsorted(group[order], np.arange(groups + 1))
    for number in range(groups):
        rows = order[edges[number] : edges[number + 1]]
        low, high = _union(start_ns[rows], end_ns[rows])
        covered[number] = int((high - low).sum())
        if len(low) == 0 or low[0] < time[0] or high[-1] > time[-1]:
            continue  # a part was not sampled
        part = np.diff(_covered_before(time, low, high))
        estimate = spent * part / length
        floor = np.maximum(least * part, spent - most * (length - part))
        ceiling = np.minimum(most * part, spent - least * (length - part))
        found[number] = estimate.sum()
        error[number] = max(ceiling.sum() - found[number], found[number] - floor.sum(), 0.0)
    return RangeEnergy(found, error, covered)


def _union(start_ns: Int64s, end_ns: Int64s) -> tuple[Int64s, Int64s]:
    """Return the union of intervals as sorted intervals that do not touch."""
    order = np.argsort(start_ns, kind="stable")
    start, reach = start_ns[order], np.maximum.accumulate(end_ns[order]) if len(order) else end_ns
    if len(start) == 0:
        return start, reach
    opens = np.concatenate([[True], start[1:] > reach[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return start[opens], reach[closes]


def _covered_before(time: Int64s, low: Int64s, high: Int64s) -> Floats:
    """Return how much of the intervals lies before each time (ns)."""
    total = np.concatenate([[0], np.cumsum(high - low)])
    begun = np.searchsorted(low, time, side="right")
    inside = np.where(begun > 0, np.maximum(high[np.maximum(begun, 1) - 1] - time, 0), 0)
    return (total[begun] - inside).astype(np.float64)
