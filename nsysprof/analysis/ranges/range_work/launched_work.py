"""Sum up what the ranges of each name launched: counts, times, bytes, and kernels by name.

Measure the work of all ranges in one pass over the work in order of its start, by compiled code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import (
    FREE_PAIRS,
    MOST_AROUND,
    Segments,
    expand,
    instances_of_calls,
    merge,
    refuse_many_pairs,
)
from nsysprof.analysis.attribution.calls import capture_windows
from nsysprof.analysis.attribution.caused_work import CausedWork, tabulate_caused
from nsysprof.analysis.attribution.duration_statistics import OwnedDurations, sum_by, summarize_durations
from nsysprof.analysis.attribution.nesting import nesting_levels
from nsysprof.analysis.attribution.work_stretches import OrderedWork, add_up, parts_of_owners
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.analysis.ranges.instances import InstanceWork, RangeEvidence, RangeLaunches
from nsysprof.native.load import loop
from nsysprof.results.analysis import CAUSED_KERNEL_COLUMNS, RANGE_KERNEL_COLUMNS
from nsysprof.trace.schema import COPY, FILL, KERNEL, PID_MASK, Bools, Int64s, Ints, Rows, Work

_COLUMNS = ("gpu_busy_ns", "kernel_total_ns", "kernel_count", "memcpy_bytes", "memset_bytes")
# The most pairs of a range's name and a kernel's name for each piece of work. A program in which every step has its own
# name has about one pair per launch.
_MOST_PAIRS = 4
_OF_INSTANCES = ("adopted_kernel_count", "adopted_kernel_total_ns")
_SOURCES = {"kernel_count": "instances", "kernel_total_ns": "total_ns"}
_ROWS_AT_ONCE = 1 << 21
_NO_KERNELS = ["kernel_count", "kernel_total_ns", "exclusive_kernel_count", "exclusive_kernel_total_ns"]
_NO_WORK = [*_NO_KERNELS, "gpu_busy_ns", "all_busy_ns", "projected_ns"]
_ALL = ["all_busy_ns", "caused_memcpy_bytes", "caused_memset_bytes"]
_CAPTURED = ["captured_kernel_count", "captured_kernel_total_ns"]


def sum_launched(evidence: RangeEvidence, ordered: dict[str, OrderedWork]) -> dict[str, Int64s]:
    """Return sums over what each group of ranges launched, by column. Work in nested ranges of one group counts once.

    gpu_busy_ns is the union of the work on each device, added over devices.
    """
    sums = {column: np.zeros(evidence.groups, dtype=np.int64) for column in _COLUMNS}
    for style, stretches in _stretches(evidence):
        for column, values in _sums(ordered[style], *stretches, evidence.groups).items():
            sums[column] += values
    return sums


def list_kernels(evidence: RangeEvidence, pool: Executor) -> pd.DataFrame:
    """Return the kernels that the ranges of each group launched, with RANGE_KERNEL_COLUMNS.

    Raises TraceForeignError for a trace that was made so that this table is many times its own size.
    """
    kernels: list[pd.DataFrame] = []
    for style, stretches in _stretches(evidence):
        work = OrderedWork(evidence.work, evidence.attributed.segments[style].order)
        for part in _summarize(work, evidence.names, stretches, pool):
            kernels.append(part)
            refuse_many_pairs(sum(map(len, kernels)), len(evidence.work.start_ns), _MOST_PAIRS)
    if not kernels:
        return pd.DataFrame(columns=list(RANGE_KERNEL_COLUMNS))
    table = pd.concat(kernels).sort_values("group", kind="stable")
    return name_kernels(table, evidence, RANGE_KERNEL_COLUMNS)


def _summarize(
    work: OrderedWork, names: Names, stretches: tuple[Int64s, Int64s, Int64s], pool: Executor
) -> Iterator[pd.DataFrame]:
    """Yield statistics of durations by group and number of the kernel's name, some groups at a time."""
    places = work.work
    kernels = np.where(places.kind_of == KERNEL, names.of_variant, -1)
    owned = OwnedDurations(
        *stretches, work.order, places.duration_ns, places.variant, kernels, max(1, len(names.texts))
    )
    found = owned.summarize()
    if found is None:
        yield from pool.map(_Kernels.summarize, _parts(work, names, *stretches))
        return
    for each in found:
        table = each.rename(columns={"owner": "group", "name": "number"})
        yield table.iloc[np.lexsort((-table["total_ns"].to_numpy(), table["group"].to_numpy()))]


