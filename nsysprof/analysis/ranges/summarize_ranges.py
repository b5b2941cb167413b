"""Summarize ranges by name: what each launched, how long it ran, and how much memory its process held."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import SCOPES, attribute_work, merge, order_work
from nsysprof.analysis.attribution.caused_work import captured_of_places
from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.attribution.nesting import describe_places
from nsysprof.analysis.attribution.range_structure import RangeStructure, steady_medians
from nsysprof.analysis.attribution.work_stretches import OrderedWork, running_sum
from nsysprof.analysis.overview.memory import DeviceMemory, peak_in_ranges
from nsysprof.analysis.ranges.instances import (
    CalledFunctions,
    CountedCalls,
    InstanceWork,
    RangeEvidence,
    RangeLaunches,
    count_calls,
    count_launches,
    find_functions,
    judge_launches,
    measure_instances,
    tabulate_instances,
)
from nsysprof.analysis.ranges.range_traffic import add_traffic, energy_table, gpu_use_table, number_families
from nsysprof.analysis.ranges.range_work.all_work import AllWork, add_all_work, sum_adopted, sum_all_work
from nsysprof.analysis.ranges.range_work.launched_work import (
    MeasuredWork,
    add_adopted,
    add_caused,
    blank_instances,
    blank_unknown,
    count_exclusive,
    find_opaque,
    list_kernels,
    measure_work,
    sum_launched,
)
from nsysprof.analysis.ranges.slow_instances import mark_slow_instances
from nsysprof.analysis.traffic.dram import DramTraffic
from nsysprof.arrays import find_places
from nsysprof.native.load import loop
from nsysprof.notes import Note
from nsysprof.results.analysis import RANGE_COLUMNS, RANGE_INSTANCE_COLUMNS, RANGE_TREE_COLUMNS
from nsysprof.results.column_registry.analysis_columns import RANGE_API
from nsysprof.results.column_registry.csv_table import empty_table
from nsysprof.trace.schema import PID_MASK, Bools, Calls, Int64s, Ints, Rows

_THREADS = 2
_SUMS = (
    "wall_ns", "kernel_count", "kernel_total_ns", "adopted_kernel_count", "adopted_kernel_total_ns", "warmup_instances",
)  # fmt: skip
_CALLS_AT_ONCE = 1 << 22
_FEW_OWNERS = 8
# The family, and from which place up to which other one it has the calls of an order.
Stretches = tuple[Int64s, Int64s, Int64s]


@dataclass(frozen=True)
class RangeSummary:
    """The tables of ranges, and notes about them."""

    # One row per (range, style, domain), with RANGE_COLUMNS.
    by_name: pd.DataFrame
    # One row per instance, with RANGE_INSTANCE_COLUMNS.
    instances: pd.DataFrame
    # One row per range and kernel, with RANGE_KERNEL_COLUMNS.
    kernels: pd.DataFrame
    # Kernels that ranges adopted or captured, with CAUSED_KERNEL_COLUMNS.
    caused: pd.DataFrame
    # One row per place in the tree, with RANGE_TREE_COLUMNS.
    tree: pd.DataFrame
    # Notes on slow instances.
    slow: tuple[Note, ...]
    # The traffic of the ranges that have work; None without DRAM counters.
    traffic: DramTraffic | None
    # The rows of gpu_use.csv, range_api.csv and energy.csv.
    gpu_use: pd.DataFrame
    range_api: pd.DataFrame
    energy: pd.DataFrame


@dataclass(frozen=True)
class RangeTotals:
    """The tables of ranges by name alone, and with only the columns that add up. As in RangeSummary."""

    by_name: pd.DataFrame
    kernels: pd.DataFrame
    caused: pd.DataFrame


@dataclass(frozen=True)
class MeasuredRanges:
    """What ranges launched, caused and called, before it is tabulated."""

    # The names with counters folded, and the position of each group's name among them.
    families: tuple[pd.DataFrame, Int64s]
    functions: CalledFunctions
    counted: CountedCalls | None
    launches: RangeLaunches
    work: MeasuredWork
    all_work: AllWork
    # As in RangeSummary.
    kernels: pd.DataFrame


def measure_ranges(evidence: RangeEvidence) -> MeasuredRanges:
    """Sum up what each range instance and each (range, style, domain) launched and caused.

    This takes most of the memory and of the time of all that is done for ranges.
    """
    attributed = evidence.attributed
    with ThreadPoolExecutor(_THREADS) as pool:
        structure = pool.submit(lambda: attributed.structure)
        # Without compiled code, each part takes as much memory as the columns of the trace, so one follows the other.
        is_small = loop("summarize") is not None
        beside = pool.submit(list_kernels, evidence, pool) if is_small else None
        families, functions = number_families(evidence), find_functions(evidence.tables)
        counted = count_calls(evidence, families, functions)
        if counted is None:
            launches = count_launches(attributed.ranges, evidence.groups, evidence.tables.calls, evidence.launch_calls)
        else:
            launches = judge_launches(counted.of_groups, counted.of_instances)
        work = measure_work(evidence) or _measure(evidence)
        all_work = sum_all_work(evidence, work.launched["gpu_busy_ns"], work.adopted)
        kernels = list_kernels(evidence, pool) if beside is None else beside.result()
        structure.result()
    return MeasuredRanges(families, functions, counted, launches, work, all_work, kernels)


def tabulate_ranges(evidence: RangeEvidence, measured: MeasuredRanges, *, unfold: bool = False) -> RangeSummary:
    """Return the tables of ranges: what each launched and caused, and the DRAM traffic meanwhile.

    projected_ns is the time from the first start to the last end of the GPU work, added over instances, as in nsys'
    nvtx_gpu_proj_sum. The exclusive columns count what no inner push/pop range of the same thread launched; start/end
    ranges do not nest and have no such columns.

    unfold: whether the tree has a place for each name of a counted family (step0, step1) instead of one place (step#).
    """
    ranges, launches, each = evidence.attributed.ranges, measured.launches, measured.work.instances
    wall = (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64)
    table = _tabulate(evidence, measured.work, launches, wall)
    _describe(table, evidence, wall)
    instances = _tabulate_instances(evidence, each)
    opaque = find_opaque(evidence)
    hidden = opaque[0] | opaque[1]
    tree = _tabulate_tree(evidence, each, hidden, launches.is_lost_instance, unfold=unfold)
    caused = add_caused(table, evidence)
    add_adopted(instances, evidence)
    add_all_work(table, instances, evidence, measured.all_work)
    slow = mark_slow_instances(instances, evidence, each)
    blank_unknown(table, evidence, opaque, launches)
    blank_instances(instances, evidence, opaque, launches)
    table["peak_vram_bytes"] = _peaks(evidence)
    traffic = add_traffic(table, evidence, each.first_ns, each.last_ns)
    return RangeSummary(
        table[list(RANGE_COLUMNS)],
        instances[list(RANGE_INSTANCE_COLUMNS)],
        measured.kernels,
        caused,
        tree[list(RANGE_TREE_COLUMNS)],
        slow,
        traffic,
        gpu_use_table(evidence, each.first_ns, each.last_ns),
        range_api_table(evidence, measured.families, measured.functions, measured.counted),
        energy_table(evidence, each.first_ns, each.last_ns),
    )


def total_ranges(evidence: RangeEvidence) -> RangeTotals:
    """Sum up as tabulate_ranges does, but only what a comparison needs. gpu_busy_ns counts adopted kernels too."""
    with ThreadPoolExecutor(_THREADS) as pool:
        kernels = list_kernels(evidence, pool)
    ranges, counted = evidence.attributed.ranges, count_calls(evidence)
    if counted is None:
        launches = count_launches(ranges, evidence.groups, evidence.tables.calls, evidence.launch_calls)
    else:
        launches = judge_launches(counted.of_groups, counted.of_instances)
    alone = evidence if evidence.caused is None else replace(evidence, caused=evidence.caused.kernels_alone())
    measured = measure_work(alone) or _measure(alone)
    if measured.adopted:
        busy = np.maximum(measured.launched["gpu_busy_ns"], measured.adopted["all_busy_ns"])
        measured = replace(measured, launched={**measured.launched, "gpu_busy_ns": busy})
    table = _tabulate(evidence, measured, launches, (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64))
    caused = add_caused(table, evidence)
    blank_unknown(table, evidence, find_opaque(evidence), launches)
    table["peak_vram_bytes"] = _peaks(evidence)
    add_traffic(table, evidence, measured.instances.first_ns, measured.instances.last_ns)
    return RangeTotals(table, kernels, caused)


def _measure(evidence: RangeEvidence) -> MeasuredWork:
    """Return what measure_work does, without compiled code."""
    segments = evidence.attributed.segments
    # Running sums as large as the columns of the trace.
    ordered = {style: OrderedWork(evidence.work, each.order) for style, each in segments.items()}
    each = measure_instances(ordered, segments, len(evidence.group))
    launched = sum_launched(evidence, ordered)
    return MeasuredWork(each, launched, count_exclusive(evidence, launched), sum_adopted(evidence, ordered))


def _tabulate(evidence: RangeEvidence, measured: MeasuredWork, launches: RangeLaunches, wall: Int64s) -> pd.DataFrame:
    """Return the columns about what ranges launched themselves, and about their time."""
    keys, group, groups = evidence.attributed.keys, evidence.group, evidence.groups
    exclusive, each = measured.exclusive, measured.instances
    numbers = {
        "instances": np.bincount(group, minlength=groups),
        "wall_ns": sum_by(group, wall, groups),
        **measured.launched,
        "launch_count": launches.launches,
        "graph_launch_count": launches.replays,
        "lost_launch_count": launches.lost,
        "projected_ns": sum_by(group, each.last_ns - each.first_ns, groups),
        **exclusive,
    }
    table = pd.DataFrame({"range": keys["name"], "style": keys["style"], "domain": keys["domain"]})
    table = table.assign(**{column: pd.array(values, dtype="Int64") for column, values in numbers.items()})
    table.loc[(keys["style"] != "PushPop").to_numpy(dtype=bool), list(exclusive)] = pd.NA
    return table


def _describe(table: pd.DataFrame, evidence: RangeEvidence, wall: Int64s) -> None:
    """Write the columns that say where the ranges are and how long their warm-up is."""
    structure, group, groups = evidence.attributed.structure, evidence.group, len(table)
    paths = describe_places(structure.paths, group, wall, groups)
    folded = describe_places(structure.folded, group, wall, groups)
    # A path such as `step# > forward` says more than four paths of a hundred steps. A family's own row keeps its
    # number.
    table["path"] = [few if " | " in many else many for many, few in zip(paths, folded, strict=True)]
    table["family"] = structure.families
    table["warmup_instances"] = pd.array(np.bincount(group[structure.warm_up], minlength=groups), dtype="Int64")
    median, known = steady_medians(group, wall, structure.warm_up, groups)
    table["steady_wall_med_ns"] = pd.arrays.IntegerArray(median, ~known)


def _tabulate_instances(evidence: RangeEvidence, each: InstanceWork) -> pd.DataFrame:
    attributed, structure = evidence.attributed, evidence.attributed.structure
    return tabulate_instances(attributed.ranges, attributed.keys, each, structure.warm_up, structure.on_thread)


def _tabulate_tree(
    evidence: RangeEvidence, each: InstanceWork, opaque: Bools, lost: Bools, *, unfold: bool
) -> pd.DataFrame:
    """Return the tree. A place is unknown where one of its instances is opaque, or where all its kernels were lost."""
    attributed, structure = evidence.attributed, evidence.attributed.structure
    if unfold:
        structure = replace(structure, folded=structure.paths, families=attributed.keys["name"].tolist())
    adopted = evidence.adopted or (None, None)
    instances: dict[str, Int64s | None] = {
        "kernel_count": each.kernel_count,
        "kernel_total_ns": each.kernel_total_ns,
        "adopted_kernel_count": adopted[0],
        "adopted_kernel_total_ns": adopted[1],
    }
    place, places = structure.folded.of_instance, len(structure.folded.texts)
    captured = None
    if evidence.caused is not None:
        captured = captured_of_places(evidence.work, evidence.caused, structure, attributed.segments, evidence.names)
    unknown = np.zeros(places, dtype=bool)
    unknown[place[lost]] = True
    unknown[place[each.kernel_count > 0]] = False
    unknown[place[opaque]] = True
    return tabulate_tree(attributed.ranges, structure, instances, captured, unknown)


def _peaks(evidence: RangeEvidence) -> pd.Series:
    """Return the most device memory (bytes) in use during each group's instances; unknown where it was not recorded."""
    memory: DeviceMemory | None = evidence.memory
    if memory is None:
        return pd.Series([pd.NA] * evidence.groups, dtype="Int64")
    peaks = np.zeros(evidence.groups, dtype=np.int64)
    np.maximum.at(peaks, evidence.group, peak_in_ranges(memory, evidence.attributed.ranges))
    return pd.Series(peaks).astype("Int64")


def tabulate_tree(
    ranges: pd.DataFrame,
    structure: RangeStructure,
    instances: dict[str, Int64s | None],
    captured: pd.DataFrame | None,
    unknown: Bools,
) -> pd.DataFrame:
    """Return one row for each place in the tree, parents before their children.

    Siblings with GPU work come first, then those with the most wall time.

    instances: for each range instance, the values that its place sums up; None is unknown.
    captured: group (of the place), instances and total_ns of captured kernels; None is unknown.
    unknown: for each place, whether its kernels are unknown.
    """
    paths, places = structure.folded, len(structure.folded.texts)
    place = paths.of_instance
    wall = (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64)
    values = {**instances, "wall_ns": wall, "warmup_instances": structure.warm_up.astype(np.int64)}
    table = pd.DataFrame({"path": pd.Series(paths.texts, dtype=object), "parent": paths.parent})
    first = np.full(places, len(ranges), dtype=np.int64)
    np.minimum.at(first, place, np.arange(len(ranges)))
    for column in ("style", "domain"):
        table[column] = ranges[column].to_numpy(dtype=object)[first]
    group = ranges["group"].to_numpy(dtype=np.int64)
    table["range"] = np.array(structure.families, dtype=object)[group[first]] if places else []
    table["instances"] = np.bincount(place, minlength=places)
    for column in _SUMS:
        of_instance = values[column]
        sums = None if of_instance is None else sum_by(place, of_instance, places)
        table[column] = pd.array([pd.NA] * places if sums is None else sums, dtype="Int64")
    for column, source in (("captured_kernel_count", "instances"), ("captured_kernel_total_ns", "total_ns")):
        table[column] = pd.array([pd.NA] * places, dtype="Int64")
        if captured is not None:
            owners, amounts = (captured[name].to_numpy(dtype=np.int64) for name in ("group", source))
            table[column] = pd.array(sum_by(owners, amounts, places), dtype="Int64")
    median, known = steady_medians(place, wall, structure.warm_up, places)
    table["steady_wall_med_ns"] = pd.arrays.IntegerArray(median, ~known)
    kernels = sum(table[f"{kind}kernel_count"].fillna(0) for kind in ("", "adopted_", "captured_"))
    works = (np.asarray(kernels, dtype=np.int64) > 0) | unknown if places else unknown
    table.loc[unknown, ["kernel_count", "kernel_total_ns"]] = pd.NA
    order, depth = _walk(paths.parent, works, table["wall_ns"].to_numpy(dtype=np.int64))
    return table.assign(depth=depth).iloc[order].reset_index(drop=True)


def _walk(parent: Int64s, works: Bools, wall_ns: Int64s) -> tuple[list[int], Int64s]:
    """Return the places in the order of a walk from the roots, and the depth of each place.

    Siblings with GPU work come first, then those with the most wall time.
    """
    children: dict[int, list[int]] = {}
    for row in np.lexsort((-wall_ns, ~works)).tolist():
        children.setdefault(int(parent[row]), []).append(row)
    depth = np.zeros(len(parent), dtype=np.int64)
    order: list[int] = []
    left = [(row, 0) for row in reversed(children.get(-1, []))]
    while left:
        row, level = left.pop()
        order.append(row)
        depth[row] = level
        left += [(child, level + 1) for child in reversed(children.get(row, []))]
    return order, depth


def range_api_table(
    evidence: RangeEvidence,
    families: tuple[pd.DataFrame, Int64s],
    functions: CalledFunctions,
    counted: CountedCalls | None = None,
) -> pd.DataFrame:
    """Return the rows of range_api.csv, the longest total first.

    A call inside nested ranges of one name counts once.

    families: the names of ranges with their counters folded, and the position of each group's name among them.
    functions: the functions to list.
    counted: the result of count_calls.
    """
    calls, ranges = evidence.tables.calls, evidence.attributed.ranges
    if calls is None or len(calls) == 0 or len(ranges) == 0:
        return empty_table(RANGE_API)
    keys, family = families
    of_instance = family[evidence.group]
    if counted is None:
        count, total = _sum_by_family(calls, functions.of_variant, functions.chosen, ranges, of_instance, len(keys))
    else:
        count, total = counted.calls, counted.total_ns
    parts = []
    for function, name in enumerate(functions.chosen):
        owner = np.flatnonzero(count[function])
        sums = {"calls": count[function][owner], "total_ns": total[function][owner]}
        parts.append(pd.DataFrame({"family": owner, "name": functions.texts[name], **sums}))
    table = pd.concat(parts, ignore_index=True)
    wall = np.bincount(of_instance, (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.float64), len(keys))
    place = table["family"].to_numpy(dtype=np.int64)
    for column in ("range", "style", "domain"):
        table[column] = keys[column].to_numpy(dtype=object)[place]
    share = 100 * table["total_ns"].to_numpy(dtype=np.float64) / np.where(wall > 0, wall, np.nan)[place]
    # Calls of several threads may add up to more than the range.
    table["wall_pct"] = np.where((table["style"] == "PushPop").to_numpy(dtype=bool), share, np.nan)
    table = table.sort_values("total_ns", ascending=False, kind="stable").reset_index(drop=True)
    return table[list(RANGE_API.names)]


def _sum_by_family(
    calls: Calls, number: Ints, functions: list[int], ranges: pd.DataFrame, of_instance: Int64s, families: int
) -> tuple[Int64s, Int64s]:
    """Return how many calls of each function each family encloses, and their total time (ns): (functions, families).

    Unless there are many threads, their calls are looked at one thread after the other, and not all at once: that takes
    less memory. Each call is within the same ranges whichever others are looked at.
    """
    count, total = np.zeros((2, len(functions), families), np.int64)
    for style, scope in SCOPES.items():
        mask = -1 if scope == "thread" else PID_MASK
        chosen = (ranges["style"] == style).to_numpy(dtype=bool)
        owners = np.unique(ranges["global_tid"].to_numpy(dtype=np.int64)[chosen] & mask)
        for some in np.split(owners, len(owners)) if 0 < len(owners) <= _FEW_OWNERS else [owners]:
            its = np.isin(calls.tid_of & mask, some)
            for low in range(0, len(calls), _CALLS_AT_ONCE):
                part = slice(low, low + _CALLS_AT_ONCE)
                rows = np.flatnonzero(its[calls.variant[part]]).astype(np.int32) + np.int32(low)
                if len(rows) == 0:
                    continue
                found = attribute_work(order_work(rows, calls, [scope])[scope], ranges, style)
                stretches = merge(of_instance[found.instance], found.low, found.high)
                _add_functions(count, total, rows[found.order], calls, number, functions, stretches)
    return count, total


def _add_functions(
    count: Int64s, total: Int64s, rows: Rows, calls: Calls, number: Ints, functions: list[int], stretches: Stretches
) -> None:
    """Add what the calls of each function within the stretches are to both sums."""
    of_row, owner = number[calls.variant[rows]], stretches[0]
    low, high = (place.astype(np.int32) for place in stretches[1:])
    for place, function in enumerate(functions):
        mine = np.flatnonzero(of_row == function).astype(np.int32)
        if len(mine) == 0:
            continue
        sums = running_sum(calls.duration_ns[rows[mine]])
        first, last = find_places(mine, low), find_places(mine, high)
        np.add.at(count[place], owner, last - first)
        np.add.at(total[place], owner, sums[last] - sums[first])
