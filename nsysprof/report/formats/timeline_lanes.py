"""Lay out the lanes of the page's timeline: ranges, API calls, streams, each with its rows in order of start."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.arrays import Floats, Int64s, rows_by_key
from nsysprof.report.document import IDLE_WORDS, clean
from nsysprof.results.analysis import Analysis
from nsysprof.results.column_registry.analysis_columns import CAUSES
from nsysprof.results.event_rows import CallRows, WorkRows, pieces

_Rows = npt.NDArray[np.integer]
_ID_BITS = 0xFFFFFF
# The most lanes. With more, a page shows only stripes; the busiest lanes stay.
_MAX_LANES = 40
_MAX_LEVELS = 6
_MAX_LABEL = 60
# How many rows are handled at a time.
_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Lane:
    """Rows that are drawn in one lane."""

    label: str
    # "range", "api", "work" or "idle".
    kind: str
    # How many lanes of the same label are above it.
    level: int
    # Since the session's start, in order of start.
    start_ns: Int64s
    # As few bytes each as the trace's longest event needs.
    length_ns: _Rows
    # The thread or process that the rows belong to; 0 for work.
    owner_id: int
    # The row of Timeline.nvtx, .api or .gpu for each of them.
    row: npt.NDArray[np.integer]
    # The number of each row's text in `names`, and its short name and category.
    name: npt.NDArray[np.integer]
    names: list[str]
    short_names: list[str]
    categories: list[str]

    def __len__(self) -> int:
        return len(self.start_ns)

    def pieces(self) -> Iterator[tuple[slice, Int64s, Int64s]]:
        """Yield some rows at a time, with their starts and ends (ns)."""
        for low in range(0, len(self), _AT_ONCE):
            some = slice(low, low + _AT_ONCE)
            start = self.start_ns[some]
            yield some, start, start + self.length_ns[some]

    def last_ns(self) -> int:
        """Return when the last row ends."""
        return max(int(end.max()) for _, _, end in self.pieces())


def list_lanes(analysis: Analysis) -> tuple[list[Lane], int]:
    """Return the lanes from top to bottom, and how many more there are."""
    lanes, left_out = _chosen_lanes(analysis)
    return [*(_idle_lanes(analysis) if lanes else ()), *lanes], left_out


def _idle_lanes(analysis: Analysis) -> Iterator[Lane]:
    """Yield one lane for each device with the causes of its idle time."""
    pieces = () if analysis.idle is None else analysis.idle.pieces
    for device in pieces:
        if len(device.start_ns):
            owner = f"GPU {device.device_id}" if len(pieces) > 1 else "GPU"
            texts = [f"idle {IDLE_WORDS[cause]}" for cause in CAUSES]
            yield Lane(
                f"{owner} idle", "idle", 0, device.start_ns, device.duration_ns, 0, np.arange(len(device.start_ns)),
                device.cause, texts, list(CAUSES), list(CAUSES),
            )  # fmt: skip


def _chosen_lanes(analysis: Analysis) -> tuple[list[Lane], int]:
    lanes: list[Lane] = []
    left_out = 0
    for tables in (_ranges, _calls, _streams):
        owners = tables(analysis)
        kept = _busiest(owners)
        left_out += len(owners) - len(kept)
        lanes += [lane for owner in kept for lane in owner.lanes()]
    if len(lanes) <= _MAX_LANES:
        return lanes, left_out
    # The least busy lanes are left out, separately by kind, so that streams are not crowded out by threads that wait.
    busy = np.array([int(lane.length_ns.sum(dtype=np.int64)) for lane in lanes], dtype=np.float64)
    kinds = np.array([lane.kind for lane in lanes])
    for kind in set(kinds):
        mine = kinds == kind
        busy[mine] = np.argsort(np.argsort(-busy[mine]))
    chosen = sorted(np.argsort(busy, kind="stable")[:_MAX_LANES].tolist())
    return [lanes[number] for number in chosen], left_out + len(lanes) - len(chosen)


@dataclass(frozen=True)
class _Events:
    """The events of one kind in order of start, from which lanes are made without a table of all of them.

    times: starts and lengths (ns) of some events, given their rows.
    name: the row of `names` of each of some events, given their rows.
    names: name, and of work short_name and category.
    """

    times: Callable[[_Rows], tuple[Int64s, _Rows]]
    name: Callable[[_Rows], npt.NDArray[np.integer]]
    names: pd.DataFrame


@dataclass(frozen=True)
class _Owner:
    """The rows of a thread, process or stream before they are laid out."""

    events: _Events
    rows: _Rows
    label: str
    kind: str
    # The same as in Lane.
    owner_id: int
    # A function that returns the Lane.level of each row, given rows, starts and lengths.
    levels: Callable[[_Rows, Int64s, _Rows], _Rows]

    def busy_ns(self) -> int:
        """Return the sum of the rows' durations (ns)."""
        return int(self.events.times(self.rows)[1].sum(dtype=np.int64))

    def lanes(self) -> Iterator[Lane]:
        """Yield one lane for each level that is drawn."""
        start, length = self.events.times(self.rows)
        levels = self.levels(self.rows, start, length)
        deepest = int(levels.max())
        for level in range(min(_MAX_LEVELS, deepest + 1)):
            if not deepest:
                yield _lane(self, level, self.rows, start, length)
                continue
            mine = levels == level
            yield _lane(self, level, self.rows[mine], start[mine], length[mine])