def _stretches(evidence: RangeEvidence) -> Iterator[tuple[str, tuple[Int64s, Int64s, Int64s]]]:
    """Yield the stretches of work of the groups (group, low, high) by style of range, without styles that have none."""
    for style, segments in evidence.attributed.segments.items():
        stretches = merge(evidence.group[segments.instance], segments.low, segments.high)
        if len(stretches[0]):
            yield style, stretches


def _sums(work: OrderedWork, group: Int64s, low: Int64s, high: Int64s, groups: int) -> dict[str, Int64s]:
    """Return the sums over the stretches of each group."""
    first, last = work.of_kernels(low), work.of_kernels(high)
    busy = np.zeros(groups, dtype=np.int64)
    for device in work.devices:
        busy += device.busy(group, *device.stretches(low, high), groups)
    return {
        "gpu_busy_ns": busy,
        "kernel_count": add_up(group, last - first, groups),
        "kernel_total_ns": add_up(group, work.kernel_ns(first, last), groups),
        "memcpy_bytes": add_up(group, work.bytes_of(COPY, low, high), groups),
        "memset_bytes": add_up(group, work.bytes_of(FILL, low, high), groups),
    }


@dataclass(frozen=True)
class _Kernels:
    """Stretches of kernels of some groups, with the names and durations of all kernels in order of their calls."""

    duration_ns: Ints
    # The number of each kernel's name, and how many names there are.
    number: Ints
    names: int
    group: Int64s
    low: Int64s
    high: Int64s

    def summarize(self) -> pd.DataFrame:
        """Return statistics of durations by group and number of the kernel's name."""
        # Codes start at the first of these groups, so that they stay small.
        least = int(self.group[0])
        group = (self.group - least) * self.names
        narrow = int(group[-1]) + self.names < 1 << 31
        code = np.repeat(group.astype(np.int32 if narrow else np.int64), self.high - self.low)
        place = expand(self.low, self.high)[1]
        code += self.number[place]
        duration = self.duration_ns[place]
        del place  # one group may have all kernels of the trace
        table = summarize_durations(duration, code)
        table["group"], table["number"] = table.index // self.names + least, table.index % self.names
        return table


def _parts(work: OrderedWork, names: Names, group: Int64s, low: Int64s, high: Int64s) -> Iterator[_Kernels]:
    """Yield the kernels of some groups at a time: those of all groups are several times as large as the trace."""
    rows = work.kernel_rows
    low, high = work.of_kernels(low), work.of_kernels(high)
    filled = high > low
    group, low, high = group[filled], low[filled], high[filled]
    duration, number = work.work.duration_ns[rows], names.numbers(work.work.variant[rows])
    for part in parts_of_owners(group, low, high):
        yield _Kernels(duration, number, max(1, len(names.texts)), group[part], low[part], high[part])


def add_caused(table: pd.DataFrame, evidence: RangeEvidence) -> pd.DataFrame:
    """Write the columns of adopted and captured kernels into the table of ranges; return these kernels by name.

    The columns are unknown where only launches are wanted.
    """
    groups, caused, attributed = evidence.groups, evidence.caused, evidence.attributed
    if caused is None:
        for kind in ("adopted", "captured"):
            for column in _SOURCES:
                table[f"{kind}_{column}"] = pd.array([pd.NA] * groups, dtype="Int64")
        return pd.DataFrame(columns=list(CAUSED_KERNEL_COLUMNS))
    found = tabulate_caused(
        evidence.work, caused, evidence.group, attributed.structure, attributed.segments, evidence.names
    )
    for kind in ("adopted", "captured"):
        mine = found[found["kind"] == kind]
        for column, source in _SOURCES.items():
            sums = sum_by(mine["group"].to_numpy(dtype=np.int64), mine[source].to_numpy(dtype=np.int64), groups)
            table[f"{kind}_{column}"] = pd.array(sums, dtype="Int64")
    found = found.rename(columns={"kind": "attribution"}).sort_values(
        ["group", "attribution", "total_ns"], ascending=[True, True, False], kind="stable"
    )
    return name_kernels(found, evidence, CAUSED_KERNEL_COLUMNS)


