"""Tell what a program reads from the GPU where it waits for it, and what to do instead."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from nsysprof.analysis.findings.situation import DEVICE_TO_HOST, Situation, in_calls, number_text
from nsysprof.trace.schema import Bools


@dataclass(frozen=True, order=True)
class _Read:
    """What a program reads from the GPU: with a count before it, and alone; and what to do instead."""

    what: str
    alone: str
    next_step: str


# How advice on waits that a CUDA graph cannot hold begins.
TAKE_OUT = "Take the waits out first."
_NO_SYNCHRONIZE = (
    "Remove torch.cuda.synchronize() (cudaDeviceSynchronize) from the loop; order streams by events instead."
)
_VALUE = _Read(
    "as .item() does", "values, as .item() does",
    "Keep values on the GPU, and read them every 100th step: replace loss.item() by loss.detach(); in CUDA C++ leave "
    "out the copy to the host and the synchronisation.",
)  # fmt: skip
_NOTHING = _Read("for none", "none", _NO_SYNCHRONIZE)
_CONDITION = _Read(
    "for a condition", "conditions, as an if on a tensor does",
    "An if on a tensor, and .all() in one, wait for it: decide on the GPU by torch.where. torch.distributions checks "
    "its arguments like this unless it gets validate_args=False; torch.linalg unless called as cholesky_ex, inv_ex.",
)  # fmt: skip
_SIZE = _Read(
    "for the size of a mask as an index", "sizes of masks as indices, as nonzero() does",
    "x[mask], nonzero() and torch.where(mask) need their size on the host: take torch.where(mask, a, b), multiply by "
    "the mask, or index by numbers that are made once. For a loop over experts, take one grouped product of sorted "
    "tokens (torch._grouped_mm).",
)  # fmt: skip
_SCALER = _Read(
    "for the check of GradScaler", "the check of GradScaler, whether gradients are finite",
    "GradScaler asks whether gradients are finite: an optimizer with fused=True is told so on the GPU, and bf16 needs "
    "no scaler.",
)  # fmt: skip
# What a copy reads, by torch's last two kernels before it.
_COUNTS = re.compile("NonZeroOp")
_WRITERS = ((_SCALER, re.compile("_amp_foreach_non_finite_check")), (_SIZE, _COUNTS))
_OF_TORCH = re.compile("at::native")


@dataclass(frozen=True)
class WhatIsRead:
    """What waits read.

    text: such as "values, as .item() does"; "" where most of them read nothing.
    next_step: what to do instead.
    place: the line that calls the layer of what is read; "" where it is not known.
    """

    text: str
    next_step: str
    place: str = ""


def what_is_read(situation: Situation, waits: Bools) -> WhatIsRead:
    """Return what the host reads from the GPU by these waits, the most frequent first."""
    reads = _reads(situation, waits)
    if not reads or 2 * sum(int(of_read.sum()) for of_read in reads.values()) < int(waits.sum()):
        return WhatIsRead("", _NO_SYNCHRONIZE)
    rest = waits & ~np.any(list(reads.values()), axis=0)
    if rest.any():
        reads[_NOTHING] = rest
    frequent = sorted((-in_calls(situation, of_read), read) for read, of_read in reads.items())
    parts = [f"{number_text(-count)} {read.what}" for count, read in frequent if count]
    text = frequent[0][1].alone if len(parts) < 2 else f"values: {', '.join(parts)}"
    sizes = reads.get(_SIZE)
    is_of_sizes = sizes is not None and 2 * int(sizes.sum()) > int(waits.sum())
    next_step = " ".join(read.next_step for _, read in frequent)
    return WhatIsRead(text, next_step, _line_of_counting(situation) if is_of_sizes else "")


def _line_of_counting(situation: Situation) -> str:
    """Return the line at which most masks are counted, by the operator that also waits for it; "" if not known."""
    counting, operators = situation.kernels_named(lambda name: _COUNTS.search(name) is not None), situation.operators
    numbers = operators.call[counting & (operators.call >= 0)].tolist()
    return next(
        (line for line, _ in Counter(operators.calls[number].location for number in numbers).most_common(1)), ""
    )


def _reads(situation: Situation, waits: Bools) -> dict[_Read, Bools]:
    """Return which waits are for which value: copies to the host, and waits that follow one on the same thread."""
    rest = situation.is_copy & (situation.copy_kind == DEVICE_TO_HOST)
    copies_by_read = {}
    for read, writer in _WRITERS:
        copies_by_read[read] = rest & _after_kernels(situation, rest, writer)
        rest &= ~copies_by_read[read]
    is_condition = rest & (situation.bytes == 1) & _after_kernels(situation, rest, _OF_TORCH)
    copies_by_read |= {_CONDITION: is_condition, _VALUE: rest & ~is_condition}
    follows = situation.graph.follows
    waits_by_read: dict[_Read, Bools] = {}
    for read, copies in copies_by_read.items():
        calls = situation.calls_of(copies)
        of_read = waits & (calls | ((follows >= 0) & calls[np.maximum(follows, 0)]))
        if of_read.any():
            waits_by_read[read] = of_read
    return waits_by_read


def _after_kernels(situation: Situation, copies: Bools, writer: re.Pattern[str]) -> Bools:
    """Return which copies have a kernel of this name among the last two before them on their stream."""
    is_writer = situation.kernels_named(lambda name: writer.search(name) is not None)
    after, stream = np.zeros_like(copies), situation.graph.stream
    for number in np.unique(stream[copies]).tolist():
        kernels = np.flatnonzero((stream == number) & (situation.kernel_number >= 0))
        mine = np.flatnonzero(copies & (stream == number))
        before = np.searchsorted(kernels, mine)
        for back in (1, 2):
            known = before >= back
            after[mine[known]] |= is_writer[kernels[before[known] - back]]
    return after
