"""Split the wall time of each range into parts that add up to it exactly (kernels, copies, fills, graphs, gaps)."""

from __future__ import annotations

import numpy as np

from nsysprof.analysis.attribution.attribute import FREE_PAIRS, MOST_AROUND, Attributed, expand
from nsysprof.analysis.attribution.intervals import union_ns
from nsysprof.analysis.attribution.nesting import nesting_levels
from nsysprof.analysis.ranges.instances import RangeEvidence, portions
from nsysprof.analysis.ranges.range_work.launched_work import find_sets, list_adopters, order_by_start
from nsysprof.native.load import loop
from nsysprof.results.comparison import PARTS
from nsysprof.trace.schema import COPY, FILL, GRAPH, KERNEL, MIGRATION, Bools, Int64s, Ints, Work

# Where several kinds run at the same time, the first of these gets the time: a copy during a kernel costs nothing.
_ORDER = ((KERNEL,), (COPY, MIGRATION), (FILL,))
# The place of each kind's class: first the classes above, then graphs.
_CLASS_OF = {KERNEL: 0, COPY: 1, MIGRATION: 1, FILL: 2, GRAPH: 3}
_ROWS_AT_ONCE = 1 << 17
_FAR = np.iinfo(np.int64).max


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
    found = _sweep(evidence, begin, end)
    if found is not None:
        return found
    parts = np.zeros((len(begin), len(PARTS)), dtype=np.int64)
    parts[:, 0] = end - begin
    for segments in attributed.segments.values():
        for instance, row in portions(segments):
            _split(work, instance, row, begin, end, parts)
    if caused is not None and len(caused.adopted_row):
        adopted = caused.adopted_pairs(attributed.structure.parent)
        _split(work, *_with_launched(attributed, *adopted), begin, end, parts)
    return parts


def _sweep(evidence: RangeEvidence, begin: Int64s, end: Int64s) -> Int64s | None:
    """Return the parts by compiled code, in one pass over the work in order of its start; None where it cannot be had.

    begin, end: of each instance (ns).
    """
    work, caused, segments_of = evidence.work, evidence.caused, evidence.attributed.segments
    run = loop("sweep_ranges")
    if run is None or len(work) == 0:
        return None
    present, class_of = np.unique([_CLASS_OF[kind] for kind in work.kind_of.tolist()], return_inverse=True)
    classes = len(present)
    sweeps = np.zeros((len(begin), 1 + 2 * classes), dtype=np.int64)
    sweeps[:, 0], sweeps[:, 1 + classes :] = _FAR, begin[:, None]
    in_order, late = order_by_start(work)
    levels = nesting_levels(evidence.attributed.ranges)
    has_adopted = caused is not None and len(caused.adopted_row) > 0
    parent = evidence.attributed.structure.parent if has_adopted else np.zeros(0, dtype=np.int64)
    for style, segments in segments_of.items():
        adopter = np.zeros(0, dtype=np.int32)
        if caused is not None and has_adopted and style == "PushPop":
            adopter = list_adopters(work, caused.kernels_alone())
        if len(segments.instance) == 0 and len(adopter) == 0:
            continue
        sets = find_sets(evidence, segments, levels)
        if sets is None or run(
            work.start_ns, work.duration_ns, work.variant, in_order, late, len(late), class_of.astype(np.int64),
            len(class_of), classes, *sets[:3], adopter, parent, begin, end, MOST_AROUND * len(work) + FREE_PAIRS,
            sweeps.ravel(),
        ):  # fmt: skip
            return None
    return _parts(sweeps, present, begin, end)


def _parts(sweeps: Int64s, present: Int64s, begin: Int64s, end: Int64s) -> Int64s:
    """Return the parts of each instance's wall time.

    sweeps: what compiled code found of each instance: when its first work begins; and for each class that is present,
        how long work of this or an earlier class ran, and up to when.
    """
    parts = np.zeros((len(begin), len(PARTS)), dtype=np.int64)
    classes = len(present)
    first, last, covered = sweeps[:, 0], sweeps[:, -1], sweeps[:, 1 : 1 + classes]
    used = first < _FAR
    parts[:, 1 + present] = np.diff(covered, axis=1, prepend=0)
    parts[:, 0] = np.where(used, first, end) - begin
    parts[:, 5] = np.where(used, last - first - covered[:, -1], 0)
    parts[:, 6] = np.where(used, end - last, 0)
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
