"""Decide whether a call waits for the CPU to launch its kernels."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from nsysprof.results.block import Block
from nsysprof.results.device_limits.launch_bound import LAUNCH_BOUND_SHARE

# Launching that a flush of the L2 cache hides does not show in the samples: they scatter less than this part of a mean.
_SCATTER = 0.1


def is_launch_bound(kernel_ns: float | None, latency_ns: float | None) -> bool:
    """Return whether kernels fill so little of a call that its latency is the CPU's launching; False where unknown.

    kernel_ns: the time of the call's kernels.
    latency_ns: the time of the whole call, untraced.
    """
    return kernel_ns is not None and bool(latency_ns) and kernel_ns < LAUNCH_BOUND_SHARE * (latency_ns or 0)


def is_bench_launch_bound(blocks: Sequence[Block]) -> bool:
    """Return whether launching takes most of a call and the samples scatter by it; False where no share is known.

    blocks: the blocks of one case that have samples; at least one.
    """
    shares = [block.launch_share for block in blocks if block.launch_share is not None]
    if not shares or statistics.median(shares) < LAUNCH_BOUND_SHARE:
        return False
    values = [value for block in blocks for value in block.values_ns]
    return statistics.pstdev(values) / statistics.fmean(values) > _SCATTER
