"""Ranges by name: what each launched, how long it ran, how much memory its process held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nsysprof.analysis.attribute import attribute_work
from nsysprof.analysis.calls import graph_launch_calls, opaque_replays
from nsysprof.analysis.intervals import Ints, union_ns
from nsysprof.analysis.memory import DeviceMemory, peak_in_ranges
from nsysprof.analysis.results import RANGE_COLUMNS, RANGE_KERNEL_COLUMNS
from nsysprof.analysis.statistics import summarize_durations
from nsysprof.analysis.work import COPY, FILL, GRAPH, KERNEL, PID_MASK
from nsysprof.trace.schema import NULL, Tables


@dataclass(frozen=True)
class Attributed:
    """ranges: instances with `group`; keys: one row a group (range, style, domain); pairs: (instance, row of work)."""

    ranges: pd.DataFrame
    keys: pd.DataFrame
    instance: Ints
    item: Ints

    @property
    def group(self) -> Ints:
        """The group of each pair."""
        return self.ranges["group"].to_numpy()[self.instance]


def close_ranges(tables: Tables) -> tuple[pd.DataFrame, int, int]:
    """Range instances, open ones ended with the trace; the number of open ones, and of impossible ones dropped."""
    if tables.ranges is None:
        return pd.DataFrame(columns=["start_ns", "end_ns", "style", "global_tid", "name", "domain"]), 0, 0
    ranges = tables.ranges.copy()
    is_open = ranges["end_ns"] == NULL
    last = [t["end_ns"].max() for t in (tables.kernels, tables.launches, tables.copies) if t is not None and len(t)]
    ranges.loc[is_open, "end_ns"] = max([*map(int, last), int(ranges["start_ns"].max() if len(ranges) else 0)])
    good = ranges["end_ns"] >= ranges["start_ns"]
    return ranges[good].reset_index(drop=True), int(is_open.sum()), int((~good).sum())


def attribute_ranges(tables: Tables, work: pd.DataFrame, ranges: pd.DataFrame) -> Attributed:
    """Give every instance its group, groups in order of first start, and every enclosed call's work its instances."""
    ordered = ranges.sort_values("start_ns", kind="stable").reset_index(drop=True)
    keys = ordered[["name", "style", "domain"]].drop_duplicates().reset_index(drop=True)
    ordered["group"] = ordered.groupby(["name", "style", "domain"], sort=False).ngroup().astype("int64")
    ordered["global_pid"] = ordered["global_tid"].astype("int64") & PID_MASK if len(ordered) else 0
    instance, item = attribute_work(work, tables.launches, ordered)
    return Attributed(ordered, keys, instance, item)


def summarize_ranges(
    tables: Tables, work: pd.DataFrame, attributed: Attributed, memory: DeviceMemory | None
) -> pd.DataFrame:
    """One row a (range, style, domain) with RANGE_COLUMNS. Work launched inside nested ranges of one name counts once.

    gpu_busy_ns is the union of the range's work on each device, added over devices. projected_ns adds, over
    instances, last end minus first start of the GPU work, as in nsys' nvtx_gpu_proj_sum.
    """
    ranges, keys = attributed.ranges, attributed.keys
    groups = len(keys)
    table = pd.DataFrame({"range": keys["name"], "style": keys["style"], "domain": keys["domain"]})
    by_group = ranges.groupby("group")
    table["instances"] = by_group.size()
    table["wall_ns"] = (ranges["end_ns"] - ranges["start_ns"]).groupby(ranges["group"]).sum()
    table["projected_ns"] = _projected(work, attributed)
    unique = pd.DataFrame({"group": attributed.group, "item": attributed.item}).drop_duplicates()
    group, item = unique["group"].to_numpy(), unique["item"].to_numpy()
    kind = work["kind"].to_numpy()[item]
    duration = (work["end_ns"] - work["start_ns"]).to_numpy()[item]
    table["gpu_busy_ns"] = _busy(work, group, item, groups)
    kernels = kind == KERNEL
    table["kernel_total_ns"] = _sum(group[kernels], duration[kernels], groups)
    table["kernel_count"] = np.bincount(group[kernels], minlength=groups)
    launching = kernels | (kind == GRAPH)
    calls = pd.DataFrame({"group": group[launching], "call": work["launch"].to_numpy()[item][launching]})
    calls = calls.drop_duplicates()
    table["launch_count"] = np.bincount(calls["group"], minlength=groups)
    graph_calls = calls[graph_launch_calls(tables)[calls["call"].to_numpy()]] if len(calls) else calls
    table["graph_launch_count"] = np.bincount(graph_calls["group"], minlength=groups)
    size = work["bytes"].to_numpy()[item]
    for column, which in (("memcpy_bytes", COPY), ("memset_bytes", FILL)):
        table[column] = _sum(group[kind == which], size[kind == which], groups)
    table = table.astype({c: "Int64" for c in table.columns if c not in ("range", "style", "domain")})
    _blank_opaque(table, tables, work, ranges)
    peaks = pd.Series(peak_in_ranges(memory, ranges), dtype="int64") if memory is not None else None
    table["peak_vram_bytes"] = (
        _unknown(groups) if peaks is None else peaks.groupby(ranges["group"]).max().astype("Int64")
    )
    table["dram_read_bytes"], table["dram_write_bytes"] = _unknown(groups), _unknown(groups)
    return table[list(RANGE_COLUMNS)]


