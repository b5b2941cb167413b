"""Collect what a comparison needs from one trace: the numbers, the parts of the time and the kernels of each range."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.analysis.attribution.attribute import Attributed, expand, keep_ranges
from nsysprof.analysis.attribution.caused_work import CausedWork, find_caused
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.attribution.range_names import name_steps
from nsysprof.analysis.kernel_names.variant_names import kernel_names
from nsysprof.analysis.overview.trace_overview import Attribution, attribute, live_metrics
from nsysprof.analysis.ranges.instances import RangeEvidence, portions
from nsysprof.analysis.ranges.summarize_ranges import RangeTotals, total_ranges
from nsysprof.analysis.steps.find_steps import find_steps, settle_steps
from nsysprof.attention.kernel_family import dispatched_operator, kernel_family, operator_family
from nsysprof.results.analysis import Analysis
from nsysprof.results.comparison import METRICS, PARTS, WHOLE_TRACE, KernelFacts, RangeFacts
from nsysprof.trace.schema import COPY, FILL, KERNEL, MIGRATION, Bools, Int64s, Ints, Tables, Work

Key = tuple[str, str]
# Which range each launch of a trace belongs to, and what ranges caused; None where only launches are wanted.
AttributedTrace = tuple[Attribution, CausedWork | None]
WHOLE: Key = (WHOLE_TRACE, "")
# The range at the start of our own traces that names this tool.
_TOOL = re.compile(r"nsysprof \d+\.")
# So many wall times of a range are kept. A verdict takes at most 200 stretches of them.
_MOST_SAMPLES = 10_000
_COLUMNS = {
    "launches": "launch_count", "kernels": "kernel_count", "kernel_time": "kernel_total_ns", "busy": "gpu_busy_ns",
    "wall": "wall_ns", "copied": "memcpy_bytes", "filled": "memset_bytes", "vram": "peak_vram_bytes",
}  # fmt: skip
# The key of a kernel in a range, and what KernelFacts has of it.
_OF_KERNELS = ("range", "style", "domain", "name", "category", "short_name", "instances", "total_ns", "label")


@dataclass(frozen=True)
class _Steady:
    """Ranges without their warm-up. Counted steps are combined under the name of their family."""

    attributed: Attributed
    totals: RangeTotals
    # Whether each instance ran its work. One that only captured it into a graph did not.
    ran: Bools
    # How often the graph that each instance captured was replayed outside of it.
    replays: Int64s
    # The parts of each instance's time, in the order of PARTS.
    parts: Int64s


def collect_range_facts(
    tables: Tables,
    analysis: Analysis,
    calls: Mapping[str, int],
    *,
    launched_only: bool = False,
    attributed: AttributedTrace | None = None,
) -> dict[Key, RangeFacts]:
    """Return the facts by (range, domain), and of the whole trace under WHOLE.

    If a range exists twice, for the process and on its thread, the process-wide one is taken.

    calls: how many calls each range name stands for.
    launched_only: whether to leave out what ranges adopted from helper threads or captured into graphs.
    attributed: what run_summary kept; None to find it again.
    """
    whole, caused = attributed or _attribute(tables, launched_only=launched_only)
    steady = _find_steady(tables, whole, caused, calls, launched_only=launched_only)
    table = steady.totals.by_name
    unknown = analysis.ranges["kernel_count"].isna().all() and len(analysis.ranges) > 0
    table["number"] = np.arange(len(table))
    ordered = table.sort_values("style", key=lambda style: style != "StartEnd", kind="stable")
    chosen = ordered.drop_duplicates(["range", "domain"])
    chosen = chosen[np.array([_TOOL.match(name) is None for name in chosen["range"]], dtype=bool)]
    kernels = _kernels([steady.totals.kernels, steady.totals.caused])
    group = steady.attributed.ranges["group"].to_numpy(dtype=np.int64)
    by_group = np.argsort(group, kind="stable")
    edges = np.searchsorted(group[by_group], np.arange(len(table) + 1))
    facts = {WHOLE: _whole(analysis)}
    for row in chosen.to_dict("records"):
        key = row["range"], row["style"], row["domain"]
        rows = by_group[edges[row["number"]] : edges[row["number"] + 1]]
        known = _known(row["gpu_busy_ns"]) is not None and not unknown
        range_facts = _facts(row, calls.get(row["range"]), kernels.get(key, {}), steady, rows, known=known)
        facts[row["range"], row["domain"]] = _without_gpu(range_facts) if unknown else range_facts
    return facts


def _attribute(tables: Tables, *, launched_only: bool) -> AttributedTrace:
    attribution = attribute(tables)
    settled = settle_steps(tables, attribution.attributed, find_steps(tables, attribution.attributed.ranges))
    caused = None if launched_only else find_caused(tables, settled.ranges, settled.structure)
    return replace(attribution, attributed=settled), caused


def _find_steady(
    tables: Tables,
    attribution: Attribution,
    caused: CausedWork | None,
    calls: Mapping[str, int],
    *,
    launched_only: bool,
) -> _Steady:
    whole = attribution.attributed
    replays = np.zeros(len(whole.ranges), np.int64)
    if caused is not None:
        replays = caused.replays(len(replays))
    group = whole.ranges["group"].to_numpy(dtype=np.int64)
    names = whole.keys["name"].tolist()
    measured = np.array([name in calls for name in names], dtype=bool)[group]
    kept = ~whole.structure.warm_up | (replays > 0) | measured
    attributed = keep_ranges(whole, kept, name_steps(names, np.bincount(group, minlength=len(names)).tolist()))
    if attributed is not whole and not launched_only:
        caused = find_caused(tables, attributed.ranges, attributed.structure)
    evidence = RangeEvidence(
        tables, attributed, kernel_names(tables), attribution.memory, attribution.replays, attribution.launch_calls,
        live_metrics(tables)[0], caused,
    )  # fmt: skip
    totals, count = total_ranges(evidence), len(attributed.ranges)
    replays = np.zeros(count, np.int64) if caused is None else caused.replays(count)
    elsewhere = replays if caused is None else _replays_elsewhere(tables, attributed.ranges, caused, replays)
    return _Steady(attributed, totals, _ran(tables, attributed, replays, caused), elsewhere, split_walls(evidence))


def _replays_elsewhere(tables: Tables, ranges: pd.DataFrame, caused: CausedWork, replays: Int64s) -> Int64s:
    """Return how often what each instance captured was replayed outside of every instance of its own range.

    A replay inside one belongs to that instance. A compiled layer that captures its own graph is an example.

    replays: how often what each instance captured was replayed in all.
    """
    graph, calls, elsewhere = caused.graph, tables.calls, replays.copy()
    if graph is None or calls is None or not replays.any():
        return elsewhere
    columns = ("start_ns", "end_ns", "group", "global_tid")
    start, end, group, thread = (ranges[name].to_numpy(dtype=np.int64) for name in columns)
    by_node = np.argsort(graph.node, kind="stable")
    edges = np.searchsorted(graph.node[by_node], np.arange(int(graph.node.max()) + 2))
    sizes = np.diff(edges)
    instance, node = caused.creators
    order = np.lexsort((-sizes[node], instance))
    # for each instance, take the node with the most rows
    first = order[np.unique(instance[order], return_index=True)[1]]
    for owner, own in zip(instance[first].tolist(), node[first].tolist(), strict=True):
        call = tables.launch[graph.row[by_node[edges[own] : edges[own + 1]]]]
        call = call[call >= 0]
        at, by = calls.start_ns[call], calls.tid_of[calls.variant[call]]
        same = np.flatnonzero((group == group[owner]) & (thread == thread[owner]))
        same = same[np.argsort(start[same], kind="stable")]
        place = np.searchsorted(start[same], at, side="right") - 1
        inside = (place >= 0) & (end[same[np.maximum(place, 0)]] >= at) & (by == thread[owner])
        elsewhere[owner] = max(0, replays[owner] - int(inside.sum()))
    return elsewhere


def _ran(tables: Tables, attributed: Attributed, replays: Int64s, caused: CausedWork | None) -> Bools:
    """Return which instances ran their work: all except those that captured work and launched none."""
    ran: Bools = replays == 0
    for segments in attributed.segments.values():
        ran[segments.instance] = True
    if caused is not None:
        ran[caused.adopted_owner] = True
    return ran


def _kernels(tables: Sequence[pd.DataFrame]) -> dict[tuple[str, str, str], dict[str, KernelFacts]]:
    """Return the kernels of each range by name: those that it launched, adopted and captured together."""
    kernels_by_range: dict[tuple[str, str, str], dict[str, KernelFacts]] = {}
    for table in tables:
        for range_, style, domain, name, *cells in zip(
            *(table[column].tolist() for column in _OF_KERNELS), strict=True
        ):
            own = kernels_by_range.setdefault((range_, style, domain), {})
            more, before = KernelFacts(*cells), own.get(name)
            own[name] = more if before is None else _together(before, more)
    return kernels_by_range


def _together(one: KernelFacts, more: KernelFacts) -> KernelFacts:
    return replace(one, instances=one.instances + more.instances, total_ns=one.total_ns + more.total_ns)


def _kernel(row: Mapping[Any, Any]) -> KernelFacts:
    return KernelFacts(row["category"], row["short_name"], int(row["instances"]), int(row["total_ns"]), row["label"])


def _facts(
    row: Mapping[Any, Any],
    calls: int | None,
    kernels: dict[str, KernelFacts],
    steady: _Steady,
    rows: Int64s,
    *,
    known: bool,
) -> RangeFacts:
    """Return the facts of a range.

    calls: how many calls the range stands for. Without it, the wall time of the range and its parts are those of the
        median instance, times the number of instances.
    rows: the rows of its instances.
    known: whether its GPU work is known.
    """
    metrics = {metric: _known(row[column]) for metric, column in _COLUMNS.items()}
    for metric, column in (("kernels", "kernel_count"), ("kernel_time", "kernel_total_ns")):
        parts = [_known(row[f"{kind}{column}"]) for kind in ("", "adopted_", "captured_")]
        metrics[metric] = None if parts[0] is None else sum(part or 0 for part in parts)
    ran = rows[steady.ran[rows]]
    instances = len(ran) + int(steady.replays[rows].sum())
    wall = steady.parts[ran].sum(axis=1)
    if calls is None and len(ran):
        median = ran[np.argsort(wall, kind="stable")[(len(ran) - 1) // 2]]
        split = steady.parts[median] * instances
    else:
        split = steady.parts[rows].sum(axis=0)
    metrics["wall"] = int(split.sum())
    own = dict(zip(PARTS, split.tolist(), strict=True)) if known else None
    metrics["gaps"] = None if own is None else own["gaps_ns"]
    moved = [_known(row[f"dram_{way}_bytes"]) for way in ("read", "write")]
    metrics["dram"] = None if None in moved else sum(size for size in moved if size is not None)
    error = sum(_known(row[f"dram_{way}_error_bytes"]) or 0 for way in ("read", "write"))
    numbers = {name: metrics[name] for name in METRICS}
    samples = tuple(wall[:_MOST_SAMPLES].tolist()) if calls is None else ()
    return RangeFacts(instances, calls, numbers, own, kernels, error, _family(kernels), samples)


def _without_gpu(facts: RangeFacts) -> RangeFacts:
    """Return the facts of a trace whose GPU work is unknown: wall time and memory of its ranges."""
    kept = {name: value if name in ("wall", "vram") else None for name, value in facts.metrics.items()}
    return replace(facts, metrics=kept, parts=None, kernels={}, dram_error_bytes=0, family=None)


def _family(kernels: Mapping[str, KernelFacts]) -> str | None:
    family = operator_family(dispatched_operator(kernels)) or kernel_family(kernels)
    return None if family == "other" else family


def _whole(analysis: Analysis) -> RangeFacts:
    """Return the facts of the whole trace as one range.

    Its wall time is how long the profiler was on, so it is not compared.
    """
    totals = analysis.totals
    busy, span, peaks = totals.gpu_busy_ns, totals.gpu_span_ns, totals.peak_vram_bytes
    metrics: dict[str, int | None] = {
        "launches": totals.launch_count,
        "kernels": totals.kernel_count,
        "kernel_time": totals.kernel_total_ns,
        "busy": busy,
        "gaps": None if busy is None or span is None or len(analysis.devices) > 1 else span - busy,
        "wall": None,
        "copied": None if totals.memcpy_bytes is None else sum(totals.memcpy_bytes.values()),
        "filled": totals.memset_bytes,
        "vram": max(peaks.values(), default=None) if peaks else None,
        "dram": None,
    }
    kernels = {row["name"]: _kernel(row) for row in analysis.kernels.to_dict("records")}
    return RangeFacts(1, 1, metrics, None, kernels)


def _known(cell: Any) -> int | None:
    return None if cell is None or pd.isna(cell) else int(cell)


# Where several kinds run at the same time, the first of these gets the time: a copy during a kernel costs nothing.
_ORDER = ((KERNEL,), (COPY, MIGRATION), (FILL,))
_ROWS_AT_ONCE = 1 << 17


def split_walls(evidence: RangeEvidence) -> Int64s:
    """Return the parts of each instance's wall time in ns, as an array (instances, parts).

    The parts are:
    kernels_ns: any kernel that the instance launched or adopted ran, on any device.
    copies_ns: only copies ran that it launched.
    fills_ns: only fills ran.
    graphs_ns: only graphs ran whose kernels are unknown.
    gaps_ns: nothing ran, between two of these.
    before_ns: before the first of these began; the whole instance where none did.
    after_ns: after the last of these ended.

    Work that runs beyond the range's end is cut there.
    """
    work, attributed, caused = evidence.work, evidence.attributed, evidence.caused
    begin, end = (attributed.ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns"))
    parts = np.zeros((len(begin), len(PARTS)), dtype=np.int64)
    parts[:, 0] = end - begin
    for segments in attributed.segments.values():
        for instance, row in portions(segments):
            _split(work, instance, row, begin, end, parts)
    if caused is not None and len(caused.adopted_row):
        adopted = caused.adopted_pairs(attributed.structure.parent)
        _split(work, *_with_launched(attributed, *adopted), begin, end, parts)
    return parts


def _with_launched(attributed: Attributed, instance: Int64s, row: Int64s) -> tuple[Int64s, Int64s]:
    """Return these pairs (instance, row of work) together with what the same instances launched, sorted by instance."""
    wanted = np.zeros(len(attributed.ranges), dtype=bool)
    wanted[instance] = True
    segments = attributed.segments["PushPop"]
    chosen = wanted[segments.instance]
    which, position = expand(segments.low[chosen], segments.high[chosen])
    instance = np.concatenate((instance, segments.instance[chosen][which]))
    row = np.concatenate((row, segments.order[position]))
    order = np.argsort(instance, kind="stable")
    return instance[order], row[order].astype(np.int64)


def _split(work: Work, instance: Int64s, row: Ints, begin: Int64s, end: Int64s, parts: Int64s) -> None:
    """Write the parts of these instances into `parts`. The rows of an instance follow each other."""
    edges = np.append(np.flatnonzero(np.diff(instance)) + 1, len(instance))
    low = 0
    while low < len(instance):  # some instances at a time, for which the same memory serves
        high = int(edges[np.searchsorted(edges, min(low + _ROWS_AT_ONCE, len(instance)))])
        _split_some(work, instance[low:high], row[low:high].astype(np.int64), begin, end, parts)
        low = high


def _split_some(work: Work, instance: Int64s, row: Int64s, begin: Int64s, end: Int64s, parts: Int64s) -> None:
    start = np.maximum(work.start_ns[row], begin[instance])
    stop = np.minimum(work.ends_ns(row), end[instance])
    inside = stop > start
    if not inside.all():
        at = np.flatnonzero(inside)
        instance, row, start, stop = instance[at], row[at], start[at], stop[at]
    if len(row) == 0:
        return
    edges = np.concatenate(([0], np.flatnonzero(np.diff(instance)) + 1))  # the rows of an instance follow each other
    chosen = instance[edges]
    number = np.repeat(np.arange(len(chosen)), np.diff(edges, append=len(instance)))
    first, last = np.minimum.reduceat(start, edges), np.maximum.reduceat(stop, edges)
    kind = work.kinds(row)
    earlier = np.zeros(len(chosen), dtype=np.int64)
    wanted: Bools = np.zeros(len(row), dtype=bool)
    for column, kinds in enumerate((*_ORDER, None), start=1):
        more = ~wanted if kinds is None else np.isin(kind, kinds)
        if not more.any():
            continue
        wanted |= more
        # What the kinds before it cover is known where there is nothing of this one.
        changed = np.zeros(len(chosen), dtype=bool)
        changed[number[more]] = True
        covered = earlier.copy()
        again = slice(None) if changed.all() and wanted.all() else wanted & changed[number]
        covered[changed] = _union(start[again], stop[again], number[again], len(chosen))[changed]
        parts[chosen, column] = covered - earlier
        earlier = covered
    parts[chosen, 0] = first - begin[chosen]
    parts[chosen, 5] = last - first - earlier
    parts[chosen, 6] = end[chosen] - last


def _union(start: Int64s, stop: Int64s, number: Int64s, groups: int) -> Int64s:
    length = np.zeros(groups, dtype=np.int64)
    found = union_ns(start, stop - start, number)
    length[: len(found)] = found
    return length
