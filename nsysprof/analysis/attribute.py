"""Which range launched which work: by the API call's thread and time, never by when the GPU got to it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from nsysprof.analysis.intervals import Ints
from nsysprof.analysis.work import PID_MASK


def attribute_work(work: pd.DataFrame, launches: pd.DataFrame | None, ranges: pd.DataFrame) -> tuple[Ints, Ints]:
    """Pairs (row of ranges, row of work): the range encloses the call that launched the work.

    A push/pop range encloses calls of its own thread, a start/end range those of any thread of its process, since
    autograd launches the backward pass from threads of its own. Nested ranges each get the work (inclusive).
    """
    if launches is None or len(ranges) == 0 or len(work) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    launched = np.flatnonzero(work["launch"].to_numpy() >= 0)
    call = work["launch"].to_numpy()[launched]
    tid = launches["global_tid"].to_numpy()[call]
    start = launches["start_ns"].to_numpy()[call]
    end = launches["end_ns"].to_numpy()[call]
    pairs: list[tuple[Ints, Ints]] = []
    for style, scope in (("PushPop", tid), ("StartEnd", tid & PID_MASK)):
        chosen = np.flatnonzero((ranges["style"] == style).to_numpy())
        owner = ranges["global_tid"].to_numpy()[chosen]
        owner = owner if style == "PushPop" else owner & PID_MASK
        begin = ranges["start_ns"].to_numpy()[chosen]
        finish = ranges["end_ns"].to_numpy()[chosen]
        which, item = _enclosed(scope, start, end, owner, begin, finish)
        pairs.append((chosen[which], launched[item]))
    return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])


def _enclosed(scope: Ints, start: Ints, end: Ints, owner: Ints, begin: Ints, finish: Ints) -> tuple[Ints, Ints]:
    """All (range, call) with the same owner, begin <= start and end <= finish."""
    order = np.lexsort((start, scope))
    scope, start, end = scope[order], start[order], end[order]
    low = np.zeros(len(owner), np.int64)
    high = np.zeros(len(owner), np.int64)
    for value in np.unique(owner):
        first, last = np.searchsorted(scope, value, "left"), np.searchsorted(scope, value, "right")
        mine = owner == value
        low[mine] = first + np.searchsorted(start[first:last], begin[mine], "left")
        high[mine] = first + np.searchsorted(start[first:last], finish[mine], "right")
    count = np.maximum(0, high - low)
    which = np.repeat(np.arange(len(owner)), count)
    offset = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    item = np.repeat(low, count) + offset
    inside = end[item] <= finish[which]
    return which[inside], order[item[inside]]
