"""Estimate what tracing costs the host, so that savings are those of the program without a profiler.

Without tracing the host is faster, and making it faster still gains less.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nsysprof.analysis.findings.situation import Situation
from nsysprof.analysis.idle_time.call_classes import LAUNCH, SLOW_NS
from nsysprof.analysis.replay.replay import ReplayChange

# An ordinary untraced launch takes about this long (ns); the rest is the profiler's.
_ORDINARY_NS = 2_500
_MOST_NS = 5_000


def estimate_tracing_cost(situation: Situation) -> int:
    """Return what tracing costs each call that issues work (ns): how much longer launches take than usual."""
    launches = (situation.call_class == LAUNCH) & (situation.call_ns < SLOW_NS) & ~situation.is_wait
    if not launches.any():
        return 0
    return int(np.clip(np.median(situation.call_ns[launches]) - _ORDINARY_NS, 0, _MOST_NS))


def without_tracing(situation: Situation, change: ReplayChange, tracing_ns: int) -> ReplayChange:
    """Return the change in which each call that issues work is shorter by what tracing it costs.

    The time before a call becomes shorter by what the profiler did in it, such as emptying its buffers.
    """
    issues = np.diff(situation.graph.first_work) > 0
    least = np.minimum(change.cost_ns, _ORDINARY_NS)
    cost = np.maximum(change.cost_ns - tracing_ns, least)
    gap = np.maximum(change.gap_ns - situation.profiler_ns, np.minimum(change.gap_ns, 0))
    return replace(change, gap_ns=gap, cost_ns=np.where(issues, cost, change.cost_ns))
