"""Where the wall time of a range went: parts that add up to it, to the nanosecond."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nsysprof.analysis.attribute import Segments, expand
from nsysprof.analysis.intervals import union_ns
from nsysprof.analysis.ranges import Attributed
from nsysprof.comparison import PARTS
from nsysprof.trace.schema import COPY, FILL, KERNEL, MIGRATION, Bools, Int64s, Work

# Whatever runs at once counts for the first of these: a copy under a kernel costs nothing.
_ORDER = ((KERNEL,), (COPY, MIGRATION), (FILL,))
_ROWS_AT_ONCE = 1 << 21


def split_walls(work: Work, attributed: Attributed) -> Int64s:
    """For each group of ranges the ns of each of PARTS, added over its instances; (groups, parts).

    Of an instance's wall time: kernels_ns is when any kernel that it launched ran on any device, copies_ns when only
    copies, fills_ns when only fills, graphs_ns when only graphs whose kernels are unknown, gaps_ns between those,
    before_ns until the first of them began (all of it where none did), after_ns from the end of the last. Work that
    runs beyond the range's end is cut there.
    """
    ranges = attributed.ranges
    begin, end = (ranges[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns"))
    parts = np.zeros((len(ranges), len(PARTS)), dtype=np.int64)
    parts[:, 0] = end - begin
    for segments in attributed.segments.values():
        for instance, row in _portions(segments):
            _split(work, instance, row, begin, end, parts)
    total = np.zeros((len(attributed.keys), len(PARTS)), dtype=np.int64)
    if len(ranges):
        np.add.at(total, ranges["group"].to_numpy(dtype=np.int64), parts)
    return total


def _portions(segments: Segments) -> Iterator[tuple[Int64s, Int64s]]:
    """(instance, row of work) of every pair, some instances at a time, each of them whole."""
    by_instance = np.argsort(segments.instance, kind="stable")
    instance, low, high = (each[by_instance] for each in (segments.instance, segments.low, segments.high))
    if len(instance) == 0:
        return
    reached = np.cumsum(high - low)
    portion = reached[np.searchsorted(instance, instance, "right") - 1] // _ROWS_AT_ONCE
    for number in np.unique(portion):
        part = slice(*np.searchsorted(portion, [number, number + 1]))
        which, position = expand(low[part], high[part])
        yield instance[part][which], segments.order[position].astype(np.int64)


def _split(work: Work, instance: Int64s, row: Int64s, begin: Int64s, end: Int64s, parts: Int64s) -> None:
    """Writes the parts of these instances."""
    start = np.maximum(work.start_ns[row], begin[instance])
    stop = np.minimum(work.ends_ns(row), end[instance])
    inside = stop > start
    instance, row, start, stop = instance[inside], row[inside], start[inside], stop[inside]
    if len(row) == 0:
        return
    chosen, number = np.unique(instance, return_inverse=True)
    first, last = np.full(len(chosen), np.iinfo(np.int64).max), np.full(len(chosen), np.iinfo(np.int64).min)
    np.minimum.at(first, number, start)
    np.maximum.at(last, number, stop)
    kind = work.kinds(row)
    earlier = np.zeros(len(chosen), dtype=np.int64)
    wanted: Bools = np.zeros(len(row), dtype=bool)
    for column, kinds in enumerate((*_ORDER, None), start=1):
        wanted = np.ones(len(row), dtype=bool) if kinds is None else wanted | np.isin(kind, kinds)
        covered = _union(start[wanted], stop[wanted], number[wanted], len(chosen))
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
