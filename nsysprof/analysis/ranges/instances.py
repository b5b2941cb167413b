"""Make the table of range instances: when each ran, what it launched, and how long the GPU worked on that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Segments, expand
from nsysprof.analysis.attribution.nesting import Paths
from nsysprof.analysis.attribution.work_stretches import DeviceWork, OrderedWork
from nsysprof.trace.schema import Bools, Int64s, Ints

_ROWS_AT_ONCE = 1 << 21
_FAR = np.iinfo(np.int64).max


@dataclass(frozen=True)
class InstanceWork:
    """What each instance launched, one entry per instance."""

    kernel_count: Int64s
    kernel_total_ns: Int64s
    # The union of its work on each device, added over devices (ns).
    gpu_busy_ns: Int64s
    # The time between first start and last end of its work on each device during which that device was not busy (ns).
    gpu_idle_ns: Int64s
    # The first start and the last end of its work on any device (ns); 0 without work.
    first_ns: Int64s
    last_ns: Int64s


def portions(segments: Segments) -> Iterator[tuple[Int64s, Ints]]:
    """Yield the pairs (instance, row of work) in portions, each of whole instances in order."""
    by_instance = np.argsort(segments.instance, kind="stable")
    instance, low, high = (each[by_instance] for each in (segments.instance, segments.low, segments.high))
    if len(instance) == 0:
        return
    reached = np.cumsum(high - low)
    portion = reached[np.searchsorted(instance, instance, "right") - 1] // _ROWS_AT_ONCE
    for number in np.unique(portion):
        part = slice(*np.searchsorted(portion, [number, number + 1]))
        which, position = expand(low[part], high[part])
        yield instance[part][which], segments.order[position]


def measure_instances(ordered: dict[str, OrderedWork], segments: dict[str, Segments], instances: int) -> InstanceWork:
    """Return what each instance launched. Work inside several nested instances counts in each."""
    found = InstanceWork(*(np.zeros(instances, dtype=np.int64) for _ in range(6)))
    found.first_ns[:] = _FAR
    found.last_ns[:] = -_FAR
    for style, of_style in segments.items():
        if len(of_style.instance) == 0:
            continue
        work, instance, low, high = ordered[style], of_style.instance, of_style.low, of_style.high
        first, last = work.of_kernels(low), work.of_kernels(high)
        np.add.at(found.kernel_count, instance, last - first)
        np.add.at(found.kernel_total_ns, instance, work.kernel_ns(first, last))
        for device in work.devices:
            _measure_device(device, instance, *device.stretches(low, high), found)
    empty = found.last_ns < found.first_ns
    found.first_ns[empty] = found.last_ns[empty] = 0
    return found


def _measure_device(device: DeviceWork, instance: Int64s, low: Int64s, high: Int64s, found: InstanceWork) -> None:
    """Add to `found` what the stretches of the instances contain on one device."""
    instances = len(found.first_ns)
    filled = np.flatnonzero(high > low)
    instance, low, high = instance[filled], low[filled], high[filled]
    first, last = np.full(instances, _FAR), np.full(instances, -_FAR)
    starts, ends = device.spans(low, high)
    np.minimum.at(first, instance, starts)
    np.maximum.at(last, instance, ends)
    busy = device.busy(instance, low, high, instances)
    used = last >= first
    found.gpu_busy_ns[used] += busy[used]
    found.gpu_idle_ns[used] += last[used] - first[used] - busy[used]
    np.minimum(found.first_ns, first, out=found.first_ns)
    np.maximum(found.last_ns, last, out=found.last_ns)


def number_instances(group: Int64s) -> Int64s:
    """Return the number of each instance within its group, from 0 in the given order."""
    order = np.argsort(group, kind="stable")
    begins = np.flatnonzero(np.diff(group[order], prepend=-1))
    number = np.zeros(len(group), dtype=np.int64)
    number[order] = np.arange(len(group)) - np.repeat(begins, np.diff(np.append(begins, len(group))))
    return number


def tabulate_instances(
    ranges: pd.DataFrame, keys: pd.DataFrame, work: InstanceWork, warm_up: Bools, paths: Paths
) -> pd.DataFrame:
    """Return one row per instance: ranges in order of their first start, and their instances by start.

    ranges: as in Attributed.
    keys: the names by group.
    paths: the place of each instance.
    """
    group = ranges["group"].to_numpy(dtype=np.int64)
    start, end = (ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns"))
    order = np.argsort(group, kind="stable")
    number = number_instances(group)
    texts = {
        column: _take(keys[key].tolist(), group[order])
        for column, key in (("range", "name"), ("style", "style"), ("domain", "domain"))
    }
    numbers = {
        "instance": number, "start_ns": start, "wall_ns": end - start, "kernel_count": work.kernel_count,
        "kernel_total_ns": work.kernel_total_ns, "gpu_busy_ns": work.gpu_busy_ns, "gpu_idle_ns": work.gpu_idle_ns,
    }  # fmt: skip
    table = pd.DataFrame(
        {**texts, **{name: pd.array(values[order], dtype="Int64") for name, values in numbers.items()}}
    )
    table["is_warmup"] = warm_up[order]
    table["path"] = _take(paths.texts, paths.of_instance[order])
    for column in ("op_id", "seq"):
        values = ranges[column].to_numpy(dtype=np.int64)[order] if column in ranges else np.full(len(order), -1)
        table[column] = pd.arrays.IntegerArray(values, values < 0)
    return table


def _take(texts: list[str], rows: Int64s) -> pd.api.extensions.ExtensionArray:
    """Return the texts of some rows. Each is converted to pandas' type of texts once, however many rows have it."""
    return pd.Series(texts, dtype=None if texts else object).array.take(rows)
