"""Find attention that runs as separate kernels: a softmax between two matrix products, and what is between them.

The backward pass of each of the two products is two more products: one before the softmax's own backward pass, one
after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.arrays import find_rows
from nsysprof.kernels.labels import is_log_softmax
from nsysprof.trace.schema import Bools, Int64s, Ints, Rows

# The most kernels between a softmax and the product on either side (scale, mask, dropout, casts), on average. Torch
# launches a kernel in four pieces where a tensor has 2**31 elements and more: 24 between two products of its math.
_REACH = 16
# A softmax that belongs to a loss, in addition to log-softmax.
_LOSS = re.compile(r"nll|cross_entropy", re.IGNORECASE)
_BETWEEN = (
    "softmax", "elementwise", "copy", "fill", "reduction", "random", "index", "layout", "normalization", "other"
)  # fmt: skip
# Names that show something else than attention: the router of a mixture of experts between its softmax and the experts'
# products, a sampler after its probabilities, and a loss.
_NEVER_BETWEEN = re.compile(
    r"top_?k|sort|bincount|histogram|multinomial|one_?hot|nll|cross_entropy|layer_?norm|adam", re.IGNORECASE
)
_BACKWARD = re.compile(r"backward|bwd", re.IGNORECASE)
# The last part of a product whose inner dimension was split.
_SPLIT = re.compile(r"splitKreduce", re.IGNORECASE)
# A copy that makes a tensor contiguous, or repeats the heads of k and v. One that also converts is another kernel.
_PLAIN_COPY = re.compile(r"direct_copy_kernel")
_CONVERTS = re.compile(r"WithCast")
# The gradient of repeated heads is the sum over the repetitions.
_SUM = re.compile(r"reduce_kernel.*sum_functor")
# The most copies on either side of the products (q, k and v; the output), or copies and sums behind a backward pass.
_MOST_COPIES = 4
# How many softmaxes are followed at a time.
_BLOCK = 1 << 16
# What a piece of attention is, as bits of one byte: see UnfusedAttention.
GEMM, BETWEEN, _BACKWARD_GEMM, _SECOND_GEMM, _AROUND = (np.uint8(1 << bit) for bit in range(5))
# Stands for "no softmax" where a softmax is stored by how far behind its piece it is.
_FAR = -128


@dataclass(frozen=True)
class UnfusedAttention:
    """The kernels of attention that runs as separate kernels."""

    # Which work is a matrix product of attention, and which lies between the products.
    gemms: Bools
    between: Bools
    # Which of these products belong to a backward pass, and which is the last one of a forward pass.
    backward_gemms: Bools
    second_gemms: Bools
    # Plain copies directly before and behind the products, and sums behind those of a backward pass: a fused kernel
    # reads q, k and v where they are, and each head of k and v for all heads of q that share it.
    around: Bools
    # The position of the softmax that each such piece of work belongs to; -1 for all other work.
    softmax: Int64s
    # The number of softmaxes.
    calls: int


@dataclass(frozen=True)
class NameKinds:
    """What each name says about its kernel. The last entry belongs to -1."""

    is_softmax: Bools
    is_backward: Bools
    is_gemm: Bools
    is_split: Bools
    is_between: Bools
    is_copy: Bools
    is_sum: Bools


def kinds_of(names: Names) -> NameKinds:
    """Return what each name says about its kernel."""
    texts = [str(text) for text in names.texts]
    category = names.category.astype(str)

    def matching(pattern: re.Pattern[str]) -> Bools:
        return np.array([pattern.search(text) is not None for text in texts], dtype=bool)

    is_loss = matching(_LOSS) | np.array([is_log_softmax(text) for text in texts], dtype=bool)
    kinds = (
        (category == "softmax") & ~is_loss,
        matching(_BACKWARD),
        category == "gemm",
        matching(_SPLIT),
        np.isin(category, _BETWEEN) & ~matching(_NEVER_BETWEEN),
        matching(_PLAIN_COPY) & ~matching(_CONVERTS),
        matching(_SUM),
    )
    return NameKinds(*(np.append(one, False).astype(bool) for one in kinds))


@dataclass(frozen=True)
class AttentionPieces:
    """The kernels of attention in the work of one stream, in its order."""

    # Their positions.
    place: Rows
    # What each is: GEMM, BETWEEN and so on, added up.
    marks: npt.NDArray[np.uint8]
    # The position of the softmax that each belongs to.
    softmax: Rows
    # The number of softmaxes.
    calls: int


def find_unfused_attention(number: Ints, names: Names, stream: Int64s) -> UnfusedAttention | None:
    """Return the unfused attention among work in the order of its issue; None where there is none.

    number: the position of each kernel in `names`; -1 for anything but a kernel.
    stream: the number of each piece of work's stream.
    """
    kinds = kinds_of(names)
    marks = np.zeros(len(number), dtype=np.uint8)
    owner = np.full(len(number), -1, dtype=np.int64)
    calls = 0
    for stream_number in np.unique(stream[kinds.is_softmax[number]]).tolist():
        mine = np.flatnonzero(stream == stream_number)
        pieces = find_pieces(number[mine], kinds)
        place = mine[pieces.place]
        marks[place], owner[place] = pieces.marks, mine[pieces.softmax]
        calls += pieces.calls
    if not calls:
        return None
    gemms, between, backward, second, around = (
        (marks & bit) != 0 for bit in (GEMM, BETWEEN, _BACKWARD_GEMM, _SECOND_GEMM, _AROUND)
    )
    return UnfusedAttention(gemms, between, backward, second, around, owner, calls)


def find_pieces(number: Ints, kinds: NameKinds) -> AttentionPieces:
    """Return the kernels of unfused attention in the work of one stream.

    Only the kernels around each softmax are looked at, so that a softmax in a large trace costs what one in a small
    trace does.

    number: the names of the work in the order in which the stream had it; -1 for anything but a kernel.
    """
    at = find_rows(kinds.is_softmax, number)
    marks = _Marks(np.zeros(len(number), dtype=np.uint8), np.full(len(number), _FAR, dtype=np.int8))
    stream = _Stream(number, kinds)
    blocks = [_calls_of(stream, at[low : low + _BLOCK]) for low in range(0, len(at), _BLOCK)]
    for block in blocks:
        _mark_inside(marks, block)
    for block in blocks:
        _mark_around(marks, stream, block)
    is_own = np.arange(256, dtype=np.uint8).view(np.int8) != _FAR
    place = find_rows(is_own, marks.behind.view(np.uint8))
    return AttentionPieces(
        place, marks.bits[place], place + marks.behind[place], sum(len(block.at) for block in blocks)
    )


@dataclass(frozen=True)
class _Marks:
    """What is known about each piece of work of a stream: what it is, and how far behind it its softmax is."""

    bits: npt.NDArray[np.uint8]
    behind: npt.NDArray[np.int8]

    def own(self, place: Rows, softmax: Rows) -> None:
        """Let the work at these places belong to these softmaxes. The last one of several counts."""
        np.maximum.at(self.behind, place, (softmax - place).astype(np.int8))


@dataclass(frozen=True)
class _Calls:
    """Positions in a stream: softmaxes, and the nearest products before and behind each."""

    at: Rows
    low: Rows
    high: Rows


@dataclass(frozen=True)
class _Stream:
    """The names of a stream's work."""

    number: Ints
    kinds: NameKinds

    def is_of(self, kind: Bools, at: Rows) -> Bools:
        """Return which of these positions are in the stream and have a name of a kind."""
        inside = (at >= 0) & (at < len(self.number))
        is_kind: Bools = inside & kind[self.number[np.where(inside, at, 0)]]
        return is_kind

    def first_of_product(self, at: Rows) -> Rows:
        """Return the first kernel of the products at these positions."""
        ends = self.is_of(self.kinds.is_split, at) & self.is_of(self.kinds.is_gemm, at - 1)
        return np.where(ends, at - 1, at)

    def last_of_product(self, at: Rows) -> Rows:
        """Return the last kernel of the products at these positions."""
        return np.where(self.is_of(self.kinds.is_split, at + 1), at + 1, at)

    def passed(self, at: Rows, step: int, kind: Bools) -> Rows:
        """Return the nearest position beside each of these whose work is not of a kind, but for a few of that kind.

        step: in which direction, 1 or -1.
        """
        place = at + step
        for _ in range(_MOST_COPIES):
            place = np.where(self.is_of(kind, place), place + step, place)
        return place

    def nearest_product(self, at: Rows, step: int) -> Rows:
        """Return the product that nothing but what lies between products separates from each position, or -1.

        step: in which direction, 1 or -1.
        """
        nearest = np.full(len(at), -1, dtype=np.int32)
        going, place = np.arange(len(at)), at
        for _ in range(2 * _REACH - 1):
            place = place + step
            product = self.is_of(self.kinds.is_gemm, place)
            nearest[going[product]] = place[product]
            goes_on = self.is_of(self.kinds.is_between, place)
            going, place = going[goes_on], place[goes_on]
        return nearest


