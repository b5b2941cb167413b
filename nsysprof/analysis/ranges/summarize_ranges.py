"""Summarize ranges by name: what each launched, how long it ran, and how much memory its process held."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.caused_work import captured_of_places
from nsysprof.analysis.attribution.duration_statistics import sum_by
from nsysprof.analysis.attribution.nesting import describe_places
from nsysprof.analysis.attribution.warm_up import steady_medians
from nsysprof.analysis.attribution.work_stretches import OrderedWork
from nsysprof.analysis.overview.memory import DeviceMemory, peak_in_ranges
from nsysprof.analysis.ranges.counted_calls import CalledFunctions, CountedCalls, count_calls, find_functions
from nsysprof.analysis.ranges.instances import InstanceWork, measure_instances, tabulate_instances
from nsysprof.analysis.ranges.range_api import range_api_table
from nsysprof.analysis.ranges.range_energy import energy_table
from nsysprof.analysis.ranges.range_evidence import RangeEvidence
from nsysprof.analysis.ranges.range_launches import RangeLaunches, count_launches, judge_launches
from nsysprof.analysis.ranges.range_traffic import add_traffic, gpu_use_table, number_families
from nsysprof.analysis.ranges.range_tree import tabulate_tree
from nsysprof.analysis.ranges.range_work.all_work import AllWork, add_all_work, sum_adopted, sum_all_work
from nsysprof.analysis.ranges.range_work.caused_kernels import add_adopted, add_caused
from nsysprof.analysis.ranges.range_work.exclusive_kernels import count_exclusive
from nsysprof.analysis.ranges.range_work.launched_work import list_kernels, sum_launched
from nsysprof.analysis.ranges.range_work.measured_work import MeasuredWork, measure_work
from nsysprof.analysis.ranges.range_work.unknown_work import blank_instances, blank_unknown, find_opaque
from nsysprof.analysis.ranges.slow_instances import mark_slow_instances
from nsysprof.analysis.traffic.dram import DramTraffic
from nsysprof.native.load import loop
from nsysprof.notes import Note
from nsysprof.results.analysis import RANGE_COLUMNS, RANGE_INSTANCE_COLUMNS, RANGE_TREE_COLUMNS
from nsysprof.trace.schema import Bools, Int64s

_THREADS = 2


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