def summarize_range_kernels(
    work: pd.DataFrame, attributed: Attributed, name_of: Callable[[pd.Series], pd.Series], categories: dict[str, str]
) -> pd.DataFrame:
    """Kernels by range and demangled name, with RANGE_KERNEL_COLUMNS."""
    unique = pd.DataFrame({"group": attributed.group, "item": attributed.item}).drop_duplicates()
    rows = work.iloc[unique["item"].to_numpy()].reset_index(drop=True)
    rows["group"] = unique["group"].to_numpy()
    rows = rows[rows["kind"] == KERNEL]
    table = summarize_durations(rows["end_ns"] - rows["start_ns"], [rows["group"], rows["name_id"]]).reset_index()
    table["short_name_id"] = table["name_id"].map(rows.groupby("name_id")["short_name_id"].first())
    table = table.sort_values(["group", "total_ns"], ascending=[True, False], kind="stable").reset_index(drop=True)
    table["range"] = table["group"].map(attributed.keys["name"])
    table["style"] = table["group"].map(attributed.keys["style"])
    table["name"], table["short_name"] = name_of(table["name_id"]), name_of(table["short_name_id"])
    table["category"] = table["name"].map(categories)
    return table[list(RANGE_KERNEL_COLUMNS)]


def _blank_opaque(table: pd.DataFrame, tables: Tables, work: pd.DataFrame, ranges: pd.DataFrame) -> None:
    """Make unknown, in place, what ranges that replay graphs cannot know: kernels, or all GPU work."""
    wholes, silent = opaque_replays(tables, work)
    no_kernels = ["kernel_count", "kernel_total_ns"]
    no_work = [*no_kernels, "launch_count", "graph_launch_count", "gpu_busy_ns", "projected_ns"]
    for calls, columns in ((wholes, no_kernels), (silent, no_work)):
        enclosing, _ = attribute_work(pd.DataFrame({"launch": calls}), tables.launches, ranges)
        groups = ranges["group"].to_numpy()[np.unique(enclosing)]
        table.loc[table.index.isin(groups), columns] = pd.NA


def _projected(work: pd.DataFrame, attributed: Attributed) -> pd.Series:
    spans = pd.DataFrame(
        {
            "instance": attributed.instance,
            "start": work["start_ns"].to_numpy()[attributed.item],
            "end": work["end_ns"].to_numpy()[attributed.item],
        }
    )
    bounds = spans.groupby("instance").agg(start=("start", "min"), end=("end", "max"))
    owner = attributed.ranges["group"].reindex(bounds.index)
    total = (bounds["end"] - bounds["start"]).groupby(owner).sum()
    return total.reindex(range(len(attributed.keys)), fill_value=0)


def _busy(work: pd.DataFrame, group: Ints, item: Ints, groups: int) -> Ints:
    if len(item) == 0:
        return np.zeros(groups, np.int64)
    device = work["device_id"].to_numpy()[item]
    ids, code = np.unique(device, return_inverse=True)
    cell = group * len(ids) + code
    length = union_ns(work["start_ns"].to_numpy()[item], work["end_ns"].to_numpy()[item], cell)
    whole = np.zeros(groups * len(ids), np.int64)
    whole[: len(length)] = length
    busy: Ints = whole.reshape(groups, len(ids)).sum(axis=1, dtype=np.int64)
    return busy


def _sum(group: Ints, value: Ints, groups: int) -> Ints:
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, value)
    return total


def _unknown(length: int) -> pd.Series:
    return pd.Series([pd.NA] * length, dtype="Int64")
