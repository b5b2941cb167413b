"""Find attention that runs as separate kernels: a softmax between two matrix products, and what is between them."""

from __future__ import annotations

import re
from dataclasses import dataclass

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


@dataclass(frozen=True)
class UnfusedAttention:
    """The kernels of attention that runs as separate kernels."""

    # Which work is a matrix product of attention, and which lies between the products.
    gemms: Bools
    between: Bools
    # The position of the softmax that each such piece of work belongs to; -1 for all other work.
    softmax: Int64s
    # The number of softmaxes.
    calls: int


def find_unfused_attention(number: Ints, names: Names, stream: Int64s) -> UnfusedAttention | None:
    """Return the unfused attention among work in the order of its issue; None where there is none.

    number: the position of each kernel in `names`; -1 for anything but a kernel.
    stream: the number of each piece of work's stream.
    """
    of_softmax = np.array([kind == "softmax" for kind in names.category], dtype=bool)
    texts = [str(text) for text in names.texts]
    of_softmax &= np.array([_LOSS.search(text) is None and not is_log_softmax(text) for text in texts], dtype=bool)
    # The last entry belongs to -1.
    softmaxes = np.append(of_softmax, False)[number]
    of_gemm = np.append(names.category == "gemm", False).astype(bool)
    is_between = np.isin(names.category.astype(str), _BETWEEN)
    is_between &= np.array([_NEVER_BETWEEN.search(text) is None for text in texts], dtype=bool)
    passable = np.append(is_between, False)
    gemms, between = np.zeros(len(number), dtype=np.bool_), np.zeros(len(number), dtype=np.bool_)
    softmax = np.full(len(number), -1, dtype=np.int64)
    calls = 0
    for stream_number in np.unique(stream[softmaxes]).tolist():
        mine = np.flatnonzero(stream == stream_number)
        is_gemm = of_gemm[number[mine]]
        positions = np.arange(len(mine))
        before = np.maximum.accumulate(np.where(is_gemm, positions, -1))
        after = np.minimum.accumulate(np.where(is_gemm, positions, len(mine))[::-1])[::-1]
        blocked = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(~passable[number[mine]] & ~is_gemm)))
        at = np.flatnonzero(softmaxes[mine])
        low, high = before[at], after[at]
        inside = (low >= 0) & (high < len(mine)) & (high - low <= 2 * _REACH)
        at, low, high = at[inside], low[inside], high[inside]
        free = blocked[high] == blocked[low + 1]
        at, low, high = at[free], low[free], high[free]
        gemms[mine[low]], gemms[mine[high]] = True, True
        for step in range(int((high - low).max(initial=-1)) + 1):
            reached = low + step <= high
            place = mine[low[reached] + step]
            np.maximum.at(softmax, place, mine[at[reached]])
            between[place[(low[reached] + step < high[reached]) & (step > 0)]] = True
        calls += len(at)
    return UnfusedAttention(gemms, between, softmax, calls) if calls else None