def add_adopted(instances: pd.DataFrame, evidence: RangeEvidence) -> None:
    """Write the columns of adopted kernels into the table of instances; unknown where only launches are wanted."""
    unknown = [pd.NA] * len(instances)
    adopted = evidence.adopted or (None, None)
    for column, values in zip(_OF_INSTANCES, adopted, strict=True):
        instances[column] = pd.array(unknown if values is None else values[evidence.listed], dtype="Int64")


def count_exclusive(evidence: RangeEvidence, inclusive: Mapping[str, Int64s]) -> dict[str, Int64s]:
    """Return by group the number and total time (ns) of kernels whose innermost push/pop range is of the group.

    inclusive: the same numbers for all kernels that the group launched.
    """
    segments, groups, work = evidence.attributed.segments["PushPop"], evidence.groups, evidence.work
    level = nesting_levels(evidence.attributed.ranges)[segments.instance]
    if not level.any():
        return {f"exclusive_{column}": inclusive[column] for column in ("kernel_count", "kernel_total_ns")}
    innermost = np.full(len(segments.order), -1, dtype=np.int32)
    # Levels are written from the outermost to the innermost, so that inner ranges overwrite outer ones. Ranges of one
    # level of a thread do not overlap.
    for depth in range(int(level.max()) + 1 if len(level) else 0):
        chosen = level == depth
        which, position = expand(segments.low[chosen], segments.high[chosen])
        innermost[position] = segments.instance[chosen].astype(np.int32)[which]
    group_of = evidence.group.astype(np.int32)
    count, total = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    for begin in range(0, len(innermost), _ROWS_AT_ONCE):
        some = innermost[begin : begin + _ROWS_AT_ONCE]
        row = segments.order[begin : begin + _ROWS_AT_ONCE]
        kernel = (some >= 0) & (row < work.kernels)
        group, row = group_of[some[kernel]], row[kernel]
        count += np.bincount(group, minlength=groups)
        total += sum_by(group, work.duration_ns[row], groups)
    return {"exclusive_kernel_count": count, "exclusive_kernel_total_ns": total}


def name_kernels(table: pd.DataFrame, evidence: RangeEvidence, columns: tuple[str, ...]) -> pd.DataFrame:
    """Return these columns of the table, with names instead of its `group` and its kernel `number`."""
    keys, names = evidence.attributed.keys, evidence.names
    table = table.reset_index(drop=True)
    group, number = table["group"].to_numpy(dtype=np.int64), table["number"].to_numpy(dtype=np.int64)
    for column, key in (("range", "name"), ("style", "style"), ("domain", "domain")):
        table[column] = keys[key].to_numpy(dtype=object)[group]
    table["name"], table["short_name"] = names.texts[number], names.short[number]
    table["category"], table["label"] = names.category[number], names.label[number]
    return table[list(columns)]


def find_opaque(evidence: RangeEvidence) -> tuple[Bools, Bools]:
    """Return for each instance whether replayed graphs make its kernels unknown, and whether all its GPU work."""
    found = np.zeros((2, len(evidence.group)), dtype=bool)
    for mask, calls in zip(found, evidence.replays, strict=True):
        mask[instances_of_calls(evidence.tables, evidence.attributed, calls)] = True
    return found[0], found[1]


def blank_unknown(
    table: pd.DataFrame, evidence: RangeEvidence, opaque: tuple[Bools, Bools], launches: RangeLaunches
) -> None:
    """Blank the columns of the table of ranges that cannot be known, as far as it has them.

    These are kernels of graphs that were recorded as wholes, and work that left no record.
    """
    kernels, work = (np.bincount(evidence.group[mask], minlength=len(table)) > 0 for mask in opaque)
    table.loc[kernels, _present(_NO_KERNELS, table)] = pd.NA
    table.loc[work | launches.is_lost, _present(_NO_WORK, table)] = pd.NA
    if _hides_kernels(evidence):
        table.loc[_capturing_groups(evidence), _present([*_CAPTURED, *_ALL], table)] = pd.NA


