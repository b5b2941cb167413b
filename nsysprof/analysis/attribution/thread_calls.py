"""Hold the CUDA calls of one thread in order, in as little memory as a few columns allow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysprof.arrays import find_rows
from nsysprof.native.load import loop
from nsysprof.trace.schema import Bools, Calls, Int64s, Ints

_BLOCK = 1 << 18
# A pause of a millisecond is long.
_LONG_NS = 1 << 20


@dataclass(frozen=True)
class ThreadCalls:
    """The CUDA calls of a thread, in order of start."""

    start_ns: Int64s
    # How long after the start of each call this call and all earlier ones had ended (ns). A runtime call may contain a
    # driver call, and then ends after it.
    lasted_ns: Ints

    def ended_ns(self, count: Ints) -> Int64s:
        """Return when the first `count` calls had all ended (ns), for each count; 0 where it is 0."""
        if len(self.start_ns) == 0:
            return np.zeros(len(count), dtype=np.int64)
        last = np.maximum(count - 1, 0)
        ended: Int64s = np.where(count > 0, self.start_ns[last] + self.lasted_ns[last], 0)
        return ended

    def usual_pause_ns(self) -> float:
        """Return the median time from the end of a call to the start of the next (ns); 0 for fewer than two calls."""
        pauses = len(self.start_ns) - 1
        if pauses < 1:
            return 0.0
        # Longer times and negative ones are counted as the longest and as 0, which changes no median between these.
        times = np.zeros(_LONG_NS + 1, dtype=np.int32)
        run = loop("count_pauses")
        if run is not None:
            run(self.start_ns, self.lasted_ns, times, _LONG_NS)
        for low in range(0, 0 if run else pauses, _BLOCK):
            part = slice(low, min(low + _BLOCK, pauses))
            np.add.at(times, np.clip(self._pauses_ns(part), 0, _LONG_NS), np.int32(1))
        middle = [(pauses - 1) // 2, pauses // 2]
        found = np.searchsorted(np.cumsum(times, dtype=np.int64), middle, "right")
        if found[0] == 0 or found[1] == _LONG_NS:
            return float(np.median(self._pauses_ns(slice(0, pauses))))
        return float(found.mean())

    def _pauses_ns(self, part: slice) -> Int64s:
        after: Int64s = self.start_ns[part.start + 1 : part.stop + 1] - self.start_ns[part]
        return after - self.lasted_ns[part]


def order_calls(calls: Calls, of_variant: Bools) -> ThreadCalls:
    """Return the calls of some variants, in order of start.

    of_variant: whether the calls of each variant are wanted.
    """
    found = _order_compiled(calls, of_variant)
    if found is not None:
        return found
    if of_variant.all():
        rows, start = None, calls.start_ns
    else:
        rows = find_rows(of_variant, calls.variant)
        start = calls.start_ns[rows]
    if not bool((start[1:] >= start[:-1]).all()):
        order = np.argsort(start, kind="stable").astype(np.int32)
        start, rows = start[order], order if rows is None else rows[order]
    lasted: Ints = np.empty(len(start), dtype=np.uint32)
    reached = np.iinfo(np.int64).min
    for low in range(0, len(start), _BLOCK):
        part = slice(low, low + _BLOCK)
        ended = start[part] + calls.duration_ns[part if rows is None else rows[part]]
        ended[0] = max(reached, int(ended[0]))
        np.maximum.accumulate(ended, out=ended)
        reached = int(ended[-1])
        ended -= start[part]
        if lasted.dtype == np.uint32 and int(ended.max()) >= 2**32:
            lasted = lasted.astype(np.int64)
        lasted[part] = ended
    return ThreadCalls(start, lasted)


def _order_compiled(calls: Calls, of_variant: Bools) -> ThreadCalls | None:
    """Return what order_calls does by compiled code; None where that is not to be had, or the calls are in no order."""
    run = loop("order_calls")
    if run is None:
        return None
    start, lasted = np.empty(len(calls), dtype=np.int64), np.empty(len(calls), dtype=np.uint32)
    count = run(of_variant, calls.start_ns, calls.duration_ns, calls.variant, start, lasted)
    if count < 0:
        return None
    start.resize(count, refcheck=False)  # in place: the allocator frees the rest
    lasted.resize(count, refcheck=False)
    return ThreadCalls(start, lasted)