def _calls_of(stream: _Stream, at: Rows) -> _Calls:
    """Return those of the softmaxes that are attention."""
    at = at[stream.is_of(stream.kinds.is_between, at)]
    low, high = stream.nearest_product(at, -1), stream.nearest_product(at, 1)
    inside = (low >= 0) & (high >= 0) & (high - low <= 2 * _REACH)
    return _Calls(at[inside], low[inside], high[inside])


def _mark_inside(marks: _Marks, calls: _Calls) -> None:
    """Mark what lies between the products of each call."""
    at, low, high = calls.at, calls.low, calls.high
    for step in range(int((high - low).max(initial=-1)) + 1):
        reached = low + step <= high
        at, low, high = at[reached], low[reached], high[reached]
        place = low + np.int32(step)
        marks.own(place, at)
        if step:
            marks.bits[place[place < high]] |= BETWEEN


def _mark_around(marks: _Marks, stream: _Stream, calls: _Calls) -> None:
    """Mark the products of each call, and the copies and sums beside them."""
    kinds, at = stream.kinds, calls.at
    is_backward = kinds.is_backward[stream.number[at]]
    first, last = stream.first_of_product(calls.low), stream.last_of_product(calls.high)
    second = calls.high
    for beside, step in ((first, -1), (last, 1)):
        further = stream.passed(beside, step, kinds.is_copy)
        is_product = is_backward & stream.is_of(kinds.is_gemm, further)
        begin, end = stream.first_of_product(further), stream.last_of_product(further)
        if step < 0:
            first = np.where(is_product, begin, first)
        else:
            last = np.where(is_product, end, last)
    start, stop = stream.passed(first, -1, kinds.is_copy), stream.passed(last, 1, kinds.is_copy)
    stop = np.where(is_backward, stream.passed(last, 1, kinds.is_copy | kinds.is_sum), stop)
    for step in range(1, int((stop - start).max(initial=0)) + 1):
        inside = np.flatnonzero(start + step < stop)
        place, backward = start[inside] + np.int32(step), is_backward[inside]
        is_product = stream.is_of(kinds.is_gemm, place)
        is_second = is_product & ~backward & (place >= second[inside])
        outside = (place < first[inside]) | (place > last[inside])
        is_around = ~is_product & (outside | ((marks.bits[place] & BETWEEN) == 0))
        for bit, chosen in (
            (GEMM, is_product), (_BACKWARD_GEMM, is_product & backward), (_SECOND_GEMM, is_second), (_AROUND, is_around)
        ):  # fmt: skip
            marks.bits[place[chosen]] |= bit
        marks.own(place, at[inside])
