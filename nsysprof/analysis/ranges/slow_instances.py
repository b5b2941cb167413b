"""Find range instances that took unusually long, and explain each by comparing it with the median instance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.library_ranges import users_ranges
from nsysprof.analysis.attribution.range_structure import RangeStructure, tolerance_ns
from nsysprof.analysis.kernel_names.variant_names import call_names, plain_call_name
from nsysprof.analysis.ranges.instances import InstanceWork, RangeEvidence
from nsysprof.notes import Note, make_note
from nsysprof.trace.schema import Calls, Int64s, Tables
from nsysprof.units import format_ns

_LEAST_STEADY = 8
# An instance is slow if it took this many times the median, and longer than the variation of the others explains.
_LEAST_RATIO = 1.25
_MOST = 5
# A difference is reported if it explains at least this share of the additional time.
_SHARE = 0.25


@dataclass(frozen=True)
class SlowInstance:
    """A range instance that took unusually long."""

    # The row of the slow instance.
    row: int
    wall_ns: int
    # The median wall time of its series (ns).
    median_ns: int
    # What differed from the median instance, in words.
    because: str


def find_slow_instances(
    tables: Tables, ranges: pd.DataFrame, structure: RangeStructure, kernel_count: Int64s, kernel_total_ns: Int64s
) -> list[SlowInstance]:
    """Return the slow instances with the most additional time, without those inside another slow one.

    kernel_count, kernel_total_ns: the kernels of each instance, including adopted ones.
    """
    wall = (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64)
    reference = _references(ranges, structure, wall)
    slow = set(reference)
    found = [row for row in reference if not _is_inside(row, slow, structure.parent)]
    found.sort(key=lambda row: int(wall[reference[row]] - wall[row]))
    facts = _Facts(tables, ranges, structure, wall, kernel_count, kernel_total_ns)
    return [
        SlowInstance(row, int(wall[row]), int(wall[reference[row]]), facts.differences(row, reference[row]))
        for row in found[:_MOST]
    ]


def _references(ranges: pd.DataFrame, structure: RangeStructure, wall: Int64s) -> dict[int, int]:
    """Return for each slow instance the median instance of its series."""
    found: dict[int, int] = {}
    rows = np.flatnonzero(users_ranges(ranges) & ~structure.warm_up)
    order = rows[np.argsort(structure.series[rows], kind="stable")]
    for members in np.split(order, np.flatnonzero(np.diff(structure.series[order])) + 1):
        if len(members) < _LEAST_STEADY:
            continue
        middle, tolerance = tolerance_ns(wall[members], len(members))
        slow = members[(wall[members] > middle + tolerance) & (wall[members] > _LEAST_RATIO * middle)]
        if len(slow):
            median = int(members[np.argsort(wall[members], kind="stable")[(len(members) - 1) // 2]])
            found |= dict.fromkeys(slow.tolist(), median)
    return found


def _is_inside(row: int, slow: set[int], parent: Int64s) -> bool:
    above = int(parent[row])
    while above >= 0:
        if above in slow:
            return True
        above = int(parent[above])
    return False


class _Facts:
    """The facts by which two instances of a series are compared."""

    def __init__(
        self,
        tables: Tables,
        ranges: pd.DataFrame,
        structure: RangeStructure,
        wall: Int64s,
        kernel_count: Int64s,
        kernel_total_ns: Int64s,
    ) -> None:
        self.tables, self.structure, self.wall = tables, structure, wall
        self.start, self.end, self.tid, self.group = (
            ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns", "global_tid", "group")
        )
        self.kernel_count, self.kernel_total_ns = kernel_count, kernel_total_ns
        self._calls: dict[int, Int64s] = {}

    def differences(self, row: int, median: int) -> str:
        """Return what differed from the median instance, the largest difference first."""
        longer = int(self.wall[row] - self.wall[median])
        said: list[tuple[int, str]] = []
        inside = [self._children(each) for each in (row, median)]
        for name in inside[0]:
            more = inside[0][name] - inside[1].get(name, 0)
            said.append((more, f"{name} inside it took {format_ns(more)} longer"))
        calls = [self._api(each) for each in (row, median)]
        for name, (count, total) in calls[0].items():
            usual, usually = calls[1].get(name, (0, 0))
            times = f"{count} {'call' if count == 1 else 'calls'}" + (f" instead of {usual}" if count != usual else "")
            said.append((total - usually, f"{name} took {format_ns(total - usually)} longer ({times})"))
        called = [sum(total for _, total in its.values()) for its in calls]
        outside = int(self.wall[row]) - called[0], int(self.wall[median]) - called[1]
        works = "operators" if self.tables.is_of_processor else "kernels"
        if self.tables.calls is not None:
            more = outside[0] - outside[1]
            of = works if self.tables.is_of_processor else "CUDA calls"
            said.append((more, f"its thread was outside {of} for {format_ns(more)} longer"))
        kernels = int(self.kernel_total_ns[row] - self.kernel_total_ns[median])
        said.append((kernels, f"its {works} took {format_ns(kernels)} longer"))
        chosen = [text for amount, text in sorted(said, key=lambda each: -each[0]) if amount >= _SHARE * longer][:3]
        count = int(self.kernel_count[row] - self.kernel_count[median])
        if count:
            noun = works.removesuffix("s") if abs(count) == 1 else works
            chosen.append(f"it has {abs(count):,} {noun} {'more' if count > 0 else 'fewer'}")
        return "; ".join(chosen) or "nothing that was recorded differs"

    def _children(self, row: int) -> dict[str, int]:
        """Return the wall time of the ranges directly inside one, by family."""
        found: dict[str, int] = {}
        for child in np.flatnonzero(self.structure.parent == row).tolist():
            name = self.structure.families[self.group[child]]
            found[name] = found.get(name, 0) + int(self.wall[child])
        return found

    def _api(self, row: int) -> dict[str, tuple[int, int]]:
        """Return number and total time of the CUDA calls of the range's thread within it, by name."""
        calls = self.tables.calls
        if calls is None:
            return {}
        mine = self._calls_of(calls, int(self.tid[row]))
        low, high = np.searchsorted(calls.start_ns[mine], (self.start[row], self.end[row]))
        rows = mine[low:high]
        names = call_names(self.tables, plain_call_name)
        number = names.numbers(calls.variant[rows])
        found = {}
        for each in np.unique(number).tolist():
            its = rows[number == each]
            found[str(names.texts[each])] = (len(its), int(calls.duration_ns[its].sum(dtype=np.int64)))
        return found

    def _calls_of(self, calls: Calls, tid: int) -> Int64s:
        if tid not in self._calls:
            mine = np.flatnonzero((calls.tid_of == tid)[calls.variant])
            self._calls[tid] = mine[np.argsort(calls.start_ns[mine], kind="stable")]
        return self._calls[tid]


