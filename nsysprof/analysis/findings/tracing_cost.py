"""Estimate what tracing costs the host, so that savings are those of the program without a profiler.

Without tracing the host is faster, and making it faster still gains less.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nsysprof.analysis.findings.candidates import LONG_GAP_NS
from nsysprof.analysis.findings.situation import Situation
from nsysprof.analysis.idle_time.call_classes import LAUNCH, SLOW_NS
from nsysprof.analysis.replay.replay import ReplayChange

# An ordinary untraced launch takes about this long (ns); the rest is the profiler's.
_ORDINARY_NS = 2_500
# At most this much of a launch (ns) is taken for the profiler's.
_MOST_NS = 5_000
# A profiler also works before and behind each call that it records, which looks like the program's own time: 2 us a
# call in the middle of nine trainings (traces/h200-programs), up to 5 us, by their steps without a profiler. The host
# of another process is up to a fifth faster. With both, the replays of ten of fourteen trainings (five of them in
# traces/h200-faults) take no longer than their steps without a profiler.
_BESIDE_NS, _LEAST_GAP_NS = 3_000, 500
_FASTER = 0.8


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


def on_fast_host(situation: Situation, change: ReplayChange, tracing_ns: int) -> ReplayChange:
    """Return the change without tracing on a host that is as fast as the trace leaves possible.

    What the program does for long between two calls, as a sleep or reading a file, takes as long as in the trace.
    """
    bare = without_tracing(situation, change, tracing_ns)
    gap, cost = bare.gap_ns, bare.cost_ns
    faster = np.maximum(_FASTER * gap - _BESIDE_NS, np.minimum(gap, _LEAST_GAP_NS)).astype(np.int64)
    return replace(
        bare,
        gap_ns=np.where(gap < LONG_GAP_NS, faster, gap),
        cost_ns=np.where(cost < SLOW_NS, (_FASTER * cost).astype(np.int64), cost),
    )
