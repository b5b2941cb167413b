"""Find the line of Python, or else the native function, behind a finding, by stacks taken during its calls."""

from __future__ import annotations

import numpy as np

from nsysprof.analysis.findings.situation import Situation
from nsysprof.analysis.idle_time.intervals_within import union_of_groups
from nsysprof.results.findings.stack_samples import StackSamples
from nsysprof.trace.schema import Bools, Int64s

# Process and thread of a globalTid.
THREAD_BITS = (1 << 48) - 1
# A line is named if at least so many samples show it, and this part of all.
_LEAST_SAMPLES, _LEAST_SHARE = 3, 0.4


def locate(samples: StackSamples | None, situation: Situation, tid: Int64s, calls: Bools) -> str:
    """Return FILE:LINE with most samples in these calls and in the host's time before them; "" where none stands out.

    Where no line of Python does, return the native function that most stacks of the calls show.

    tid: the thread of each call of the graph.
    """
    if samples is None or not calls.any():
        return ""
    return _most(samples, situation, tid, calls) or locate(samples.native, situation, tid, calls)


def _most(samples: StackSamples, situation: Situation, tid: Int64s, calls: Bools) -> str:
    before = np.maximum(situation.graph.gap_ns[calls], 0)
    start = situation.call_start_ns[calls] - before
    end = situation.call_start_ns[calls] + situation.call_ns[calls]
    thread = tid[calls] & THREAD_BITS
    found = np.zeros(len(samples.lines) + 1, dtype=np.int64)
    for number in np.unique(thread).tolist():
        mine, its = thread == number, samples.thread == number
        _, low, high = union_of_groups(np.zeros(int(mine.sum()), dtype=np.int64), start[mine], end[mine])
        time = samples.time_ns[its]
        at = np.searchsorted(low, time, "right") - 1
        inside = (at >= 0) & (time < high[np.maximum(at, 0)])
        np.add.at(found, samples.line[its][inside], 1)
    total, known = int(found.sum()), found[:-1]
    if len(known) == 0 or known.max() < max(_LEAST_SAMPLES, _LEAST_SHARE * total):
        return ""
    return samples.lines[int(np.argmax(known))]
