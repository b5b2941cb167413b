"""Split the wall time of each range into parts that add up to it exactly (kernels, copies, fills, graphs, gaps)."""

from __future__ import annotations

import numpy as np

from nsysprof.analysis.attribution.attribute import Attributed, expand
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.ranges.instances import RangeEvidence, portions
from nsysprof.results.comparison import PARTS
from nsysprof.trace.schema import COPY, FILL, KERNEL, MIGRATION, Bools, Int64s, Ints, Work

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
