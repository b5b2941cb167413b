"""Hold in one object all data from which the tables of ranges are computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Segments, attribute_launched, merge
from nsysprof.analysis.attribution.attributed_ranges import Attributed
from nsysprof.analysis.attribution.caused_work import CausedWork, adopted_of_instances
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.analysis.overview.memory import DeviceMemory
from nsysprof.arrays import find_places
from nsysprof.results.power_samples import GpuEnergy
from nsysprof.trace.schema import Bools, Calls, GpuMetrics, Int64s, Rows, Tables, Work

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
