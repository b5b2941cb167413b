"""Sum up what the ranges of each name launched: counts, times, bytes, and kernels by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import expand, merge, refuse_many_pairs
from nsysprof.analysis.attribution.attributed_ranges import instances_of_calls
from nsysprof.analysis.attribution.calls import capture_windows
from nsysprof.analysis.attribution.caused_work import tabulate_caused
from nsysprof.analysis.attribution.duration_statistics import OwnedDurations, sum_by, summarize_durations
from nsysprof.analysis.attribution.nesting import nesting_levels
from nsysprof.analysis.attribution.work_stretches import OrderedWork, add_up, parts_of_owners
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.analysis.ranges.range_evidence import RangeEvidence, RangeLaunches
from nsysprof.results.analysis import CAUSED_KERNEL_COLUMNS, RANGE_KERNEL_COLUMNS
from nsysprof.trace.schema import COPY, FILL, KERNEL, PID_MASK, Bools, Int64s, Ints

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
