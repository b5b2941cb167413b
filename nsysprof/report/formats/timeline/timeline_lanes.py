"""Lay out the lanes of the page's timeline: ranges, API calls, streams, each with its rows in order of start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.arrays import Int64s, rows_by_key
from nsysprof.report.formats.escape import clean
from nsysprof.results.analysis import Analysis

_ID_BITS = 0xFFFFFF
# The most lanes. With more, a page shows only stripes; the busiest lanes stay.
_MAX_LANES = 40
_MAX_LEVELS = 6
_MAX_LABEL = 60


@dataclass(frozen=True)
class Lane:
    """Rows that are drawn in one lane."""

    label: str
    # "range", "api" or "work".
    kind: str
    # How many lanes of the same label are above it.
    level: int
    # Since the session's start, in order of start.
    start_ns: Int64s
    end_ns: Int64s
    # The thread or process that the rows belong to; 0 for work.
    owner_id: int
    # The row of Timeline.nvtx, .api or .gpu for each of them.
    row: Int64s
    # The number of each row's text in `names`, and its short name and category.
    name: npt.NDArray[np.int32]
    names: list[str]
    short_names: list[str]
    categories: list[str]

    def __len__(self) -> int:
        return len(self.start_ns)


def list_lanes(analysis: Analysis) -> tuple[list[Lane], int]:
    """Return the lanes from top to bottom, and how many more there are."""
    lanes, left_out = [], 0
    for tables in (_ranges, _calls, _streams):
        owners = tables(analysis)
        kept = _busiest(owners)
        left_out += len(owners) - len(kept)
        lanes += [lane for owner in kept for lane in owner.lanes()]
    if len(lanes) <= _MAX_LANES:
        return lanes, left_out
    # The least busy lanes are left out, separately by kind, so that streams are not crowded out by threads that wait.
    busy = np.array([int((lane.end_ns - lane.start_ns).sum()) for lane in lanes], dtype=np.float64)
    kinds = np.array([lane.kind for lane in lanes])
    for kind in set(kinds):
        mine = kinds == kind
        busy[mine] = np.argsort(np.argsort(-busy[mine]))
    chosen = sorted(np.argsort(busy, kind="stable")[:_MAX_LANES].tolist())
    return [lanes[number] for number in chosen], left_out + len(lanes) - len(chosen)


@dataclass(frozen=True)
class _Owner:
    """The rows of a thread, process or stream before they are laid out."""

    table: pd.DataFrame
    rows: Int64s
    label: str
    kind: str
    # The same as in Lane.
    owner_id: int
    # A function that returns the Lane.level of each row.
    levels: Callable[[pd.DataFrame], Int64s]

    def busy_ns(self) -> int:
        """Return the sum of the rows' durations (ns)."""
        start, end = (self.table[column].to_numpy(dtype=np.int64)[self.rows] for column in ("start_ns", "end_ns"))
        return int((end - start).sum())

    def lanes(self) -> Iterator[Lane]:
        """Yield one lane for each level that is drawn."""
        mine = self.table.iloc[self.rows]
        levels = self.levels(mine)
        deepest = int(levels.max())
        for level in range(min(_MAX_LEVELS, deepest + 1)):
            yield _lane(mine[levels == level] if deepest else mine, self, level)


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
    return [
        *(
            _Owner(
                nvtx,
                rows,
                f"{_process(pid, several)}ranges",
                "range",
                int(str(pid)),
                lambda mine: stack_levels(*_times(mine)),
            )
            for pid, rows in rows_by_key(nvtx["global_pid"].iloc[shared], shared)
        ),
        *(
            _Owner(nvtx, rows, f"{_thread(tid, several)} ranges", "range", int(str(tid)), _level_of)
            for tid, rows in rows_by_key(nvtx["global_tid"].iloc[pushed], pushed)
        ),
    ]


def _level_of(ranges: pd.DataFrame) -> Int64s:
    return ranges["level"].to_numpy(dtype=np.int64)


def _depths_of(rows: pd.DataFrame) -> Int64s:
    return depths(*_times(rows))


def _calls(analysis: Analysis) -> list[_Owner]:
    api = analysis.timeline.api
    # In a trace of operators, the calls are the same as the operators.
    if analysis.trace.work_kind != "kernel":
        return []
    by_thread = rows_by_key(api["global_tid"])
    several = len({int(tid) & ~_ID_BITS for tid, _ in by_thread}) > 1
    return [
        _Owner(api, rows, f"{_thread(tid, several)} API", "api", int(str(tid)), _depths_of) for tid, rows in by_thread
    ]


def _streams(analysis: Analysis) -> list[_Owner]:
    gpu = analysis.timeline.gpu
    of_operators = analysis.trace.work_kind == "operator"
    return [
        _Owner(
            gpu,
            rows,
            f"thread {str(stream).rpartition(' ')[2]}" if of_operators else str(stream),
            "work",
            0,
            _depths_of,
        )
        for stream, rows in sorted(rows_by_key(gpu["stream"]), key=lambda each: int(each[1][0]))
    ]


def depths(start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """Return how many earlier intervals are open when each one starts, in order of start: their nesting depth."""
    if bool((start_ns[1:] >= end_ns[:-1]).all()):
        return np.zeros(len(start_ns), dtype=np.int64)
    ended = np.searchsorted(np.sort(end_ns), start_ns, "right")
    open_ones: Int64s = np.maximum(0, np.arange(len(start_ns)) - ended)
    return open_ones


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


def _lane(rows: pd.DataFrame, owner: _Owner, level: int) -> Lane:
    name, unique = pd.factorize(rows["name"])
    names = [str(text) for text in unique]
    short_names, categories = names, [owner.kind] * len(names)
    if owner.kind == "work":
        firsts = np.unique(name, return_index=True)[1]
        categories = [str(category) for category in rows["category"].iloc[firsts]]
        short_names = [str(text) for text in rows["short_name"].iloc[firsts]]
    start, end = _times(rows)
    label, row = clean(owner.label, _MAX_LABEL), rows.index.to_numpy(dtype=np.int64)
    return Lane(
        label, owner.kind, level, start, end, owner.owner_id, row, name.astype(np.int32), names, short_names, categories
    )


def _times(rows: pd.DataFrame) -> tuple[Int64s, Int64s]:
    return rows["start_ns"].to_numpy(dtype=np.int64), rows["end_ns"].to_numpy(dtype=np.int64)


def _process(global_pid: object, several: bool) -> str:
    return f"pid {(int(str(global_pid)) >> 24) & _ID_BITS} " if several else ""


def _thread(global_tid: object, several: bool) -> str:
    number = int(str(global_tid))
    return f"{_process(number, several)}thread {number & _ID_BITS}"