def _busiest(owners: list[_Owner]) -> list[_Owner]:
    """Return the busiest owners, as many as can be drawn at all, in their order."""
    if len(owners) <= _MAX_LANES:
        return owners
    busy = [owner.busy_ns() for owner in owners]
    chosen = sorted(np.argsort(np.array(busy), kind="stable")[-_MAX_LANES:].tolist())
    return [owners[number] for number in chosen]


def _ranges(analysis: Analysis) -> list[_Owner]:
    nvtx = analysis.timeline.nvtx
    several = nvtx["global_pid"].nunique() > 1
    shared, pushed = (
        np.flatnonzero((nvtx["style"] == style).to_numpy(dtype=bool)) for style in ("StartEnd", "PushPop")
    )
    start, end, level = (nvtx[column].to_numpy(dtype=np.int64) for column in ("start_ns", "end_ns", "level"))
    name, names = pd.factorize(nvtx["name"])
    length = end - start
    events = _Events(lambda rows: (start[rows], length[rows]), lambda rows: name[rows], pd.DataFrame({"name": names}))
    return [
        *(
            _Owner(
                events,
                rows,
                f"{_process(pid, several)}ranges",
                "range",
                int(str(pid)),
                lambda _, start, length: stack_levels(start, start + length),
            )
            for pid, rows in rows_by_key(nvtx["global_pid"].iloc[shared], shared)
        ),
        *(
            _Owner(
                events,
                rows,
                f"{_thread(tid, several)} ranges",
                "range",
                int(str(tid)),
                lambda rows, *_: level[rows],
            )
            for tid, rows in rows_by_key(nvtx["global_tid"].iloc[pushed], pushed)
        ),
    ]


def _calls(analysis: Analysis) -> list[_Owner]:
    calls = analysis.timeline.calls
    # In a trace of operators, the calls are the same as the operators.
    if analysis.trace.work_kind != "kernel":
        return []
    by_thread = _rows_by(calls, "global_tid")
    several = len({int(tid) & ~_ID_BITS for tid, _ in by_thread}) > 1
    events = _events_of(calls)
    return [
        _Owner(events, rows, f"{_thread(tid, several)} API", "api", int(str(tid)), _depths_of)
        for tid, rows in by_thread
    ]


def _streams(analysis: Analysis) -> list[_Owner]:
    work = analysis.timeline.work
    of_operators = analysis.trace.work_kind == "operator"
    events = _events_of(work)
    return [
        _Owner(
            events,
            rows,
            f"thread {str(stream).rpartition(' ')[2]}" if of_operators else str(stream),
            "work",
            0,
            _depths_of,
        )
        for stream, rows in sorted(_rows_by(work, "stream"), key=lambda stream_and_rows: int(stream_and_rows[1][0]))
    ]