def blank_instances(
    instances: pd.DataFrame, evidence: RangeEvidence, opaque: tuple[Bools, Bools], launches: RangeLaunches
) -> None:
    """Blank in the table of instances what blank_unknown blanks in the table of ranges."""
    order = evidence.listed
    instances.loc[opaque[0][order], _present(_NO_KERNELS, instances)] = pd.NA
    lost = (opaque[1] | launches.is_lost_instance)[order]
    instances.loc[lost, [*_present(_NO_WORK, instances), "gpu_idle_ns"]] = pd.NA
    if _hides_kernels(evidence):
        instances.loc[np.isin(evidence.group[order], _capturing_groups(evidence)), _CAPTURED] = pd.NA


def _present(columns: list[str], table: pd.DataFrame) -> list[str]:
    return [column for column in columns if column in table]


def _hides_kernels(evidence: RangeEvidence) -> bool:
    """Return whether any graph was replayed whose kernels are unknown."""
    return any(len(calls) for calls in evidence.replays)


def _capturing_groups(evidence: RangeEvidence) -> Int64s:
    """Return the groups of ranges during which their process captured a stream. They may have created nodes."""
    tables, ranges = evidence.tables, evidence.attributed.ranges
    begin, end, pid = (ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns", "global_pid"))
    found = np.zeros(len(ranges), dtype=bool)
    for start, stop, tid in capture_windows(tables, tables.calls) if tables.calls is not None else ():
        found |= (begin < stop) & (end > start) & (pid == tid & PID_MASK)
    return np.unique(evidence.group[found])


# How many numbers the compiled code has of each instance, of each group, and of work that waits.
_OF_INSTANCE, _OF_GROUP, _WAITING = 6, 12, 11
_FAR = np.iinfo(np.int64).max
# Room for the ranges of each set: this many for each stretch of work, plus a constant.
_MOST_ITEMS, _FREE_ITEMS = 64, 1 << 16


@dataclass(frozen=True)
class MeasuredWork:
    """What ranges launched and adopted."""

    instances: InstanceWork
    # Sums over what each group launched, by column; exclusive columns leave out what inner ranges launched.
    launched: dict[str, Int64s]
    exclusive: dict[str, Int64s]
    # The busy time of what each group launched and adopted, and the bytes that it only adopted; empty where no range
    # adopted any work.
    adopted: dict[str, Int64s]


def measure_work(evidence: RangeEvidence) -> MeasuredWork | None:
    """Return what each range instance and each group launched and adopted.

    None where compiled code is not to be had, or where more ranges are open around work than in any program.
    """
    work = evidence.work
    run = loop("measure_work")
    if run is None:
        return None
    in_order, late = _order_by_start(work)
    instances, groups = _instances(evidence), np.zeros((evidence.groups, _OF_GROUP), dtype=np.int64)
    idle = np.zeros(len(instances), dtype=np.int64)
    levels = nesting_levels(evidence.attributed.ranges)
    has_adopted = evidence.caused is not None and len(evidence.caused.adopted_row) + len(evidence.caused.other_row) > 0
    for style, segments in evidence.attributed.segments.items():
        adopter = _list_adopters(work, evidence.caused) if style == "PushPop" and has_adopted else np.zeros(0, np.int32)
        if len(segments.instance) == 0 and len(adopter) == 0:
            continue
        sets = _find_sets(evidence, segments, levels)
        if sets is None:
            return None
        for device in np.unique(work.device_of).tolist():
            its, of_groups = _instances(evidence), _groups(evidence)
            if run(
                work.start_ns, work.duration_ns, work.variant, work.bytes, work.kernels, in_order, late, len(late),
                np.ascontiguousarray(work.device_of), work.kind_of.astype(np.int64), len(work.variants), device, *sets,
                adopter, evidence.attributed.structure.parent, evidence.group, np.zeros(evidence.groups, np.int64),
                MOST_AROUND * len(work) + FREE_PAIRS, np.zeros(_WAITING, np.int64), its.ravel(), of_groups.ravel(),
            ):  # fmt: skip
                return None
            used = its[:, 3] >= its[:, 2]
            idle[used] += (its[:, 3] - its[:, 2] - its[:, 4])[used]
            instances[:, [0, 1, 4]] += its[:, [0, 1, 4]]
            np.minimum(instances[:, 2], its[:, 2], out=instances[:, 2])
            np.maximum(instances[:, 3], its[:, 3], out=instances[:, 3])
            groups += of_groups
    found = _columns(instances, idle, groups, has_adopted=has_adopted)
    if not levels[evidence.attributed.segments["PushPop"].instance].any():  # no range is inside another one
        columns = ("kernel_count", "kernel_total_ns")
        return replace(found, exclusive={f"exclusive_{name}": found.launched[name] for name in columns})
    return found


def _order_by_start(work: Work) -> tuple[int, Rows]:
    """Return how many rows come in order of start, and the rows after these in order of start."""
    kernels = work.start_ns[: work.kernels]
    in_order = work.kernels if bool((kernels[1:] >= kernels[:-1]).all()) else 0
    return in_order, (np.argsort(work.start_ns[in_order:], kind="stable") + in_order).astype(np.int32)


def _instances(evidence: RangeEvidence) -> Int64s:
    """Return the numbers of instances before any work has been seen."""
    found = np.zeros((len(evidence.group), _OF_INSTANCE), dtype=np.int64)
    found[:, 2], found[:, 3], found[:, 5] = _FAR, -_FAR, -_FAR
    return found


def _groups(evidence: RangeEvidence) -> Int64s:
    """Return the numbers of groups before any work has been seen."""
    found = np.zeros((evidence.groups, _OF_GROUP), dtype=np.int64)
    found[:, [3, 5]] = -_FAR
    return found


def _list_adopters(work: Work, caused: CausedWork | None) -> Rows:
    """Return the range that adopted each row of work, or -1."""
    found = np.full(len(work), -1, dtype=np.int32)
    if caused is not None:
        found[caused.adopted_row] = caused.adopted_owner
        found[caused.other_row] = caused.other_owner
    return found


def _find_sets(evidence: RangeEvidence, segments: Segments, levels: Int64s) -> tuple[Rows, ...] | None:
    """Return the set of ranges of each row of work, and what is in the sets; None where that is too much.

    levels: how deep each instance is nested.
    """
    find = loop("find_sets")
    if find is None:
        return None
    by_low = np.argsort(segments.low, kind="stable")
    instance, low, high = (each[by_low] for each in (segments.instance, segments.low, segments.high))
    count, items = 2 * len(low) + 1, _MOST_ITEMS * len(low) + _FREE_ITEMS
    set_of = np.full(len(evidence.work), -1, dtype=np.int32)
    rooms = [np.empty(size, dtype=np.int32) for size in (count + 1, items, count + 1, items, count)]
    found = find(
        segments.order, len(segments.order), instance, low, high, levels[instance], by_low, len(low), evidence.group,
        np.zeros(evidence.groups, dtype=np.int64), np.empty(len(low), dtype=np.int64), set_of, *rooms, count, items,
    )  # fmt: skip
    return None if found < 0 else (set_of, *rooms)


def _columns(instances: Int64s, idle: Int64s, groups: Int64s, *, has_adopted: bool) -> MeasuredWork:
    count, total, first, last, busy, _ = instances.T.copy()
    empty = last < first
    first[empty] = last[empty] = 0
    launched = dict(zip(("kernel_count", "kernel_total_ns", "gpu_busy_ns"), groups[:, :3].T.copy(), strict=True))
    launched |= {"memcpy_bytes": groups[:, 6].copy(), "memset_bytes": groups[:, 7].copy()}
    exclusive = {"exclusive_kernel_count": groups[:, 8].copy(), "exclusive_kernel_total_ns": groups[:, 9].copy()}
    adopted = {"all_busy_ns": groups[:, 4], "caused_memcpy_bytes": groups[:, 10], "caused_memset_bytes": groups[:, 11]}
    return MeasuredWork(
        InstanceWork(count, total, busy, idle, first, last),
        launched,
        exclusive,
        {name: values.copy() for name, values in adopted.items()} if has_adopted else {},
    )
