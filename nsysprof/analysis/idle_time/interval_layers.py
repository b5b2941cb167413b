"""Cut intervals by a layer of other intervals, merge intervals into a layer, and lay one layer over another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.trace.schema import Bools, Int64s


@dataclass(frozen=True)
class Layer:
    """A layer: disjoint intervals in order, each with a code (int64)."""

    start_ns: Int64s
    end_ns: Int64s
    code: Int64s

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class Pieces:
    """Pieces of intervals, in order of interval and time."""

    # The position of the interval that each piece belongs to.
    owner: Int64s
    # The row of the layer that covers each piece, or -1.
    layer: Int64s
    start_ns: Int64s
    end_ns: Int64s


def cut(start_ns: Int64s, end_ns: Int64s, layer: Layer) -> Pieces:
    """Return the pieces of each interval [start_ns, end_ns) inside and outside the layer, without empty pieces."""
    owner = np.arange(len(start_ns), dtype=np.int64)
    if len(layer) == 0 or len(owner) == 0:
        whole = end_ns > start_ns
        return Pieces(owner[whole], np.full(int(whole.sum()), -1), start_ns[whole], end_ns[whole])
    low = np.searchsorted(layer.end_ns, start_ns, "right")
    high = np.maximum(np.searchsorted(layer.start_ns, end_ns, "left"), low)
    count = high - low
    if not count.any():
        whole = end_ns > start_ns
        return Pieces(owner[whole], np.full(int(whole.sum()), -1), start_ns[whole], end_ns[whole])
    # An interval that meets n rows of the layer becomes 2 n + 1 pieces: outside, inside, outside, ..., outside.
    length = 2 * count + 1
    which = np.repeat(owner, length)
    step = np.arange(len(which)) - np.repeat(np.cumsum(length) - length, length)
    row = low[which] + step // 2
    inside = step % 2 == 1
    clipped = np.minimum(row, len(layer) - 1)
    before = np.maximum(clipped - (row == clipped), 0)
    first, last = step == 0, step == length[which] - 1
    begin = np.where(inside, layer.start_ns[clipped], np.where(first, start_ns[which], layer.end_ns[before]))
    finish = np.where(inside, layer.end_ns[clipped], np.where(last, end_ns[which], layer.start_ns[clipped]))
    begin, finish = np.maximum(begin, start_ns[which]), np.minimum(finish, end_ns[which])
    kept = finish > begin
    return Pieces(which[kept], np.where(inside, clipped, -1)[kept], begin[kept], finish[kept])


def outermost(start_ns: Int64s, end_ns: Int64s) -> Bools:
    """Return which of the intervals, given in order of start, begin where no earlier one is still open."""
    reached = np.maximum.accumulate(end_ns) if len(end_ns) else end_ns
    free = np.ones(len(start_ns), dtype=np.bool_)
    free[1:] = start_ns[1:] >= reached[:-1]
    return free


def merge_layer(start_ns: Int64s, end_ns: Int64s, code: Int64s) -> Layer:
    """Return a layer of the outermost intervals: a nested call belongs to the call around it."""
    order = np.lexsort((-end_ns, start_ns))
    start_ns, end_ns, code = start_ns[order], end_ns[order], code[order]
    kept = outermost(start_ns, end_ns) & (end_ns > start_ns)
    return Layer(start_ns[kept], end_ns[kept], code[kept])


def overlay(below: Layer, above: Layer) -> Layer:
    """Return both layers as one, in which `above` hides what is below it."""
    if len(above) == 0:
        return below
    rest = cut(below.start_ns, below.end_ns, above)
    left = rest.layer < 0
    start = np.concatenate((above.start_ns, rest.start_ns[left]))
    end = np.concatenate((above.end_ns, rest.end_ns[left]))
    code = np.concatenate((above.code, below.code[rest.owner[left]]))
    order = np.argsort(start, kind="stable")
    return Layer(start[order], end[order], code[order])