def _rows_by(events: CallRows | WorkRows, column: str) -> list[tuple[Any, _Rows]]:
    """Return pairs (key, its rows) in order of key; a column of `variants` has the keys."""
    codes, keys = pd.factorize(events.variants[column], sort=True)
    codes = codes.astype(np.int16 if len(keys) < 1 << 15 else np.int32)
    of_row = np.concatenate([codes[events.variants_at(*piece)] for piece in pieces(events)] or [codes[:0]])
    groups = ((key, np.flatnonzero(of_row == code).astype(np.int32)) for code, key in enumerate(keys))
    return [(key, rows) for key, rows in groups if len(rows)]


def _events_of(events: CallRows | WorkRows) -> _Events:
    def numbers(rows: _Rows) -> npt.NDArray[np.integer]:
        return rows if events.order is None else events.order[rows]

    def times(rows: _Rows) -> tuple[Int64s, _Rows]:
        of_rows = numbers(rows)
        return events.start_ns[of_rows], events.duration_ns[of_rows]

    def name(rows: _Rows) -> npt.NDArray[np.integer]:
        return events.variants_of(numbers(rows)) if isinstance(events, WorkRows) else events.variant[numbers(rows)]

    return _Events(times, name, events.variants)


def _depths_of(_: _Rows, start_ns: Int64s, length_ns: _Rows) -> _Rows:
    """Return how many earlier intervals are open when each one starts, in order of start: their nesting depth."""
    if all(_is_flat(start_ns, length_ns, low) for low in range(0, len(start_ns), _AT_ONCE)):
        return np.broadcast_to(np.int64(0), len(start_ns))
    ended = start_ns + length_ns
    ended.sort()
    open_ones = np.empty(len(start_ns), dtype=np.int32)
    for low in range(0, len(start_ns), _AT_ONCE):
        some = start_ns[low : low + _AT_ONCE]
        before = low + np.arange(len(some)) - np.searchsorted(ended, some, "right")
        open_ones[low : low + len(some)] = np.maximum(0, before)
    return open_ones


def _is_flat(start_ns: Int64s, length_ns: _Rows, low: int) -> bool:
    """Return whether each of some intervals from `low` on has ended when the next one starts."""
    following = start_ns[low + 1 : low + 1 + _AT_ONCE]
    some = slice(low, low + len(following))
    return bool((following >= start_ns[some] + length_ns[some]).all())


