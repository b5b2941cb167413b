"""Decide whether a call is launch-bound: whether it waits for the CPU to launch its kernels."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from nsysprof.results.roof import LAUNCH_BOUND_SHARE
from nsysprof.results.samples import Block, event_over_graph, steady_samples

# Where a flush of the L2 cache hides the launching, samples scatter by less than this share of their mean.
_SCATTER = 0.1


def is_launch_bound(kernel_ns: float | None, latency_ns: float | None, event_over_graph: float | None = None) -> bool:
    """Return whether launching on the CPU determines the latency of a call; False where unknown.

    kernel_ns: the time of the call's kernels, which decides where there was no graph.
    latency_ns: the time of the whole call, untraced.
    event_over_graph: the latency divided by the time of a replay as a CUDA graph; None where there was no graph.
    """
    if event_over_graph is not None:
        return event_over_graph > 1 / LAUNCH_BOUND_SHARE
    return kernel_ns is not None and bool(latency_ns) and kernel_ns < LAUNCH_BOUND_SHARE * (latency_ns or 0)


def is_bench_launch_bound(blocks: Sequence[Block]) -> bool:
    """Return whether launching on the CPU determines the samples of a case; False where unknown.

    A replay as a CUDA graph decides. Without one, two things must hold: launching takes most of a call, and the samples
    scatter.

    blocks: the blocks of one case that have samples; at least one.
    """
    ratio = event_over_graph(blocks)
    if ratio is not None:
        return ratio > 1 / LAUNCH_BOUND_SHARE
    shares = [block.launch_share for block in blocks if block.launch_share is not None]
    if not shares or statistics.median(shares) < LAUNCH_BOUND_SHARE:
        return False
    values = [value for block in blocks for value in steady_samples(block.values_ns)]
    return statistics.pstdev(values) / statistics.fmean(values) > _SCATTER
