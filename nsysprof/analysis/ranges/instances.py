"""Make the table of range instances: when each ran, what it launched, and how long the GPU worked on that.

Hold in one object all data from which the tables of ranges are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import (
    FREE_PAIRS,
    MOST_AROUND,
    SCOPES,
    Attributed,
    Segments,
    attribute_launched,
    expand,
    merge,
)
from nsysprof.analysis.attribution.caused_work import CausedWork, adopted_of_instances
from nsysprof.analysis.attribution.nesting import Paths
from nsysprof.analysis.attribution.work_stretches import DeviceWork, OrderedWork
from nsysprof.analysis.kernel_names.variant_names import Names, Texts, call_names, plain_call_name
from nsysprof.analysis.overview.memory import DeviceMemory
from nsysprof.arrays import find_places
from nsysprof.native.load import loop
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.trace.schema import PID_MASK, Bools, Calls, GpuMetrics, Int64s, Ints, Rows, Tables, Work

_CALLS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class RangeEvidence:
    """All data about the ranges of a trace before it is summed up."""

    tables: Tables
    # The instances of ranges and what each launched.
    attributed: Attributed
    # The names of kernels.
    names: Names
    # Device memory over time; None where it was not recorded.
    memory: DeviceMemory | None
    # Calls that replayed graphs with unknown kernels: those recorded as wholes, and those not recorded at all.
    replays: tuple[Int64s, Int64s]
    # What each API call did: launched, replayed, or lost its work.
    launch_calls: LaunchCalls
    # Sampled GPU metrics; None where there are none.
    metrics: GpuMetrics | None
    # What ranges adopted and captured; None where only their own launches are wanted.
    caused: CausedWork | None
    # The energy of GPUs by their number on the machine; empty where it was not sampled.
    power: Mapping[int, GpuEnergy] = field(default_factory=dict)

    @property
    def work(self) -> Work:
        """Return the GPU work of the trace."""
        return self.tables.work

    @property
    def groups(self) -> int:
        """Return how many different (range, style, domain) there are."""
        return len(self.attributed.keys)

    @cached_property
    def group(self) -> Int64s:
        """Return the group of each instance."""
        return self.attributed.ranges["group"].to_numpy(dtype=np.int64)

    @cached_property
    def listed(self) -> Int64s:
        """Return the instances in the order of their table: by group, and by start within a group."""
        return np.argsort(self.group, kind="stable")

    @cached_property
    def adopted(self) -> tuple[Int64s, Int64s] | None:
        """Return how many kernels each instance adopted, and their total time (ns); None where not wanted."""
        if self.caused is None:
            return None
        return adopted_of_instances(self.work, self.caused, self.attributed.structure.parent)


@dataclass(frozen=True)
class LaunchCalls:
    """For each API call: whether it launched, whether it replayed a graph, and whether its work is missing."""

    launches: Bools
    replays: Bools
    lost: Bools


@dataclass(frozen=True)
class RangeLaunches:
    """The number of launches by group of ranges."""

    # All launches, including graph replays.
    launches: Int64s
    replays: Int64s
    # Launches whose work is not in the trace.
    lost: Int64s
    # Whether the work of all launches is missing, by group and by instance.
    is_lost: Bools
    is_lost_instance: Bools


def judge_launches(counts: Int64s, of_instance: Int64s) -> RangeLaunches:
    """Return the launches with what they say of groups and instances.

    counts: all launches of each group, its replays, and the launches whose work is missing: (3, groups).
    of_instance: all launches of each instance, and those whose work is missing: (2, instances).
    """
    is_lost = (counts[2] > 0) & (counts[2] == counts[0])
    is_lost_instance = (of_instance[1] > 0) & (of_instance[1] == of_instance[0])
    return RangeLaunches(counts[0], counts[1], counts[2], is_lost, is_lost_instance)


def count_launches(ranges: pd.DataFrame, groups: int, calls: Calls | None, launched: LaunchCalls) -> RangeLaunches:
    """Return the launches of each group of `ranges`. A launch inside nested ranges of one group counts once."""
    group = ranges["group"].to_numpy(dtype=np.int64)
    counts = np.zeros((3, groups), dtype=np.int64)
    of_instance = np.zeros((2, len(ranges)), dtype=np.int64)
    # Each launch is within the same ranges whichever others are looked at; some at a time take less memory.
    for low in range(0, len(launched.launches), _CALLS_AT_ONCE):
        rows = np.flatnonzero(launched.launches[low : low + _CALLS_AT_ONCE]).astype(np.int32) + np.int32(low)
        for found in attribute_launched(rows, calls, ranges).values():
            if len(found.instance):
                _count_some(counts, of_instance, rows[found.order], found, group, launched)
    return judge_launches(counts, of_instance)


def _count_some(
    counts: Int64s, of_instance: Int64s, call: Rows, found: Segments, group: Int64s, launched: LaunchCalls
) -> None:
    """Add some launches to the counts of all, replayed and lost ones of groups, and of all and lost ones of instances.

    call: the rows of the calls that `found` orders. The launches of a range are consecutive there.
    """
    owner, low, high = merge(group[found.instance], found.low, found.high)
    np.add.at(counts[0], owner, high - low)
    np.add.at(of_instance[0], found.instance, found.high - found.low)
    for count, flags in ((counts[1], launched.replays), (counts[2], launched.lost)):
        # Most programs replay no graph and lose no launch.
        places = np.flatnonzero(flags[call])
        if len(places):
            np.add.at(count, owner, find_places(places, high) - find_places(places, low))
    lost = np.flatnonzero(launched.lost[call])
    if len(lost):
        np.add.at(of_instance[1], found.instance, find_places(lost, found.high) - find_places(lost, found.low))


_ROWS_AT_ONCE = 1 << 21
_FAR = np.iinfo(np.int64).max
# The most functions to list. Each costs time and memory for every range, and no program spends much time in more.
_MOST_FUNCTIONS = 64
_BLOCK = 1 << 20
# What the compiled code returns where the calls of a thread are not in order.
_NOT_IN_ORDER = -1
# How many numbers it keeps of each thread.
_STATE = 7


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


@dataclass(frozen=True)
class CalledFunctions:
    """The functions of the CUDA API in which a program spent the most time."""

    # The names of all functions, and the number of each variant's function among them.
    texts: Texts
    of_variant: Ints
    # The numbers of the functions to list, those with the most time first.
    chosen: list[int]


@dataclass(frozen=True)
class CountedCalls:
    """How many calls are within ranges. A call within nested ranges of one family or group counts once."""

    # How many calls of each function each family encloses, and their total time (ns): (functions, families).
    calls: Int64s
    total_ns: Int64s
    # The launches of each group: all, replays of graphs, and those without work in the trace: (3, groups).
    of_groups: Int64s
    # All launches and those without work of each instance, where any is without: (2, instances).
    of_instances: Int64s


def find_functions(tables: Tables) -> CalledFunctions:
    """Return the functions that were called, those with the most total time first."""
    names = call_names(tables, plain_call_name)
    number: Ints = names.of_variant.astype(np.int16 if len(names.texts) < 1 << 15 else np.int32)
    if tables.calls is None:
        return CalledFunctions(names.texts, number, [])
    calls, total = _sum_variants(tables.calls)
    of_function = np.bincount(number, total, len(names.texts))
    called = np.flatnonzero(np.bincount(number, calls, len(names.texts)))
    largest = called[np.argsort(-of_function[called], kind="stable")]
    return CalledFunctions(names.texts, number, largest[:_MOST_FUNCTIONS].tolist())


def _sum_variants(calls: Calls) -> tuple[Int64s, Int64s]:
    """Return how many calls of each variant there are, and their total time (ns)."""
    sums = np.zeros((len(calls.variants), 2), dtype=np.int64)
    run = loop("sum_codes")
    if run is not None and run(calls.variant, calls.duration_ns, len(sums), sums.ravel()) == 0:
        return sums[:, 0], sums[:, 1]
    for low in range(0, len(calls), _BLOCK):
        part = slice(low, low + _BLOCK)
        sums[:, 0] += np.bincount(calls.variant[part], minlength=len(sums))
        np.add.at(sums[:, 1], calls.variant[part], calls.duration_ns[part].astype(np.int64))
    return sums[:, 0], sums[:, 1]


def count_calls(
    evidence: RangeEvidence,
    families: tuple[pd.DataFrame, Int64s] | None = None,
    functions: CalledFunctions | None = None,
) -> CountedCalls | None:
    """Return the calls within the ranges of each family and each group.

    None where compiled code is not to be had, or where more ranges are open around each call than in any program.

    families: the result of number_families; None where only launches are asked for.
    functions: the functions to list; None for none.
    """
    calls, ranges = evidence.tables.calls, evidence.attributed.ranges
    run = None if calls is None else loop("count_calls")
    if run is None or calls is None or len(ranges) == 0:
        return None
    count, family = (
        (1, np.zeros(evidence.groups, dtype=np.int64)) if families is None else (len(families[0]), families[1])
    )
    chosen, column_of = _columns(calls, functions)
    shapes = (count, chosen, 2), (evidence.groups, 3), (len(ranges), 2)
    numbers = (family[evidence.group], evidence.group, np.arange(len(ranges)))
    sums = [np.zeros(shape, dtype=np.int64) for shape in shapes]
    order: Rows = np.zeros(0, dtype=np.int32)
    for style, scope in SCOPES.items():
        owned = _own_ranges(calls, ranges, style, -1 if scope == "thread" else PID_MASK, numbers)
        code = 0 if owned is None else _NOT_IN_ORDER
        for _ in range(2):  # for a second time where the calls are not in order
            if owned is None or code != _NOT_IN_ORDER:
                break
            found = [np.zeros(shape, dtype=np.int64) for shape in shapes]
            code = _run(run, calls, order, owned, column_of, evidence.launch_calls, found)
            if code == _NOT_IN_ORDER:
                order = np.argsort(calls.start_ns, kind="stable").astype(np.int32)
            else:
                sums = [total + its for total, its in zip(sums, found, strict=True)]
        if code < 0:
            return None
    by_family, of_groups, of_instances = sums
    return CountedCalls(by_family[..., 0].T, by_family[..., 1].T, of_groups.T, of_instances.T)


def _columns(calls: Calls, functions: CalledFunctions | None) -> tuple[int, Int64s]:
    """Return how many functions are listed, and the place of each variant of call among them, or -1."""
    if functions is None:
        return 0, np.full(len(calls.variants), -1, dtype=np.int64)
    column = np.full(len(functions.texts), -1, dtype=np.int64)
    column[functions.chosen] = np.arange(len(functions.chosen))
    return len(functions.chosen), column[functions.of_variant]


@dataclass(frozen=True)
class _OwnedRanges:
    """The ranges of one style, by thread or process, and in order of start."""

    # Begin, end, family, group and number of each: (5, ranges).
    listed: Int64s
    # Where the ranges of each owner begin; the last entry is the end.
    edges: Int64s
    # The number of the owner of each variant of call, or -1.
    owner_of: Int64s


def _own_ranges(
    calls: Calls, ranges: pd.DataFrame, style: str, mask: int, numbers: tuple[Int64s, ...]
) -> _OwnedRanges | None:
    """Return the ranges of a style; None where there are none.

    numbers: the family, the group and the number of each range.
    """
    rows = np.flatnonzero((ranges["style"] == style).to_numpy(dtype=bool))
    if len(rows) == 0:
        return None
    owner = ranges["global_tid"].to_numpy(dtype=np.int64)[rows] & mask
    rows = rows[np.argsort(owner, kind="stable")]  # ranges are in order of start
    owners, edges = np.unique(np.sort(owner), return_index=True)
    times = (ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns"))
    tid = calls.tid_of & mask
    at = np.minimum(np.searchsorted(owners, tid), len(owners) - 1)
    owner_of = np.where(owners[at] == tid, at, -1)
    return _OwnedRanges(np.stack([each[rows] for each in (*times, *numbers)]), np.append(edges, len(rows)), owner_of)


def _run(
    run: Callable[..., int], calls: Calls, order: Rows, owned: _OwnedRanges, column_of: Int64s, launched: LaunchCalls,
    found: list[Int64s],
) -> int:  # fmt: skip
    """Add the calls within these ranges to what is found; return what the compiled code returns.

    order: the rows of the calls in order; empty where they are in order.
    """
    sums, of_groups, of_instances = found
    count, owners = owned.listed.shape[1], len(owned.edges) - 1
    flags = (_flags(each) for each in (launched.launches, launched.replays, launched.lost))
    room = (np.empty(count, dtype=np.int64) for _ in range(3))
    return run(
        order, calls.start_ns, calls.duration_ns, calls.variant, owned.owner_of, column_of, len(column_of),
        sums.shape[1], *flags, owned.edges, owners, owned.listed.ravel(), count,
        np.zeros(_STATE * owners, dtype=np.int64), *room, np.zeros(len(sums) + len(of_groups), dtype=np.int64),
        len(sums), MOST_AROUND * len(calls) + FREE_PAIRS, sums.ravel(), of_groups.ravel(), of_instances.ravel(),
    )  # fmt: skip


def _flags(mask: Bools) -> Bools:
    """Return the mask; an empty one for one that takes no memory because it is False everywhere."""
    return mask if mask.flags.c_contiguous else mask[:0].copy()
