"""Sum up what each module of a program launched, from the ranges that `capture --layers` opened around its calls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.attribution.calls import RESOLVED, find_graph_work
from nsysprof.analysis.attribution.nesting import parents
from nsysprof.analysis.busy_time.kernel_needs import KernelNeeds
from nsysprof.analysis.overview.memory import DeviceMemory, peak_in_ranges
from nsysprof.analysis.ranges.open_range import open_ranges
from nsysprof.results.column_registry.analysis_columns import LAYERS
from nsysprof.trace.schema import PID_MASK, Floats, Int64s, Tables

# FLOP of a layer are known where operators are known for so much of its kernel time.
_LEAST_KNOWN = 0.9
_Texts = npt.NDArray[np.object_]


def tabulate_layers(tables: Tables, memory: DeviceMemory | None, needs: KernelNeeds | None) -> pd.DataFrame | None:
    """Return the rows of layers.csv; None where no range is of a module.

    A kernel belongs to the innermost range around its launch, or where a graph replays it, around the call that made
    its node. The rows of all layers and the one without a layer add up to all kernels.
    """
    if tables.layers is None:
        return None
    ranges = tables.layers.assign(style="PushPop")
    way, layer = (ranges[name].to_numpy(dtype=object) for name in ("way", "layer"))
    parent = parents(ranges)
    duration = (ranges["end_ns"] - ranges["start_ns"]).to_numpy(dtype=np.int64)
    inside = np.bincount(parent[parent >= 0], duration[parent >= 0], minlength=len(ranges)).astype(np.int64)
    row_of_kernel, way_outside = _rows_of_kernels(tables, ranges, parent, way)
    owner = pd.DataFrame({"layer": layer, "pass": way}).iloc[np.maximum(row_of_kernel, 0)]
    kernels = pd.DataFrame({
        "layer": np.where(row_of_kernel >= 0, owner["layer"], ""),
        "pass": np.where(row_of_kernel >= 0, owner["pass"], way_outside),
        "kernel_count": 1,
        "kernel_total_ns": tables.work.duration_ns[: tables.work.kernels].astype(np.int64),
        "flops": np.nan if needs is None else needs.flops,
    })  # fmt: skip
    kernels["known_ns"] = kernels["kernel_total_ns"].where(kernels["flops"].notna(), 0)
    calls = pd.DataFrame({
        "layer": layer, "pass": way, "class": ranges["kind"], "calls": ranges["is_call"].astype(int),
        "wall_ns": np.maximum(duration - inside, 0), "peak_bytes": _peaks(memory, ranges),
    })  # fmt: skip
    how = {"class": "first", "calls": "sum", "wall_ns": "sum", "peak_bytes": "max"}
    table = calls.groupby(["layer", "pass"]).agg(how).join(kernels.groupby(["layer", "pass"]).sum(), how="outer")
    counts = ["calls", "wall_ns", "kernel_count", "kernel_total_ns"]
    table[counts] = table[counts].fillna(0).astype("int64")
    # Outside of all layers, neither calls nor their time are known.
    is_outside = table["class"].isna()
    table[["calls", "wall_ns"]] = table[["calls", "wall_ns"]].astype("Int64").mask(is_outside)
    is_known = (table["known_ns"] >= _LEAST_KNOWN * table["kernel_total_ns"]) & (table["kernel_count"] > 0)
    table["flops"] = table["flops"].where(is_known).round().astype("Int64")
    table["peak_bytes"] = table["peak_bytes"].astype("Int64")
    table = table.reset_index().sort_values(["kernel_total_ns", "wall_ns"], ascending=False, kind="stable")
    text = ["layer", "pass", "class"]
    table[text] = table[text].astype(object).where(table[text].notna() & (table[text] != ""), None)
    return table[list(LAYERS.names)].reset_index(drop=True)


def _rows_of_kernels(tables: Tables, ranges: pd.DataFrame, parent: Int64s, way: _Texts) -> tuple[Int64s, list[str]]:
    """Return the innermost range of each kernel (-1: none), and what pass a kernel without one belongs to ("": none).

    Threads on which only backward ranges lie are autograd's.
    """
    work = tables.work
    time, thread = find_origins(tables, work.kernels)
    outside = np.full(work.kernels, "", dtype=object)
    of_thread = ranges["global_tid"].to_numpy(np.int64)
    for number in np.unique(of_thread).tolist():
        if (way[(of_thread == number) & (parent < 0)] == "backward").all():
            outside[thread == number] = "backward"
    return open_ranges(ranges, thread, time), outside.tolist()


def find_origins(tables: Tables, count: int) -> tuple[Int64s, Int64s]:
    """Return when, and on which thread (globalTid), each of the first pieces of work was launched; -1 where unknown.

    Work that a graph replays was launched where the call made its node.
    """
    calls = tables.calls
    time, thread = (np.full(count, -1, dtype=np.int64) for _ in range(2))
    if calls is not None:
        launched = np.flatnonzero(tables.launch[:count] >= 0)
        call = tables.launch[launched]
        time[launched], thread[launched] = calls.start_ns[call], calls.tid_of[calls.variant[call]]
    graph = find_graph_work(tables)
    if graph is not None:
        known = (graph.row < count) & (graph.why == RESOLVED)
        created = graph.created.of(graph.node[known])
        time[graph.row[known]], thread[graph.row[known]] = created.start_ns, created.global_tid
    return time, thread


def _peaks(memory: DeviceMemory | None, ranges: pd.DataFrame) -> Floats:
    if memory is None:
        return np.full(len(ranges), np.nan)
    return peak_in_ranges(memory, ranges.assign(global_pid=ranges["global_tid"] & PID_MASK)).astype(float)
