"""Decide which range launched which work, by the thread and time of the API call and never by when the GPU ran it.

Hold which range instance launched which work, and which name (group) each instance has.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.attribution.range_names import strip_ranges
from nsysprof.analysis.attribution.range_structure import RangeStructure, SteadyFrom, find_structure
from nsysprof.arrays import find_places
from nsysprof.errors import TraceForeignError
from nsysprof.trace.schema import NULL, PID_MASK, Bools, Calls, Int64s, Ints, Rows, Tables

# The most pairs of a range and a piece of work: this many for each piece of work, plus a constant. Programs nest ranges
# a few dozen deep. Every pair takes time, and a file that nests all its ranges has a number of pairs that grows with
# the square of its size.
MOST_AROUND, FREE_PAIRS = 1024, 1 << 22
# A table about pairs, such as of ranges and GPUs, may always have this many rows.
_FREE_ROWS = 1 << 17
_PAIRS_AT_ONCE = 1 << 22
_BLOCK = 1 << 20
# Up to this many threads, picking the work of each one is faster than sorting by thread.
_FEW_OWNERS = 8
# Push/pop ranges belong to the thread that made the call, start/end ranges to its process.
SCOPES = {"PushPop": "thread", "StartEnd": "process"}


def refuse_many_pairs(pairs: int, rows: int, each: int) -> None:
    """Raise TraceForeignError for a trace that was made so that a table about it is many times its own size.

    rows: how many rows of the trace the pairs come from.
    each: how many pairs each of these rows may have in any real program.
    """
    if pairs > each * rows + _FREE_ROWS:
        raise TraceForeignError(
            f"A table about this trace would have {pairs:,} rows, many times as many as the trace itself; no program "
            "does that.",
            "Export the report again, or record fewer ranges.",
        )


@dataclass(frozen=True)
class Segments:
    """The work of each range, stored as stretches: range `instance[i]` launched the work `order[low[i]:high[i]]`.

    Ten million pairs of a range and a piece of work would take a gigabyte, but the calls of a range lie side by side.
    """

    # Rows of work in the order of their calls, thread by thread.
    order: Rows
    instance: Int64s
    low: Int64s
    high: Int64s

    def pairs(self) -> tuple[Int64s, Rows]:
        """Return every (range instance, row of work)."""
        which, position = expand(self.low, self.high)
        return self.instance[which], self.order[position]


@dataclass(frozen=True)
class Launched:
    """The work whose launching call is known, thread by thread (or process by process) in the order of the calls."""

    # The rows of the work.
    order: Rows
    # When their calls started, and how long these took.
    start_ns: Int64s
    duration_ns: Ints
    # The global tids of the threads, or the global pids of the processes.
    owners: Int64s
    # Where the work of each owner begins in these arrays; the last entry is the end.
    edges: Int64s
    # Whether no call of an owner ends before an earlier one.
    in_order: bool
    # Returns the owner (thread or process) of a global tid.
    owner_mask: int

    def ends_ns(self, places: Any = slice(None)) -> Int64s:
        """Return when the calls at some places ended (ns)."""
        ends: Int64s = self.start_ns[places] + self.duration_ns[places]
        return ends


def order_work(
    launch: Ints, calls: Calls | None, scopes: Collection[str] = ("thread", "process")
) -> dict[str, Launched]:
    """Return the work whose launching call is known, ordered once by "thread" and once by "process".

    launch: the row of each piece of work's call in `calls`, or -1.
    scopes: which of the two orders are wanted.
    """
    if calls is None or len(launch) == 0:
        none = np.zeros(0, dtype=np.int64)
        empty = Launched(np.zeros(0, dtype=np.int32), none, none, none, np.zeros(1, dtype=np.int64), True, -1)
        return dict.fromkeys(scopes, empty)
    ordered: dict[str, Launched] = {}
    by_call: tuple[Rows, Int64s] | None = None
    for scope in sorted(scopes, reverse=True):  # threads first
        mask = -1 if scope == "thread" else PID_MASK
        owners, by_thread = np.unique(calls.tid_of & mask), ordered.get("thread")
        if by_thread is not None and len(owners) == len(by_thread.owners):
            # one thread per process, in the same order
            ordered[scope] = replace(by_thread, owners=owners, owner_mask=mask)
            continue
        by_call = by_call or _order_by_call(launch, calls)
        ordered[scope] = _by_owner(*by_call, launch, calls, mask)
    return ordered


def _order_by_call(launch: Ints, calls: Calls) -> tuple[Rows, Int64s]:
    """Return the rows of work whose call is known, in order of the calls, and when these started."""
    known = launch >= 0
    rows = np.arange(len(launch), dtype=np.int32) if known.all() else np.flatnonzero(known).astype(np.int32)
    start = calls.start_ns[launch[rows]]
    rows, start = _by_start(rows, start)
    twins = np.flatnonzero(start[1:] == start[:-1])
    if bool((launch[rows[twins]] != launch[rows[twins + 1]]).any()):
        # Rows of one call stay together, even if another thread's call starts in the same nanosecond.
        by_call = np.lexsort((launch[rows], start))
        rows, start = rows[by_call], start[by_call]
    return rows, start


def _by_start(rows: Rows, start: Int64s) -> tuple[Rows, Int64s]:
    """Return `rows` and `start` sorted by start. Rows with equal starts keep their order."""
    descents = start[1:] < start[:-1]
    if not descents.any():
        return rows, start
    in_order = int(np.argmax(descents)) + 1
    if in_order < len(rows) // 2:
        order = np.argsort(start, kind="stable")
        return rows[order], start[order]
    # Kernels come first and are mostly in order: the few copies and fills after them are inserted among them.
    order = np.argsort(start[in_order:], kind="stable")
    late_rows, late = rows[in_order:][order], start[in_order:][order]
    where = np.searchsorted(start[:in_order], late, "right")
    return np.insert(rows[:in_order], where, late_rows), np.insert(start[:in_order], where, late)


def _by_owner(rows: Rows, start: Int64s, launch: Ints, calls: Calls, mask: int) -> Launched:
    owners, number = np.unique(calls.tid_of & mask, return_inverse=True)
    edges = np.array([0, len(rows)])
    if len(owners) > 1:
        # Numbers of few bits are sorted by counting, not by comparing.
        number = number.astype(np.int16 if len(owners) < 1 << 15 else np.int32)
        owner = number[calls.variant[launch[rows]]]
        if len(owners) <= _FEW_OWNERS:
            counts = [int(np.count_nonzero(owner == owner_number)) for owner_number in range(len(owners))]
            edges = np.concatenate((edges[:1], np.cumsum(counts)))
            if max(counts) < len(rows):
                rows, start = _pick(rows, owner, edges), _pick(start, owner, edges)
        else:
            order = np.argsort(owner, kind="stable")
            rows, start = rows[order], start[order]
            edges = np.searchsorted(owner[order], np.arange(len(owners) + 1))
    duration = calls.duration_ns[launch[rows]]
    return Launched(rows, start, duration, owners, edges, _end_in_order(start, duration), mask)


def _pick(values: npt.NDArray[Any], owner: Ints, edges: Int64s) -> npt.NDArray[Any]:
    """Return the values of the first owner, then those of the next, and so on."""
    picked = np.empty_like(values)
    for owner_number, (low, high) in enumerate(itertools.pairwise(edges.tolist())):
        np.compress(owner == owner_number, values, out=picked[low:high])
    return picked


def _end_in_order(start: Int64s, duration: Ints) -> bool:
    """Return whether no call ends before an earlier one."""
    for low in range(0, len(start), _BLOCK):
        part = slice(low, low + _BLOCK + 1)
        end = start[part] + duration[part]
        if not bool((end[1:] >= end[:-1]).all()):
            return False
    return True


def attribute_launched(launch: Ints, calls: Calls | None, ranges: pd.DataFrame) -> dict[str, Segments]:
    """Return by style which of the work each range encloses: push/pop ranges by thread, start/end ranges by process.

    A style that no range has costs nothing, and lists no work.
    """
    present = [style for style in SCOPES if bool((ranges["style"] == style).any())]
    ordered = order_work(launch, calls, [SCOPES[style] for style in present]) if present else {}
    none = np.zeros(0, dtype=np.int64)
    segments_by_style = {style: Segments(np.zeros(0, dtype=np.int32), none, none, none) for style in SCOPES}
    for style in present:
        segments_by_style[style] = attribute_work(ordered.pop(SCOPES[style]), ranges, style)
    return segments_by_style


def attribute_work(launched: Launched, ranges: pd.DataFrame, style: str) -> Segments:
    """Return which work was launched inside each range of `style`. Nested ranges each count it (inclusive).

    Work ordered by thread gives a range the calls of its own thread. Work ordered by process gives it the calls of any
    thread of its process, because autograd launches the backward pass from its own threads. `instance` of the result
    holds rows of `ranges`.

    Raises TraceForeignError where far more ranges enclose each call than in any real program.
    """
    chosen = np.flatnonzero((ranges["style"] == style).to_numpy(dtype=bool))
    start, edges = launched.start_ns, launched.edges
    owner = ranges["global_tid"].to_numpy(dtype=np.int64)[chosen] & launched.owner_mask
    begin, finish = (ranges[column].to_numpy(dtype=np.int64)[chosen] for column in ("start_ns", "end_ns"))
    low, high = np.zeros(len(chosen), np.int64), np.zeros(len(chosen), np.int64)
    open_ends = np.zeros(len(chosen), dtype=np.bool_)
    for number, mine in _ranges_of(owner, launched.owners):
        first, last = edges[number], edges[number + 1]
        low[mine] = first + find_places(start[first:last], begin[mine])
        high[mine] = first + find_places(start[first:last], finish[mine], "right")
        filled = mine[high[mine] > low[mine]]
        if launched.in_order:
            latest = launched.ends_ns(high[filled] - 1)
        else:
            latest = np.maximum.accumulate(launched.ends_ns(slice(first, last)))[high[filled] - 1 - first]
        open_ends[filled] = latest > finish[filled]
    if int(np.maximum(high - low, 0).sum()) > MOST_AROUND * len(launched.order) + FREE_PAIRS:
        raise TraceForeignError(
            f"More than {MOST_AROUND} ranges are open around each launch of this trace; no program does that.",
            "Export the report again, or record fewer ranges.",
        )
    plain = ~open_ends & (high > low)
    instance, low_cut, high_cut = _cut(np.flatnonzero(open_ends), low, high, launched, finish)
    instance = np.concatenate((np.flatnonzero(plain), instance))
    return Segments(
        launched.order,
        chosen[instance],
        np.concatenate((low[plain], low_cut)),
        np.concatenate((high[plain], high_cut)),
    )


def _ranges_of(owner: Int64s, owners: Int64s) -> list[tuple[int, Int64s]]:
    """Yield (number of the owner, its ranges) for each owner that has both calls and ranges."""
    by_owner = np.argsort(owner, kind="stable")
    edges = np.searchsorted(owner[by_owner], owners), np.searchsorted(owner[by_owner], owners, "right")
    return [(i, by_owner[a:b]) for i, (a, b) in enumerate(zip(*edges, strict=True)) if b > a]


def _cut(rows: Int64s, low: Int64s, high: Int64s, launched: Launched, finish: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return (range, low, high): only those calls that really end within their range.

    In these ranges the last calls may end after the range.
    """
    reached = np.cumsum(high[rows] - low[rows])
    edges = np.flatnonzero(np.diff(reached // _PAIRS_AT_ONCE, prepend=-1)) if len(rows) else np.zeros(0, np.int64)
    parts = [_cut_some(some, low, high, launched, finish) for some in np.split(rows, edges)]
    instance, first, last = (np.concatenate(column) for column in zip(*parts, strict=True))
    return instance, first, last


def _cut_some(
    rows: Int64s, low: Int64s, high: Int64s, launched: Launched, finish: Int64s
) -> tuple[Int64s, Int64s, Int64s]:
    which, position = expand(low[rows], high[rows])
    inside = launched.ends_ns(position) <= finish[rows[which]]
    which, position = which[inside], position[inside]
    fresh = np.ones(len(which), dtype=np.bool_)
    fresh[1:] = (which[1:] != which[:-1]) | (position[1:] != position[:-1] + 1)
    begins = np.flatnonzero(fresh)
    lengths = np.diff(np.append(begins, len(which)))
    first = position[begins].astype(np.int64)
    return rows[which[begins]], first, first + lengths


def expand(low: Int64s, high: Int64s) -> tuple[Rows, Rows]:
    """Return every pair (stretch, position) with low <= position < high."""
    length = high - low
    which = np.repeat(np.arange(len(low), dtype=np.int32), length)
    position = np.repeat((low - (np.cumsum(length) - length)).astype(np.int32), length)
    position += np.arange(len(position), dtype=np.int32)
    return which, position


def merge(group: Ints, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the same positions as disjoint stretches (group, low, high): each counts once per group."""
    order = np.lexsort((low, group))
    owner, low, high = group[order].astype(np.int64), low[order], high[order]
    if len(low) == 0:
        return owner, low, high
    # The shift by group is larger than any position, so that the running maximum of one group never reaches the next.
    width = int(high.max()) + 1
    reached = np.maximum.accumulate(high + owner * width) - owner * width
    reached = np.concatenate((np.zeros(1, np.int64), reached[:-1]))
    reached[1:][owner[1:] != owner[:-1]] = 0
    low = np.maximum(low, reached)
    keep = low < high
    return owner[keep], low[keep], high[keep]


def covered(segments: Segments) -> Bools:
    """Return for each position of `segments.order` whether at least one range has it."""
    inside = np.empty(len(segments.order), dtype=np.bool_)
    bounds = (np.sort(segments.low), 1), (np.sort(segments.high), -1)
    has = 0
    for begin in range(0, len(inside), _BLOCK):
        end = min(begin + _BLOCK, len(inside))
        change = np.zeros(end - begin, dtype=np.int64)
        for edges, by in bounds:
            first, last = np.searchsorted(edges, [begin, end])
            change += by * np.bincount(edges[first:last] - begin, minlength=end - begin)
        np.cumsum(change, out=change)
        change += has
        np.greater(change, 0, out=inside[begin:end])
        has = int(change[-1])
    return inside


# 36 years. No recording lasts that long.
_FAR_NS = 2**60
_KEY = ["name", "style", "domain"]


@dataclass(frozen=True)
class Attributed:
    """Range instances, their names, and the work that they launched."""

    # The instances, with `group` and `global_pid`.
    ranges: pd.DataFrame
    # One row per group: name, style, domain.
    keys: pd.DataFrame
    # The work that each instance launched, by style of range.
    segments: dict[str, Segments]
    # All API calls; None where they were not recorded.
    calls: Calls | None = None
    # See find_structure.
    steady_from: tuple[SteadyFrom, ...] = ()

    @cached_property
    def structure(self) -> RangeStructure:
        """Return which ranges enclose which, which names form families, and when each family settles."""
        return find_structure(self.ranges, self.keys, self.calls, self.steady_from)

    def inside(self, rows: int) -> Bools:
        """Return for each row of work whether any range launched it.

        rows: the number of rows of work.
        """
        is_inside = np.zeros(rows, dtype=bool)
        for segments in self.segments.values():
            inside = covered(segments)
            for low in range(0, len(inside), _BLOCK):
                some = slice(low, low + _BLOCK)
                is_inside[segments.order[some][inside[some]]] = True
        return is_inside


def close_ranges(tables: Tables) -> tuple[pd.DataFrame, int, int]:
    """Return the range instances, how many had no end, and how many were impossible.

    Ranges without an end get the end of the trace; impossible ones are dropped. The numbers that torch's emit_nvtx
    appends to names become separate columns.
    """
    if tables.ranges is None:
        return pd.DataFrame(columns=["start_ns", "end_ns", "style", "global_tid", "name", "domain"]), 0, 0
    ranges = strip_ranges(tables.ranges)
    is_open = ranges["end_ns"] == NULL
    if is_open.any():
        last = [t.last_end_ns() for t in (tables.work, tables.calls) if t is not None and len(t)]
        known = ranges[["start_ns", "end_ns"]].to_numpy(dtype=np.int64)
        last += [known[(known < _FAR_NS) & (known > -_FAR_NS)].max(initial=-_FAR_NS)]
        ranges.loc[is_open, "end_ns"] = max(map(int, last))
    good = (ranges["end_ns"] >= ranges["start_ns"]) & ranges["start_ns"].between(-_FAR_NS, _FAR_NS)
    good &= ranges["end_ns"] < _FAR_NS
    return ranges[good].reset_index(drop=True), int(is_open.sum()), int((~good).sum())


def attribute_ranges(tables: Tables, ranges: pd.DataFrame, wanted: Callable[[str], bool] | None = None) -> Attributed:
    """Return each instance with its group, and with the work of the calls that it encloses.

    wanted: returns whether the work of ranges of a name is asked for; None for all. Others are said to have none.
    """
    ordered = ranges.sort_values("start_ns", kind="stable").reset_index(drop=True)
    codes = [pd.factorize(ordered[column])[0].astype(np.int64) for column in _KEY]
    widths = [int(code.max()) + 1 if len(code) else 1 for code in codes]
    group, first = pd.factorize((codes[0] * widths[1] + codes[1]) * widths[2] + codes[2])
    ordered["group"] = group.astype(np.int64)
    rows = np.full(len(first), len(group))
    np.minimum.at(rows, group, np.arange(len(group)))
    keys = ordered[_KEY].iloc[rows].reset_index(drop=True)
    ordered["global_pid"] = ordered["global_tid"].astype("int64") & PID_MASK if len(ordered) else 0
    if wanted is None:
        return Attributed(ordered, keys, attribute_launched(tables.launch, tables.calls, ordered), tables.calls)
    chosen = np.flatnonzero(keys["name"].map(wanted).to_numpy(dtype=bool)[group])
    segments_by_style = attribute_launched(tables.launch, tables.calls, ordered.iloc[chosen])
    segments = {
        style: replace(of_style, instance=chosen[of_style.instance]) for style, of_style in segments_by_style.items()
    }
    return Attributed(ordered, keys, segments, tables.calls)


def keep_ranges(attributed: Attributed, kept: Bools, names: Sequence[str]) -> Attributed:
    """Return some instances under other names, as attribute_ranges would; the same object where nothing changes.

    kept: which instances are kept.
    names: the new name of each group.
    """
    keys = attributed.keys
    if bool(kept.all()) and list(names) == keys["name"].tolist():
        return attributed
    renamed = keys.assign(name=pd.Series(names, dtype=object).to_numpy())
    code = pd.factorize(pd.MultiIndex.from_frame(renamed[_KEY]))[0].astype(np.int64)
    old = attributed.ranges["group"].to_numpy(dtype=np.int64)[kept]
    group, first = pd.factorize(code[old])
    _, first_of_code = np.unique(code, return_index=True)
    texts = pd.Series(names, dtype=None if len(names) else object).array
    ranges = attributed.ranges[kept].reset_index(drop=True).assign(name=texts.take(old), group=group.astype(np.int64))
    row = np.cumsum(kept) - 1
    segments = {}
    for style, of_style in attributed.segments.items():
        mine = kept[of_style.instance]
        segments[style] = Segments(
            of_style.order, row[of_style.instance[mine]], of_style.low[mine], of_style.high[mine]
        )
    return Attributed(
        ranges, renamed[_KEY].iloc[first_of_code[first]].reset_index(drop=True), segments, attributed.calls
    )


def instances_of_calls(tables: Tables, attributed: Attributed, calls: Int64s) -> Int64s:
    """Return the instances that enclose at least one of the calls."""
    if len(calls) == 0:
        return np.zeros(0, dtype=np.int64)
    segments_by_style = attribute_launched(calls.astype(np.int32), tables.calls, attributed.ranges)
    return np.unique(np.concatenate([of_style.instance for of_style in segments_by_style.values()]))
