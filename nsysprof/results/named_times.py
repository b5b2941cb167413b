"""Define three named times of a case, which capture and bench share.

- cold GPU time: between two events around one call, after the caches were emptied. While they are being emptied the CPU
  has time to launch the call, so launching does not count.
- warm end-to-end time: between two events around one of many calls back to back, with warm caches. If the GPU waits for
  the CPU to launch the call, that waiting counts.
- graph time: the same call replayed as a CUDA graph, which the CPU launches as one call.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from nsysprof.results.block import Block

# The first sample of a block sees cold caches and a low clock. It is left out where there are enough others.
_LEAST_TO_DROP = 5


def steady_samples(values_ns: Sequence[int]) -> Sequence[int]:
    """Return the samples of a block, without the first one where at least four others are left."""
    return values_ns[dropped_samples(len(values_ns)) :]


def dropped_samples(count: int) -> int:
    """Return how many samples at the beginning of a block of `count` do not count."""
    return 1 if count >= _LEAST_TO_DROP else 0


def named_times(blocks: Sequence[Block], *, flush: bool) -> dict[str, Any]:
    """Return the times of one case by the names of their columns (ns), None where one was not measured.

    flush: whether the plan empties the caches before each sample.
    """
    own, other = _median([block.values_ns for block in blocks]), _median([block.other_caches_ns for block in blocks])
    empty = [block.empty_ns for block in blocks if block.empty_ns is not None]
    return {
        "cold_ns": own if flush else other,
        "warm_ns": other if flush else own,
        "event_over_graph": event_over_graph(blocks),
        "empty_ns": statistics.median(empty) if empty else None,
    }


def event_over_graph(blocks: Sequence[Block]) -> float | None:
    """Return the median sample between two events divided by the median graph replay, over blocks that have both."""
    ratios = [
        statistics.median(steady_samples(block.values_ns)) / statistics.median(steady_samples(block.graph_ns))
        for block in blocks
        if block.values_ns and block.graph_ns
    ]
    return float(statistics.median(ratios)) if ratios else None


def _median(samples: Sequence[Sequence[int]]) -> float | None:
    values = [value for each in samples for value in steady_samples(each)]
    return float(statistics.median(values)) if values else None
