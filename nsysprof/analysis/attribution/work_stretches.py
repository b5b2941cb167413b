"""Sum up counts, bytes and busy time over stretches of work, in launch order, from running sums.

A kernel inside four nested ranges belongs to four stretches. Counts, times and bytes of a stretch are the difference of
two running sums, so that nesting costs nothing. The busy time of work that runs alone is added up in the same way. Work
that overlaps other work is collected in blocks; only a block that a stretch cuts in two is examined piece by piece.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nsysprof.analysis.attribution.attribute import expand
from nsysprof.analysis.attribution.intervals import begin_alone, union_ns
from nsysprof.arrays import different, find_places
from nsysprof.trace.schema import Bools, Int64s, Ints, Rows, Work

_ROWS_AT_ONCE, _BLOCK = 1 << 21, 1 << 20


def running_sum(values: Ints | Bools) -> Int64s:
    """Return the sums of the first 0, 1, 2, ... values."""
    total = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=total[1:])
    return total


def add_up(owner: Ints, value: Int64s, owners: int) -> Int64s:
    """Return the sum of the values of each owner 0 ... owners-1."""
    total = np.zeros(owners, dtype=np.int64)
    np.add.at(total, owner, value)
    return total


@dataclass(frozen=True)
class OrderedWork:
    """Work in the order of its calls, thread by thread, so that what a range launched lies in stretches.

    A stretch is given as low and high: the positions low <= position < high of `order`.
    """

    work: Work
    # The rows of the work.
    order: Rows

    @cached_property
    def kernel_places(self) -> Rows | None:
        """Return the positions of kernels; None where all work is kernels."""
        is_kernel = self.order < self.work.kernels
        return None if is_kernel.all() else np.flatnonzero(is_kernel).astype(np.int32)

    @cached_property
    def other_places(self) -> Rows:
        """Return the positions of work that is not a kernel."""
        if self.kernel_places is None:
            return np.zeros(0, dtype=np.int32)
        return np.flatnonzero(self.order >= self.work.kernels).astype(np.int32)

    def of_kernels(self, place: Int64s) -> Int64s:
        """Return how many kernels come before each position: its position among the kernels alone."""
        if self.kernel_places is None:
            return place
        return place - find_places(self.other_places, place)

    def kernel_ns(self, first: Int64s, last: Int64s) -> Int64s:
        """Return the kernel time (ns) of stretches of positions among the kernels alone."""
        places = different(np.concatenate((first, last)))
        until = np.zeros(len(places), dtype=np.int64)
        rows, reached = self.kernel_rows, 0
        for low in range(0, len(rows) + 1, _BLOCK):
            total = running_sum(self.work.duration_ns[rows[low : low + _BLOCK]])
            inside = slice(*np.searchsorted(places, [low, low + _BLOCK]))
            until[inside] = reached + total[places[inside] - low]
            reached += int(total[-1])
        spent_ns: Int64s = until[find_places(places, last)] - until[find_places(places, first)]
        return spent_ns

    @cached_property
    def kernel_rows(self) -> Rows:
        """Return the rows of the kernels, in order."""
        return self.order if self.kernel_places is None else self.order[self.kernel_places]

    def bytes_of(self, kind: int, low: Int64s, high: Int64s) -> Int64s:
        """Return the bytes that work of this kind (not kernels) moved in each stretch."""
        rows = self.order[self.other_places]
        chosen = self.work.kinds(rows) == kind
        places, size = self.other_places[chosen], running_sum(self.work.bytes[rows[chosen] - self.work.kernels])
        moved_bytes: Int64s = size[find_places(places, high)] - size[find_places(places, low)]
        return moved_bytes

    @cached_property
    def devices(self) -> tuple[DeviceWork, ...]:
        """Return the work of each device."""
        devices, code = np.unique(self.work.device_of, return_inverse=True)
        if len(devices) == 1:
            return (_of_device(self.work, self.order, None),)
        of_place = code.astype(np.int16)[self.work.variant[self.order]]
        places = (np.flatnonzero(of_place == number).astype(np.int32) for number in range(len(devices)))
        return tuple(_of_device(self.work, self.order[mine], mine) for mine in places if len(mine))


@dataclass(frozen=True)
class DeviceWork:
    """The work of one device, in order of the calls."""

    # Its positions among those of all devices; None where there is only one device.
    places: Rows | None
    start_ns: Int64s
    duration_ns: Ints
    # The running sum of the time (ns) of work that overlaps no other work of the device.
    alone_ns: Int64s
    # The work that overlaps other work: its positions on this device, in order, and the block of each.
    crowd: Rows
    block: Rows
    # The length of each block (ns), from its first start to its last end.
    block_ns: Int64s

    def stretches(self, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
        """Return stretches of positions among all devices as stretches of positions on this device."""
        if self.places is None:
            return low, high
        return find_places(self.places, low), find_places(self.places, high)

    def busy(self, owner: Int64s, low: Int64s, high: Int64s, owners: int) -> Int64s:
        """Return the union of each owner's work (ns). The stretches of one owner must not overlap."""
        total = add_up(owner, self.alone_ns[high] - self.alone_ns[low], owners)
        if len(self.crowd):
            begin, end = find_places(self.crowd, low), find_places(self.crowd, high)
            some = np.flatnonzero(end > begin)
            _add_crowd(self, owner[some], begin[some], end[some], total)
        return total

    def spans(self, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
        """Return the first start and the last end of the work of each stretch (ns). No stretch may be empty."""
        return _reduce(np.minimum, self.start_ns, low, high), _reduce(np.maximum, self._ends_ns(), low, high)

    def _ends_ns(self) -> Int64s:
        ends: Int64s = self.start_ns + self.duration_ns
        return ends


def _of_device(work: Work, rows: Rows, places: Rows | None) -> DeviceWork:
    start, duration = work.start_ns[rows], work.duration_ns[rows]
    in_order = bool((start[1:] >= start[:-1]).all())
    order = None if in_order else np.argsort(start, kind="stable").astype(np.int32)
    fresh = begin_alone(start, duration, order)
    # A block is what runs without a pause, if that is more than one piece of work.
    in_block = ~fresh
    in_block[:-1] |= ~fresh[1:]
    place = np.flatnonzero(in_block).astype(np.int32)
    begins = fresh[place]
    del in_block, fresh
    crowd: Ints = place if order is None else order[place]
    block = np.cumsum(begins, dtype=np.int32) - np.int32(1)
    first = np.flatnonzero(begins)
    ends = start[crowd] + duration[crowd]
    block_ns = (np.maximum.reduceat(ends, first) if len(first) else ends) - start[crowd[first]]
    alone = np.zeros(len(start) + 1, dtype=np.int64)
    alone[1:] = duration
    alone[crowd + 1] = 0
    np.cumsum(alone, out=alone)
    by_place = np.argsort(crowd, kind="stable")
    in_place = crowd[by_place].astype(np.int32)
    return DeviceWork(places, start, duration, alone, in_place, block[by_place], block_ns)


def _add_crowd(device: DeviceWork, owner: Int64s, begin: Int64s, end: Int64s, total: Int64s) -> None:
    """Add to `total` the union (ns) of work that overlaps other work.

    begin, end: positions in the list of overlapping work.
    """
    size = len(device.crowd)
    first, last = np.zeros(len(device.block_ns), np.int64), np.zeros(len(device.block_ns), np.int64)
    place = np.arange(size, dtype=np.int32)
    first[device.block[::-1]], last[device.block] = place[::-1], place
    # A block counts where its first piece lies. Blocks that the end of the stretch cuts are subtracted again.
    whole = np.zeros(size + 1, dtype=np.int64)
    whole[first + 1] = device.block_ns
    np.cumsum(whole, out=whole)
    np.add.at(total, owner, whole[end] - whole[begin])
    del whole, place
    cuts = different(np.concatenate((begin, end)))
    blocks, cut = expand(np.searchsorted(cuts, first, "right"), np.searchsorted(cuts, last, "right"))
    by_cut = np.argsort(cut, kind="stable")
    block, edges = blocks[by_cut].astype(np.int64), np.searchsorted(cut[by_cut], np.arange(len(cuts) + 1))
    cut_pairs = []
    for side in (begin, end):
        at = np.searchsorted(cuts, side)
        stretch, number = expand(edges[at], edges[at + 1])
        cut_block = block[number]
        counted = first[cut_block] >= begin[stretch]
        np.subtract.at(total, owner[stretch[counted]], device.block_ns[cut_block[counted]])
        cut_pairs.append(stretch * np.int64(len(first)) + cut_block)
    pairs = different(np.concatenate(cut_pairs))
    stretch, cut_block = pairs // len(first), pairs % len(first)
    # The pieces of each cut block, in order. The stretch has those between its ends.
    by_block = np.argsort(device.block, kind="stable")
    keys = device.block[by_block] * np.int64(size + 1) + by_block
    low = np.searchsorted(keys, cut_block * (size + 1) + begin[stretch])
    high = np.searchsorted(keys, cut_block * (size + 1) + end[stretch])
    pieces = device.crowd[by_block]
    for part in parts_of_owners(owner[stretch], low, high):
        which, piece = expand(low[part], high[part])
        owners, of_owner = np.unique(owner[stretch][part], return_inverse=True)
        its_place = pieces[piece]
        its_start, its_ns = device.start_ns[its_place], device.duration_ns[its_place]
        length = union_ns(its_start, its_ns, of_owner.astype(np.int32)[which])
        # owners without a piece that come after the last one with a piece add nothing
        total[owners[: len(length)]] += length


def parts_of_owners(owner: Int64s, low: Int64s, high: Int64s) -> Iterator[Int64s]:
    """Yield the stretches in parts of whole owners, so that a part is about as large as one owner's work."""
    order = np.argsort(owner, kind="stable")
    if len(order) == 0:
        return
    reached = np.cumsum((high - low)[order])
    owner = owner[order]
    portion = reached[np.searchsorted(owner, owner, "right") - 1] // _ROWS_AT_ONCE
    edges = np.flatnonzero(np.diff(portion, prepend=-1, append=-2))
    for begin, end in itertools.pairwise(edges.tolist()):
        yield order[begin:end]


def _reduce(function: np.ufunc, values: Int64s, low: Int64s, high: Int64s) -> Int64s:
    """Return function.reduce(values[low:high]) of each stretch. No stretch may be empty."""
    order = np.argsort(low, kind="stable")
    low, high = low[order], high[order]
    pairs = np.empty(2 * len(low), dtype=np.int64)
    # reduceat also returns a result for what lies between two stretches; these are skipped. An end must be a valid
    # position, so the last one is added below.
    pairs[::2], pairs[1::2] = low, np.minimum(high, len(values) - 1)
    reduced = np.empty(len(low), dtype=np.int64)
    if len(low):
        reduced[order] = function(function.reduceat(values, pairs)[::2], values[high - 1])
    return reduced
