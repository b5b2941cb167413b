"""Ranges by name: what each launched, how long it ran, how much memory its process held."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from nsysprof.analysis.attribute import Segments, attribute_work, covered, expand, merge, order_work
from nsysprof.analysis.dram import DramTraffic, dram_in_groups
from nsysprof.analysis.intervals import union_ns
from nsysprof.analysis.memory import DeviceMemory, peak_in_ranges
from nsysprof.analysis.names import Names
from nsysprof.analysis.results import RANGE_COLUMNS, RANGE_KERNEL_COLUMNS
from nsysprof.analysis.statistics import sum_by, summarize_durations
from nsysprof.analysis.work import Rows
from nsysprof.trace.gpu_metrics_schema import GpuMetrics
from nsysprof.trace.schema import COPY, FILL, GRAPH, NULL, PID_MASK, Bools, Int64s, Ints, Tables, Work

_SCOPES = {"PushPop": "thread", "StartEnd": "process"}
# 36 years: no session's clock.
_FAR_NS = 2**60
_DRAM_COLUMNS = ("dram_read_bytes", "dram_write_bytes", "dram_read_error_bytes", "dram_write_error_bytes")
_ROWS_AT_ONCE = 1 << 21
_THREADS = 2
_KEY = ["name", "style", "domain"]
_NO_KERNELS = ["kernel_count", "kernel_total_ns", "exclusive_kernel_count", "exclusive_kernel_total_ns"]
_NO_WORK = [*_NO_KERNELS, "launch_count", "graph_launch_count", "gpu_busy_ns", "projected_ns"]


@dataclass(frozen=True)
class Attributed:
    """ranges: instances with `group` and `global_pid`; keys: one row a group (name, style, domain).

    segments: by style, which work each instance launched.
    """

    ranges: pd.DataFrame
    keys: pd.DataFrame
    segments: dict[str, Segments]

    def inside(self, rows: int) -> Bools:
        """For each of `rows` rows of work, whether any range launched it."""
        found = np.zeros(rows, dtype=bool)
        for segments in self.segments.values():
            found[segments.order[covered(segments)]] = True
        return found


@dataclass(frozen=True)
class RangeSummary:
    """by_name: one row a (range, style, domain) with RANGE_COLUMNS. kernels: RANGE_KERNEL_COLUMNS.

    traffic: of the ranges that have work, None without DRAM counters.
    """

    by_name: pd.DataFrame
    kernels: pd.DataFrame
    traffic: DramTraffic | None


def close_ranges(tables: Tables) -> tuple[pd.DataFrame, int, int]:
    """Range instances, open ones ended with the trace; the number of open ones, and of impossible ones dropped."""
    if tables.ranges is None:
        return pd.DataFrame(columns=["start_ns", "end_ns", "style", "global_tid", "name", "domain"]), 0, 0
    ranges = tables.ranges.copy()
    is_open = ranges["end_ns"] == NULL
    if is_open.any():
        last = [t.ends_ns().max() for t in (tables.work, tables.calls) if t is not None and len(t)]
        known = ranges[["start_ns", "end_ns"]].to_numpy(dtype=np.int64)
        last += [known[(known < _FAR_NS) & (known > -_FAR_NS)].max(initial=-_FAR_NS)]
        ranges.loc[is_open, "end_ns"] = max(map(int, last))
    good = (ranges["end_ns"] >= ranges["start_ns"]) & ranges["start_ns"].between(-_FAR_NS, _FAR_NS)
    good &= ranges["end_ns"] < _FAR_NS
    return ranges[good].reset_index(drop=True), int(is_open.sum()), int((~good).sum())


def attribute_ranges(tables: Tables, launch: Rows, ranges: pd.DataFrame) -> Attributed:
    """Give every instance its group, groups in order of first start, and every enclosed call's work its instances."""
    ordered = ranges.sort_values("start_ns", kind="stable").reset_index(drop=True)
    codes = [pd.factorize(ordered[column])[0].astype(np.int64) for column in _KEY]
    widths = [int(code.max()) + 1 if len(code) else 1 for code in codes]
    group, first = pd.factorize((codes[0] * widths[1] + codes[1]) * widths[2] + codes[2])
    ordered["group"] = group.astype(np.int64)
    rows = np.full(len(first), len(group))
    np.minimum.at(rows, group, np.arange(len(group)))
    keys = ordered[_KEY].iloc[rows].reset_index(drop=True)
    ordered["global_pid"] = ordered["global_tid"].astype("int64") & PID_MASK if len(ordered) else 0
    launched = order_work(launch, tables.calls)
    segments = {style: attribute_work(launched[scope], ordered, style) for style, scope in _SCOPES.items()}
    return Attributed(ordered, keys, segments)


