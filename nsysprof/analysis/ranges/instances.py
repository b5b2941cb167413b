"""Describe each instance of a range: when it ran, what it launched, and how long the GPU worked on that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Segments, expand
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.trace.schema import Bools, Int64s, Ints, Work

_ROWS_AT_ONCE = 1 << 21
_FAR = np.iinfo(np.int64).max


@dataclass(frozen=True)
class InstanceWork:
    """What each instance launched, one entry per instance."""

    kernel_count: Int64s
    kernel_total_ns: Int64s
    # The union of its work on each device, added over devices.
    gpu_busy_ns: Int64s
    # The time between first start and last end of its work on each device in which it was not busy.
    gpu_idle_ns: Int64s
    # First start and last end of its work on any device; 0 without work.
    first_ns: Int64s
    last_ns: Int64s


def portions(segments: Segments) -> Iterator[tuple[Int64s, Ints]]:
    """Yield (instance, row of work) of every pair, some instances at a time, each of them whole and in order."""
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


def measure_instances(work: Work, segments: dict[str, Segments], instances: int) -> InstanceWork:
    """Return what each instance launched; work inside several nested instances counts in each."""
    found = InstanceWork(*(np.zeros(instances, dtype=np.int64) for _ in range(6)))
    devices, code = np.unique(work.device_of, return_inverse=True)
    for of_style in segments.values():
        for instance, row in portions(of_style):
            # Entries of one instance are adjacent, so sums are taken over stretches.
            edges = np.flatnonzero(np.diff(instance, prepend=-1))
            chosen = instance[edges]
            start, duration = work.start_ns[row], work.duration_ns[row]
            is_kernel = row < work.kernels
            found.kernel_count[chosen] = np.add.reduceat(is_kernel, edges, dtype=np.int64)
            found.kernel_total_ns[chosen] = np.add.reduceat(duration * is_kernel, edges, dtype=np.int64)
            lengths = np.diff(np.append(edges, len(row)))
            number = np.repeat(np.arange(len(chosen), dtype=np.int32), lengths)
            if len(devices) > 1:
                number = number * np.int32(len(devices)) + code[work.variant[row]].astype(np.int32)
            cells = len(chosen) * max(1, len(devices))
            busy = np.zeros(cells, dtype=np.int64)
            union = union_ns(start, duration, number)
            busy[: len(union)] = union
            first, last = _spans(start, start + duration, number, cells, edges if len(devices) == 1 else None)
            used = last >= first
            span = np.where(used, last - first, 0)
            by_device = (len(chosen), -1)
            found.gpu_busy_ns[chosen] = busy.reshape(by_device).sum(axis=1)
            found.gpu_idle_ns[chosen] = (span - busy).reshape(by_device).sum(axis=1)
            found.first_ns[chosen] = first.reshape(by_device).min(axis=1)
            found.last_ns[chosen] = last.reshape(by_device).max(axis=1)
    return found


def _spans(start: Int64s, end: Int64s, number: Ints, cells: int, edges: Int64s | None) -> tuple[Int64s, Int64s]:
    """Return the first start and the last end of each cell. edges: where each cell begins, if they lie together."""
    if edges is not None:
        return np.minimum.reduceat(start, edges), np.maximum.reduceat(end, edges)
    first, last = np.full(cells, _FAR), np.full(cells, -_FAR)
    np.minimum.at(first, number, start)
    np.maximum.at(last, number, end)
    return first, last


def number_instances(group: Int64s) -> Int64s:
    """Return the number of each instance among those of its group, from 0 in the order given."""
    order = np.argsort(group, kind="stable")
    begins = np.flatnonzero(np.diff(group[order], prepend=-1))
    number = np.zeros(len(group), dtype=np.int64)
    number[order] = np.arange(len(group)) - np.repeat(begins, np.diff(np.append(begins, len(group))))
    return number


def tabulate_instances(
    ranges: pd.DataFrame, keys: pd.DataFrame, work: InstanceWork, warm_up: Bools, paths: list[str]
) -> pd.DataFrame:
    """Return one row an instance, the ranges in order of first start and each one's instances by start.

    ranges: as in Attributed. keys: names by group. paths: of each instance.
    """
    group = ranges["group"].to_numpy(dtype=np.int64)
    start, end = (ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns"))
    order = np.argsort(group, kind="stable")
    number = number_instances(group)
    texts = {
        "range": keys["name"].to_numpy(dtype=object)[group[order]],
        "style": keys["style"].to_numpy(dtype=object)[group[order]],
        "domain": keys["domain"].to_numpy(dtype=object)[group[order]],
    }
    numbers = {
        "instance": number, "start_ns": start, "wall_ns": end - start, "kernel_count": work.kernel_count,
        "kernel_total_ns": work.kernel_total_ns, "gpu_busy_ns": work.gpu_busy_ns, "gpu_idle_ns": work.gpu_idle_ns,
    }  # fmt: skip
    table = pd.DataFrame(
        {**texts, **{name: pd.array(values[order], dtype="Int64") for name, values in numbers.items()}}
    )
    table["is_warmup"] = warm_up[order]
    table["path"] = np.array(paths, dtype=object)[order] if paths else np.zeros(0, dtype=object)
    for column in ("op_id", "seq"):
        values = ranges[column].to_numpy(dtype=np.int64)[order] if column in ranges else np.full(len(order), -1)
        table[column] = pd.arrays.IntegerArray(values, values < 0)
    return table
