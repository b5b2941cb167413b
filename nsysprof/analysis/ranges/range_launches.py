"""Count the launches of each range from its calls, which exist even where the profiler lost the kernels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Segments, attribute_launched, merge
from nsysprof.arrays import find_places
from nsysprof.trace.schema import Bools, Calls, Int64s, Rows

_CALLS_AT_ONCE = 1 << 22


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