@dataclass(frozen=True)
class _WorkOfGroups:
    """What the ranges of each name launched, each piece once: group and row of work, sorted by group."""

    group: Rows
    row: Rows
    edges: Int64s

    def sums(self, values: Ints | Bools) -> Int64s:
        """Sum of `values`, one an entry, by group."""
        total = np.zeros(len(self.edges) - 1, dtype=np.int64)
        filled = np.flatnonzero(self.edges[1:] > self.edges[:-1])
        if len(filled):
            total[filled] = np.add.reduceat(values, self.edges[:-1][filled], dtype=np.int64)
        return total


@dataclass(frozen=True)
class _Part:
    """Stretches of `order` that are _WorkOfGroups once they are loaded, in the thread that needs them."""

    order: Rows
    group: Int64s
    low: Int64s
    high: Int64s
    groups: int

    def load(self) -> _WorkOfGroups:
        which, position = expand(self.low, self.high)
        owner = self.group.astype(np.int32)[which]
        return _WorkOfGroups(owner, self.order[position], np.searchsorted(owner, np.arange(self.groups + 1)))


def _by_group(attributed: Attributed) -> Iterator[_Part]:
    """Some groups at a time, for all together would hold the trace twice. Each group is in one part, whole."""
    group_of = attributed.ranges["group"].to_numpy(dtype=np.int64)
    for segments in attributed.segments.values():
        group, low, high = merge(group_of[segments.instance], segments.low, segments.high)
        reached = np.cumsum(high - low)
        # A part ends with a group, so that its size is bounded unless one group alone is larger.
        portion = (reached[np.searchsorted(group, group, "right") - 1] // _ROWS_AT_ONCE) if len(group) else reached
        for number in np.unique(portion):
            part = slice(*np.searchsorted(portion, [number, number + 1]))
            yield _Part(segments.order, group[part], low[part], high[part], len(attributed.keys))


def summarize_ranges(
    tables: Tables,
    launch: Rows,
    attributed: Attributed,
    names: Names,
    memory: DeviceMemory | None,
    replays: tuple[Int64s, Int64s],
    graph_launches: Bools,
    metrics: GpuMetrics | None,
) -> RangeSummary:
    """Sum up what each (range, style, domain) launched, and what DRAM moved meanwhile.

    Work launched inside nested ranges of one name counts once. gpu_busy_ns is the union of the range's work on each
    device, added over devices. projected_ns adds, over instances, last end minus first start of the GPU work, as in
    nsys' nvtx_gpu_proj_sum. The exclusive columns count what no inner push/pop range of the same thread launched;
    start/end ranges do not nest and have none.
    """
    ranges, keys = attributed.ranges, attributed.keys
    groups = len(keys)
    table = pd.DataFrame({"range": keys["name"], "style": keys["style"], "domain": keys["domain"]})
    group_of = ranges["group"].to_numpy(dtype=np.int64) if len(ranges) else np.zeros(0, np.int64)
    table["instances"] = np.bincount(group_of, minlength=groups)
    wall = (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64)
    table["wall_ns"] = sum_by(group_of, wall, groups)
    sums = {column: np.zeros(groups, dtype=np.int64) for column in (
        "gpu_busy_ns", "kernel_total_ns", "kernel_count", "launch_count", "graph_launch_count", "memcpy_bytes",
        "memset_bytes",
    )}  # fmt: skip
    kernels = []
    with ThreadPoolExecutor(_THREADS) as pool:
        projected = pool.submit(_projected, tables.work, attributed)
        of_part = partial(_summarize_part, tables.work, launch, names, graph_launches)
        for some, part_kernels in pool.map(of_part, _by_group(attributed)):
            kernels.append(part_kernels)
            for column, values in some.items():
                sums[column] += values
    for column, values in sums.items():
        table[column] = values
    projection = projected.result()
    table["projected_ns"] = sum_by(group_of, projection[1] - projection[0], groups)
    exclusive = _exclusive(tables.work, attributed, table)
    nests = (keys["style"] == "PushPop").to_numpy(dtype=bool)
    for column, values in exclusive.items():
        table[column] = pd.array(values, dtype="Int64")
        table.loc[~nests, column] = pd.NA
    table = table.astype({c: "Int64" for c in table.columns if c not in ("range", "style", "domain")})
    _blank_opaque(table, tables, attributed, replays)
    table["peak_vram_bytes"] = _unknown(groups) if memory is None else _peaks(memory, ranges, group_of, groups)
    traffic = _traffic(tables, metrics, ranges, projection)
    for column in _DRAM_COLUMNS:
        table[column] = _unknown(groups)
        if traffic is not None:
            known = traffic[1].known
            table.loc[traffic[0][known], column] = getattr(traffic[1], column.removeprefix("dram_"))[known]
    return RangeSummary(
        table[list(RANGE_COLUMNS)], _name_kernels(kernels, keys, names), None if traffic is None else traffic[1]
    )


def _summarize_part(
    work: Work, launch: Rows, names: Names, graph_launches: Bools, part: _Part
) -> tuple[dict[str, Int64s], pd.DataFrame]:
    mine = part.load()
    return _sums(work, launch, mine, graph_launches), _kernels(work, mine, names)


def _sums(work: Work, launch: Rows, part: _WorkOfGroups, graph_launches: Bools) -> dict[str, Int64s]:
    start, duration = work.start_ns[part.row], work.duration_ns[part.row]
    found = {"gpu_busy_ns": _busy(work, part, start, duration)}
    is_kernel = part.row < work.kernels
    others = np.flatnonzero(~is_kernel)
    kind = work.kinds(part.row[others])
    found["kernel_count"] = part.sums(is_kernel)
    duration[others] = 0
    found["kernel_total_ns"] = part.sums(duration)
    launching = is_kernel
    launching[others] = kind == GRAPH
    # The work of one call lies together, so that each change of the call is one launch more.
    call, group = launch[part.row[launching]], part.group[launching]
    fresh = np.ones(len(call), dtype=bool)
    fresh[1:] = (call[1:] != call[:-1]) | (group[1:] != group[:-1])
    groups = len(part.edges) - 1
    found["launch_count"] = np.bincount(group[fresh], minlength=groups)
    graphs = graph_launches[call] & fresh
    found["graph_launch_count"] = np.bincount(group[graphs], minlength=groups)
    for column, which in (("memcpy_bytes", COPY), ("memset_bytes", FILL)):
        chosen = others[kind == which]
        size = work.bytes[part.row[chosen] - work.kernels]
        found[column] = sum_by(part.group[chosen], size, groups)
    return found


def _busy(work: Work, part: _WorkOfGroups, start: Int64s, duration: Ints) -> Int64s:
    groups = len(part.edges) - 1
    if len(part.row) == 0:
        return np.zeros(groups, np.int64)
    ids, code = np.unique(work.device_of, return_inverse=True)
    cell = part.group if len(ids) == 1 else part.group * len(ids) + code[work.variant[part.row]]
    length = union_ns(start, duration, cell)
    whole = np.zeros(groups * len(ids), np.int64)
    whole[: len(length)] = length
    busy: Int64s = whole.reshape(groups, len(ids)).sum(axis=1, dtype=np.int64)
    return busy


def _kernels(work: Work, part: _WorkOfGroups, names: Names) -> pd.DataFrame:
    """Durations by (group, number of the name)."""
    is_kernel = part.row < work.kernels
    group, row = (part.group, part.row) if is_kernel.all() else (part.group[is_kernel], part.row[is_kernel])
    width = max(1, len(names.texts))
    table = summarize_durations(work.duration_ns[row], group * np.int64(width) + names.numbers(work.variant[row]))
    table["group"], table["number"] = table.index // width, table.index % width
    return table


def _name_kernels(parts: list[pd.DataFrame], keys: pd.DataFrame, names: Names) -> pd.DataFrame:
    if not parts:
        return pd.DataFrame(columns=list(RANGE_KERNEL_COLUMNS))
    table = pd.concat(parts)
    table = table.sort_values("group", kind="stable").reset_index(drop=True)
    group, number = table["group"].to_numpy(dtype=np.int64), table["number"].to_numpy(dtype=np.int64)
    table["range"], table["style"] = keys["name"].to_numpy()[group], keys["style"].to_numpy()[group]
    table["name"], table["short_name"] = names.texts[number], names.short[number]
    table["category"] = names.category[number]
    return table[list(RANGE_KERNEL_COLUMNS)]


def _projected(work: Work, attributed: Attributed) -> tuple[Int64s, Int64s]:
    """First start and last end of the work of each instance; both 0 for one without work."""
    most = np.iinfo(np.int64).max
    first = np.full(len(attributed.ranges), most)
    last = np.full(len(attributed.ranges), -most)
    for segments in attributed.segments.values():
        # Some stretches at a time: the times in order would be as large as the trace's.
        ends = np.cumsum(segments.high - segments.low)
        portion = ends // _ROWS_AT_ONCE
        for number in np.unique(portion):
            part = slice(*np.searchsorted(portion, [number, number + 1]))
            instance, low, high = segments.instance[part], segments.low[part], segments.high[part]
            base, top = int(low.min()), int(high.max())
            rows = segments.order[base:top]
            bounds = np.column_stack((low, high)).ravel() - base
            times = np.zeros(len(rows) + 1, dtype=np.int64)  # one more, so that the last end is a position too
            np.take(work.start_ns, rows, out=times[:-1])
            np.minimum.at(first, instance, np.minimum.reduceat(times, bounds)[::2])
            times[:-1] += work.duration_ns[rows]
            np.maximum.at(last, instance, np.maximum.reduceat(times, bounds)[::2])
    empty = first == most
    return np.where(empty, 0, first), np.where(empty, 0, last)


def _traffic(
    tables: Tables, metrics: GpuMetrics | None, ranges: pd.DataFrame, projection: tuple[Int64s, Int64s]
) -> tuple[Int64s, DramTraffic] | None:
    """The groups that have work, and their DRAM traffic while it ran."""
    chosen = np.flatnonzero(projection[1] > projection[0])
    if metrics is None or len(chosen) == 0:
        return None
    groups, number = np.unique(ranges["group"].to_numpy(dtype=np.int64)[chosen], return_inverse=True)
    pid = ranges["global_pid"].to_numpy(dtype=np.int64)[chosen]
    start, end = projection[0][chosen], projection[1][chosen]
    used = np.unique(tables.work.variants[:, 1:3], axis=0)
    return groups, dram_in_groups(metrics, start, end, number, len(groups), pid, used)


def _exclusive(work: Work, attributed: Attributed, inclusive: pd.DataFrame) -> dict[str, Int64s]:
    """Kernels, and their total time, whose innermost push/pop range is of the group."""
    segments, ranges, groups = attributed.segments["PushPop"], attributed.ranges, len(attributed.keys)
    level = nesting_levels(ranges)[segments.instance]
    if not level.any():
        return {f"exclusive_{column}": inclusive[column].to_numpy() for column in ("kernel_count", "kernel_total_ns")}
    innermost = np.full(len(segments.order), -1, dtype=np.int32)
    # From the outside in, each level overwrites the one before; ranges of one level of a thread do not overlap.
    for depth in range(int(level.max()) + 1 if len(level) else 0):
        chosen = level == depth
        which, position = expand(segments.low[chosen], segments.high[chosen])
        innermost[position] = segments.instance[chosen].astype(np.int32)[which]
    group_of = ranges["group"].to_numpy(dtype=np.int32) if len(ranges) else np.zeros(0, np.int32)
    count, total = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    for begin in range(0, len(innermost), _ROWS_AT_ONCE):
        some = innermost[begin : begin + _ROWS_AT_ONCE]
        row = segments.order[begin : begin + _ROWS_AT_ONCE]
        kernel = (some >= 0) & (row < work.kernels)
        group, row = group_of[some[kernel]], row[kernel]
        count += np.bincount(group, minlength=groups)
        total += sum_by(group, work.duration_ns[row], groups)
    return {"exclusive_kernel_count": count, "exclusive_kernel_total_ns": total}


def nesting_levels(ranges: pd.DataFrame) -> Int64s:
    """Nesting depth of each push/pop range on its thread, for ranges in order of start; start/end ranges are level 0.

    The depth is the number of ranges of the thread that started before and have not ended yet.
    """
    levels = np.zeros(len(ranges), dtype=np.int64)
    pushed = np.flatnonzero((ranges["style"] == "PushPop").to_numpy(dtype=bool))
    start, end, tid = (
        ranges[column].to_numpy(dtype=np.int64)[pushed] for column in ("start_ns", "end_ns", "global_tid")
    )
    order = np.argsort(tid, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(tid[order])) + 1):
        ended = np.searchsorted(np.sort(end[rows]), start[rows], "right")
        levels[pushed[rows]] = np.maximum(0, np.arange(len(rows)) - ended)
    return levels