def stack_levels(start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """Return the lowest free level for each interval, in order of start. Overlapping intervals never share one.

    Where all levels that are drawn are occupied, an interval gets the next level.
    """
    free_at: list[int] = []
    levels = np.zeros(len(start_ns), dtype=np.int64)
    for row, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        level = next((number for number, free in enumerate(free_at) if free <= start), len(free_at))
        if level < _MAX_LEVELS:
            free_at[level : level + 1] = [end]
        levels[row] = level
    return levels


def _lane(owner: _Owner, level: int, rows: _Rows, start: Int64s, length: _Rows) -> Lane:
    events = owner.events
    # The rows of `names` that occur, then the names that occur, both in order of appearance.
    variants = [events.name(rows[low : low + _AT_ONCE]) for low in range(0, max(1, len(rows)), _AT_ONCE)]
    used = pd.unique(np.concatenate([pd.unique(some) for some in variants]))
    name_of_used, unique = pd.factorize(events.names["name"].iloc[used])
    number = np.zeros(len(events.names), dtype=np.int16 if len(unique) < 1 << 15 else np.int32)
    number[used] = name_of_used
    name = np.concatenate([number[some] for some in variants])
    names = [str(text) for text in unique]
    short_names, categories = names, [owner.kind] * len(names)
    if owner.kind == "work":
        firsts = events.names.iloc[used[np.unique(name_of_used, return_index=True)[1]]]
        categories, short_names = ([str(text) for text in firsts[column]] for column in ("category", "short_name"))
    label = clean(owner.label, _MAX_LABEL)
    return Lane(label, owner.kind, level, start, length, owner.owner_id, rows, name, names, short_names, categories)


def _process(global_pid: object, several: bool) -> str:
    return f"pid {(int(str(global_pid)) >> 24) & _ID_BITS} " if several else ""


def _thread(global_tid: object, several: bool) -> str:
    number = int(str(global_tid))
    return f"{_process(number, several)}thread {number & _ID_BITS}"


# How thoroughly columns are compressed: more takes thrice the time and saves a hundredth.
_EFFORT = 4


def pack_column(column: Int64s, dtype: str) -> str:
    """Return a column as text that the page's script unpacks: first the lowest byte of each value, then the next ones.

    dtype: the numpy type, such as "<u8".
    """
    values = np.ascontiguousarray(column.astype(dtype))
    planes = values.view(np.uint8).reshape(len(values), values.itemsize).T
    return base64.b64encode(gzip.compress(planes.tobytes(), _EFFORT, mtime=0)).decode()


class BusyShares:
    """Adds up how busy each of `bins` slices of [0, span] is, some intervals at a time."""

    def __init__(self, span: float, bins: int) -> None:
        self._edges, self._bins = np.linspace(0, span, bins + 1), bins
        # What intervals inside one slice take, and the first and last slices of longer ones.
        self._inside, self._begins, self._ends = np.zeros(bins), np.zeros(bins), np.zeros(bins)
        # What longer intervals add from a slice on, and how many have their last slice there.
        self._change, self._last = np.zeros(bins + 1), np.zeros(bins, dtype=np.int64)

    def add(self, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64]) -> None:
        """Add intervals. The sums do not depend on how many are added at a time."""
        edges, bins = self._edges, self._bins
        width = edges[1] - edges[0]
        first = np.clip((start / width).astype(np.int64), 0, bins - 1)
        last = np.clip((end / width).astype(np.int64), 0, bins - 1)
        inside = first == last
        np.add.at(self._inside, first[inside], (end - start)[inside].astype(np.float64))
        long_start, long_end, a, b = start[~inside], end[~inside], first[~inside], last[~inside]
        np.add.at(self._begins, a, edges[a + 1] - long_start)
        np.add.at(self._ends, b, long_end - edges[b])
        np.add.at(self._change, a + 1, width)
        self._last += np.bincount(b, minlength=bins)

    def shares(self) -> Floats:
        """Return the share (0 to 1) of each slice that the intervals cover: their sum, at most 1."""
        width = self._edges[1] - self._edges[0]
        change = self._change.copy()
        np.add.at(change, np.repeat(np.arange(self._bins), self._last), -width)
        busy = self._inside + self._begins
        busy += self._ends
        shares: Floats = np.clip((busy + np.cumsum(change)[:-1]) / width, 0, 1)
        return shares


def busy_shares(start: npt.NDArray[np.int64], end: npt.NDArray[np.int64], span: float, bins: int) -> Floats:
    """Return the share (0 to 1) of each of `bins` slices of [0, span] that intervals cover: their sum, at most 1."""
    occupancy = BusyShares(span, bins)
    occupancy.add(start, end)
    return occupancy.shares()


def resample_shares(share: npt.NDArray[np.float32], start_ns: int, slice_ns: int, edges: Floats) -> Floats:
    """Return the mean share (0 to 1) between each two neighbouring edges (ns).

    share: the shares of equal slices that begin at start_ns.
    """
    whole = np.concatenate(([0.0], np.cumsum(np.asarray(share, dtype=float)))) * slice_ns
    at = np.interp(edges, start_ns + slice_ns * np.arange(len(share) + 1.0), whole)
    shares: Floats = np.clip(np.diff(at) / np.diff(edges), 0, 1)
    return shares


def category_shares(busy: Mapping[str, BusyShares]) -> dict[str, Floats]:
    """Return the shares (0 to 1) of each slice by category. Where work overlaps they are reduced to a sum of 1."""
    shares = {category: busy_in_category.shares() for category, busy_in_category in busy.items()}
    total = np.maximum(1.0, np.sum(list(shares.values()), axis=0)) if shares else 1.0
    return {category: share / total for category, share in shares.items()}
