"""Compute the energy that a GPU used while the work of a range ran, from samples of the board's energy counter.

The counter changes every few dozen milliseconds, and between two changes only the sum is known. A part of that time
gets its share of the sum, with an error bound: it used at least the lowest power seen, and at most the highest. The
counter also follows changes of load late, which the bound includes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nsysprof.analysis.attribution.intervals import measure, union_of_groups
from nsysprof.results.power_samples import GpuEnergy, RangeEnergy
from nsysprof.trace.schema import DeviceRow, Floats, Int64s

_MJ_PER_J = 1e3
# In two recordings of power_phases on an H200, the counter followed the end of a load by 7 to 35 ms.
LAG_NS = 40_000_000


def by_device(power: Sequence[GpuEnergy], devices: Sequence[DeviceRow]) -> dict[int, GpuEnergy]:
    """Return the energy counters of a trace's GPUs by device number.

    A GPU is found by UUID, or else by its position in NVML's order.
    """
    energy_by_device = {}
    for device in devices:
        same = [gpu for gpu in power if device.uuid and _plain(gpu.uuid) == _plain(device.uuid)]
        same = same or [gpu for gpu in power if not device.uuid and gpu.index == device.device_id]
        if same:
            energy_by_device[device.device_id] = same[0]
    return energy_by_device


def _plain(uuid: str) -> str:
    return uuid.lower().removeprefix("gpu-").replace("-", "")


def energy_in_groups(energy: GpuEnergy, start_ns: Int64s, end_ns: Int64s, group: Int64s, groups: int) -> RangeEnergy:
    """Return the energy of the board during the intervals of each group. Time that several intervals share counts once.

    start_ns, end_ns: the intervals, since session start.
    group: the group of each interval, 0 ... groups-1.
    """
    joules, error = np.full(groups, np.nan), np.full(groups, np.nan)
    covered = np.zeros(groups, dtype=np.int64)
    time, counter = energy.time_ns, energy.energy_mj
    if len(time) < 2:
        return RangeEnergy(joules, error, covered)
    length = np.diff(time).astype(np.float64)
    spent = np.diff(counter) / _MJ_PER_J
    power = spent / length
    least, most = float(power.min()), float(power.max())
    owner, starts, ends = union_of_groups(group, start_ns, end_ns)
    edges = np.searchsorted(owner, np.arange(groups + 1))
    for number in range(groups):
        low, high = (bounds[edges[number] : edges[number + 1]] for bounds in (starts, ends))
        covered[number] = int((high - low).sum())
        if len(low) == 0 or low[0] < time[0] or high[-1] > time[-1]:
            continue  # part of this time was not sampled
        part = measure(low, high, time[:-1], time[1:])[0].astype(np.float64)
        joules[number] = (spent * part / length).sum()
        floor, ceiling = _bounds(low, high, time, spent, least, most)
        error[number] = max(ceiling - joules[number], joules[number] - floor, 0.0)
    return RangeEnergy(joules, error, covered)


def _bounds(low: Int64s, high: Int64s, time: Int64s, spent: Floats, least: float, most: float) -> tuple[float, float]:
    """Return the least and the most energy (J) that was used in disjoint intervals, however late the counter is.

    What was used in an interval is in the counter at its end, or up to the lag later. So the counter's time for
    it lies within the interval that is prolonged by the lag, and holds the interval without its beginning.

    spent: the energy between one time of the counter and the next (J).
    least, most: the bounds of the power (J/ns).
    """
    whole = float((high - low).sum())
    _, begin, end = union_of_groups(np.zeros(len(low), dtype=np.int64), low, high + LAG_NS)
    around = measure(begin, end, time[:-1], time[1:])[0].astype(np.float64)
    outside = float((end - begin).sum() - around.sum())
    ceiling = np.minimum(most * around, spent - least * (np.diff(time) - around)).sum() + most * outside
    ceiling -= least * float((end - begin).sum() - whole)
    longer = high - low > LAG_NS
    if not longer.any():
        return least * whole, float(ceiling)
    within = measure(low[longer] + LAG_NS, high[longer], time[:-1], time[1:])[0].astype(np.float64)
    floor = np.maximum(least * within, spent - most * (np.diff(time) - within)).sum() + least * (whole - within.sum())
    return float(floor), float(ceiling)