def _blank_opaque(table: pd.DataFrame, tables: Tables, attributed: Attributed, replays: tuple[Int64s, Int64s]) -> None:
    """Make unknown, in place, what ranges that replay graphs cannot know: kernels, or all GPU work."""
    for calls, columns in zip(replays, (_NO_KERNELS, _NO_WORK), strict=True):
        for instance in ranges_of_calls(tables, attributed, calls):
            table.loc[table.index == attributed.ranges["group"].iloc[instance], columns] = pd.NA


def ranges_of_calls(tables: Tables, attributed: Attributed, calls: Int64s) -> Int64s:
    """The instances that enclose any of the calls, one instance of each group."""
    if len(calls) == 0:
        return np.zeros(0, dtype=np.int64)
    launched = order_work(calls.astype(np.int32), tables.calls)
    found = [attribute_work(launched[scope], attributed.ranges, style).instance for style, scope in _SCOPES.items()]
    instances = np.unique(np.concatenate(found))
    group = attributed.ranges["group"].to_numpy(dtype=np.int64)[instances]
    return instances[np.unique(group, return_index=True)[1]]


def _peaks(memory: DeviceMemory, ranges: pd.DataFrame, group: Int64s, groups: int) -> pd.Series:
    peaks = np.zeros(groups, dtype=np.int64)
    np.maximum.at(peaks, group, peak_in_ranges(memory, ranges))
    return pd.Series(peaks).astype("Int64")


def _unknown(length: int) -> pd.Series:
    return pd.Series([pd.NA] * length, dtype="Int64")
