"""Find launches that waited because the queue of the GPU was full; there the host is not slow."""

from __future__ import annotations

import numpy as np

from nsysprof.analysis.idle_time.call_classes import SLOW_NS
from nsysprof.trace.schema import Bools, Int64s

# CUDA queues about a thousand pieces of work, and a launch beyond them returns when the GPU has taken one. This many
# already suffice as evidence: a slow launch with so many pending did not wait for anything else.
_DEEP_QUEUE = 200


def find_full_queues(
    start_ns: Int64s, end_ns: Int64s, is_launch: Bools, issued_before: Int64s, ended_ns: Int64s
) -> Int64s:
    """Return the positions of slow launching calls during which the GPU had a deep queue of work.

    start_ns, end_ns, is_launch: the calls.
    issued_before: how many pieces of work had been issued before each call.
    ended_ns: the ends of all work, sorted.
    """
    slow = np.flatnonzero(is_launch & (end_ns - start_ns >= SLOW_NS))
    pending = issued_before[slow] - np.searchsorted(ended_ns, start_ns[slow], "right")
    return slow[pending >= _DEEP_QUEUE].astype(np.int64)