def describe_slow(found: Sequence[SlowInstance], labels: Sequence[str]) -> str:
    """Return one sentence for each slow instance: its time, its median time, and what was different."""
    return " ".join(
        f"{label} took {format_ns(each.wall_ns)} instead of {format_ns(each.median_ns)}: {each.because}."
        for each, label in zip(found, labels, strict=True)
    )


def mark_slow_instances(instances: pd.DataFrame, evidence: RangeEvidence, each: InstanceWork) -> tuple[Note, ...]:
    """Write into the table why instances are slow, and return a note about them; no note where none is slow."""
    structure, group = evidence.attributed.structure, evidence.group
    counts = each.kernel_count, each.kernel_total_ns
    if evidence.adopted is not None:
        counts = counts[0] + evidence.adopted[0], counts[1] + evidence.adopted[1]
    found = find_slow_instances(evidence.tables, evidence.attributed.ranges, structure, *counts)
    instances["slow_because"] = pd.Series([None] * len(instances), dtype=object)
    if not found:
        return ()
    place = np.empty(len(group), dtype=np.int64)
    place[evidence.listed] = np.arange(len(group))
    labels, members = [], np.bincount(group)
    for slow in found:
        row = int(place[slow.row])
        instances.loc[row, "slow_because"] = slow.because
        name, number = str(instances["range"].iloc[row]), instances["instance"].iloc[row]
        # A numbered name such as `step13` says which instance it is, unless there are several of it.
        is_alone = structure.families[group[slow.row]] != name and members[group[slow.row]] == 1
        labels.append(name if is_alone else f"{name} (instance {number})")
    return (make_note("slow-instances", instances=len(found), described=describe_slow(found, labels)),)
