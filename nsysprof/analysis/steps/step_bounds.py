"""Decide when each step of a program began and ended, and which steps are usual.

The host often issues work faster than the GPU does it. Then the time from one call to the next says little about a
step. A step therefore ends when the host has begun the next one and the GPU has done everything issued until then.
"""

from __future__ import annotations

import numpy as np

from nsysprof.analysis.attribution.range_structure import tolerance_ns
from nsysprof.arrays import find_trend
from nsysprof.trace.schema import MIGRATION, Bools, Int64s, Tables

_BLOCK = 1 << 18
# A slow step is marked by the rule for slow instances (nsysprof.analysis.ranges.slow_instances).
_LEAST_STEADY, _LEAST_RATIO = 8, 1.25
# If more steps than this are slow, and more than this share, that is how the program works, and none is an exception.
_MOST_SLOW, _MOST_SLOW_SHARE = 2, 0.25


def bound_steps(tables: Tables, global_pid: int, issued_ns: Int64s) -> Int64s:
    """Return when each step began, and when the last one ended (ns).

    These are the times at which the host began each step, or later ones, at which the GPU had done all work issued
    until then. Where work of one step outlasts the whole next step, such as a kernel that runs all the time, the
    times of the host are returned, because the GPU's say nothing about single steps.

    global_pid: the process of the steps; the work of others does not count.
    issued_ns: when the host began each step, and when the last one ended.
    """
    work, calls = tables.work, tables.calls
    if calls is None or len(calls) == 0:
        return issued_ns
    counts = (work.pid_of == global_pid) & (work.kind_of != MIGRATION)
    done = np.full(len(issued_ns) + 1, issued_ns[0], dtype=np.int64)
    for low in range(0, len(work), _BLOCK):
        rows = low + np.flatnonzero(counts[work.variant[low : low + _BLOCK]] & (tables.launch[low : low + _BLOCK] >= 0))
        begun, ended = calls.start_ns[tables.launch[rows]], work.ends_ns(rows)
        if not bool((begun[1:] >= begun[:-1]).all()):
            order = np.argsort(begun, kind="stable")
            begun, ended = begun[order], ended[order]
        # The work of step i was issued from edges[i] up to edges[i + 1].
        edges = np.concatenate(([0], np.searchsorted(begun, issued_ns), [len(begun)]))
        some = np.flatnonzero(edges[1:] > edges[:-1])
        if len(some):
            done[some] = np.maximum(done[some], np.maximum.reduceat(ended, edges[some]))
    bounds = np.maximum(issued_ns, np.maximum.accumulate(done)[:-1])
    return bounds if bool((np.diff(bounds) > 0).all()) else issued_ns


def mark_slow_steps(wall_ns: Int64s) -> Bools:
    """Return which steady steps took unusually long; none where many of them did.

    wall_ns: how long each step after the warm-up took.
    """
    if len(wall_ns) < _LEAST_STEADY or find_trend(wall_ns) is not None:
        return np.zeros(len(wall_ns), dtype=np.bool_)
    middle, tolerance = tolerance_ns(wall_ns, len(wall_ns))
    slow: Bools = (wall_ns > middle + tolerance) & (wall_ns > _LEAST_RATIO * middle)
    return slow if slow.sum() <= max(_MOST_SLOW, _MOST_SLOW_SHARE * len(slow)) else np.zeros(len(slow), dtype=np.bool_)
