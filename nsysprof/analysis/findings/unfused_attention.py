"""Find attention that runs as separate kernels: a softmax between two matrix products, and what is between them.

The backward pass of each of the two products is two more products: one before the softmax's own backward pass, one
after it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from nsysprof.analysis.kernel_names.kernel_labels import is_log_softmax
from nsysprof.analysis.kernel_names.variant_names import Names
from nsysprof.trace.schema import Bools, Int64s, Ints

# The most kernels between a softmax and the product on either side (scale, mask, dropout, casts).
_REACH = 10
# A softmax that belongs to a loss, in addition to log-softmax.
_LOSS = re.compile(r"nll|cross_entropy", re.IGNORECASE)
_BETWEEN = ("softmax", "elementwise", "copy", "fill", "reduction", "other")
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


def find_unfused_attention(number: Ints, names: Names, stream: Int64s) -> UnfusedAttention | None:
    """Return the unfused attention among work in the order of its issue; None where there is none.

    number: the position of each kernel in `names`; -1 for anything but a kernel.
    stream: the number of each piece of work's stream.
    """
    kinds = _kinds_of(names)
    softmaxes = kinds.is_softmax[number]
    marks = [np.zeros(len(number), dtype=np.bool_) for _ in range(5)]
    owner = np.full(len(number), -1, dtype=np.int64)
    found = UnfusedAttention(marks[0], marks[1], marks[2], marks[3], marks[4], owner, 0)
    calls = 0
    for stream_number in np.unique(stream[softmaxes]).tolist():
        mine = np.flatnonzero(stream == stream_number)
        calls += _find_in_stream(found, mine, kinds, number[mine])
    return replace(found, calls=calls) if calls else None


@dataclass(frozen=True)
class _Kinds:
    """What each name says about its kernel. The last entry belongs to -1."""

    is_softmax: Bools
    is_backward: Bools
    is_gemm: Bools
    is_split: Bools
    is_between: Bools
    is_copy: Bools
    is_sum: Bools


def _kinds_of(names: Names) -> _Kinds:
    texts = [str(text) for text in names.texts]
    category = names.category.astype(str)

    def matching(pattern: re.Pattern[str]) -> Bools:
        return np.array([pattern.search(text) is not None for text in texts], dtype=bool)

    is_loss = matching(_LOSS) | np.array([is_log_softmax(text) for text in texts], dtype=bool)
    each = (
        (category == "softmax") & ~is_loss,
        matching(_BACKWARD),
        category == "gemm",
        matching(_SPLIT),
        np.isin(category, _BETWEEN) & ~matching(_NEVER_BETWEEN),
        matching(_PLAIN_COPY) & ~matching(_CONVERTS),
        matching(_SUM),
    )
    return _Kinds(*(np.append(one, False).astype(bool) for one in each))


def _find_in_stream(found: UnfusedAttention, mine: Int64s, kinds: _Kinds, number: Ints) -> int:
    """Mark the attention in the work of one stream, and return the number of its softmaxes.

    mine: the positions of the stream's work.
    number: its names.
    """
    is_gemm = kinds.is_gemm[number]
    positions = np.arange(len(mine))
    before = np.maximum.accumulate(np.where(is_gemm, positions, -1))
    after = np.minimum.accumulate(np.where(is_gemm, positions, len(mine))[::-1])[::-1]
    blocked = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(~kinds.is_between[number] & ~is_gemm)))
    at = np.flatnonzero(kinds.is_softmax[number])
    low, high = before[at], after[at]
    inside = (low >= 0) & (high < len(mine)) & (high - low <= 2 * _REACH)
    at, low, high = at[inside], low[inside], high[inside]
    free = blocked[high] == blocked[low + 1]
    at, low, high = at[free], low[free], high[free]
    for step in range(int((high - low).max(initial=-1)) + 1):
        reached = low + step <= high
        place = mine[low[reached] + step]
        np.maximum.at(found.softmax, place, mine[at[reached]])
        found.between[place[(low[reached] + step < high[reached]) & (step > 0)]] = True
    _mark_around(found, _Stream(mine, number, kinds), at, low, high)
    return len(at)


@dataclass(frozen=True)
class _Stream:
    """The work of one stream: its positions in all work, and its names."""

    mine: Int64s
    number: Ints
    kinds: _Kinds

    def is_of(self, kind: Bools, at: Int64s) -> Bools:
        """Return which of these positions are in the stream and have a name of a kind."""
        inside = (at >= 0) & (at < len(self.mine))
        found: Bools = inside & kind[self.number[np.where(inside, at, 0)]]
        return found

    def first_of_product(self, at: Int64s) -> Int64s:
        """Return the first kernel of the products at these positions."""
        ends = self.is_of(self.kinds.is_split, at) & self.is_of(self.kinds.is_gemm, at - 1)
        return np.where(ends, at - 1, at)

    def last_of_product(self, at: Int64s) -> Int64s:
        """Return the last kernel of the products at these positions."""
        return np.where(self.is_of(self.kinds.is_split, at + 1), at + 1, at)

    def passed(self, at: Int64s, step: int, kind: Bools) -> Int64s:
        """Return the nearest position beside each of these whose work is not of a kind, but for a few of that kind.

        step: in which direction, 1 or -1.
        """
        place = at + step
        for _ in range(_MOST_COPIES):
            place = np.where(self.is_of(kind, place), place + step, place)
        return place


def _mark_around(found: UnfusedAttention, stream: _Stream, at: Int64s, low: Int64s, high: Int64s) -> None:
    """Mark the products of each call, and the copies and sums beside them.

    at, low, high: the positions in the stream of the softmaxes, and of the nearest products before and behind them.
    """
    kinds, mine = stream.kinds, stream.mine
    is_backward = kinds.is_backward[stream.number[at]]
    first, last = stream.first_of_product(low), stream.last_of_product(high)
    second = high
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
    for step in range(int((stop - start).max(initial=0))):
        place = start + 1 + step
        inside = place < stop
        place, owner, backward = place[inside], mine[at[inside]], is_backward[inside]
        is_product = stream.is_of(kinds.is_gemm, place)
        outside = (place < first[inside]) | (place > last[inside])
        found.gemms[mine[place[is_product]]] = True
        found.backward_gemms[mine[place[is_product & backward]]] = True
        found.second_gemms[mine[place[is_product & ~backward & (place >= second[inside])]]] = True
        found.around[mine[place[~is_product]]] |= (outside | ~found.between[mine[place]])[~is_product]
        np.maximum.at(found.softmax, mine[place], owner)
