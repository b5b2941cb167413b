"""The lanes of the page's timeline: ranges, API calls, streams, each with its rows in order of start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.analysis.results import Analysis
from nsysprof.report.escape import clean

Int64s = npt.NDArray[np.int64]
_ID_BITS = 0xFFFFFF
# Beyond these a page shows stripes and nobody scrolls that far: the busiest stay.
_MAX_LANES = 40
_MAX_LEVELS = 6
_MAX_LABEL = 60


@dataclass(frozen=True)
class Lane:
    """Rows that are drawn side by side.

    kind: "range", "api" or "work". level: how many lanes of the same label are above it. start_ns, end_ns: since the session's start,
    in order of start. name: number of each row's text in `names`; short_names, categories: of each of these.
    """

    label: str
    kind: str
    level: int
    start_ns: Int64s
    end_ns: Int64s
    name: npt.NDArray[np.int32]
    names: list[str]
    short_names: list[str]
    categories: list[str]

    def __len__(self) -> int:
        return len(self.start_ns)


def list_lanes(analysis: Analysis) -> tuple[list[Lane], int]:
    """The lanes from top to bottom, and how many more there are."""
    lanes = [lane for lane in (*_ranges(analysis), *_calls(analysis), *_streams(analysis)) if len(lane)]
    if len(lanes) <= _MAX_LANES:
        return lanes, 0
    # The least busy go, each kind by its own measure, so that streams are not crowded out by what waits for them.
    busy = np.array([int((lane.end_ns - lane.start_ns).sum()) for lane in lanes], dtype=np.float64)
    kinds = np.array([lane.kind for lane in lanes])
    for kind in set(kinds):
        mine = kinds == kind
        busy[mine] = np.argsort(np.argsort(-busy[mine]))
    kept = sorted(np.argsort(busy, kind="stable")[:_MAX_LANES].tolist())
    return [lanes[number] for number in kept], len(lanes) - len(kept)


def _ranges(analysis: Analysis) -> Iterator[Lane]:
    nvtx = analysis.timeline.nvtx
    if len(nvtx) == 0:
        return
    several = nvtx["global_pid"].nunique() > 1
    shared = nvtx[nvtx["style"] == "StartEnd"]
    for pid, rows in shared.groupby("global_pid", sort=True):
        levels = stack_levels(*_times(rows))
        yield from _by_level(rows, levels, f"{_process(pid, several)}ranges", "range")
    pushed = nvtx[nvtx["style"] == "PushPop"]
    for tid, rows in pushed.groupby("global_tid", sort=True):
        yield from _by_level(rows, rows["level"].to_numpy(dtype=np.int64), f"{_thread(tid, several)} ranges", "range")


def _by_level(rows: pd.DataFrame, levels: Int64s, label: str, kind: str) -> Iterator[Lane]:
    deepest = int(levels.max())
    for level in range(min(_MAX_LEVELS, deepest + 1)):
        yield _lane(rows[levels == level] if deepest else rows, label, kind, level)


def depths(start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """How many earlier intervals are open when each one starts: the depth of those that nest, in order of start."""
    if bool((start_ns[1:] >= end_ns[:-1]).all()):
        return np.zeros(len(start_ns), dtype=np.int64)
    ended = np.searchsorted(np.sort(end_ns), start_ns, "right")
    open_ones: Int64s = np.maximum(0, np.arange(len(start_ns)) - ended)
    return open_ones


def stack_levels(start_ns: Int64s, end_ns: Int64s) -> Int64s:
    """The lowest free level for each interval, in order of start; overlapping ones never share one.

    Where all levels that are drawn are taken, an interval gets the one after them.
    """
    free_at: list[int] = []
    levels = np.zeros(len(start_ns), dtype=np.int64)
    for row, (start, end) in enumerate(zip(start_ns.tolist(), end_ns.tolist(), strict=True)):
        level = next((number for number, free in enumerate(free_at) if free <= start), len(free_at))
        if level < _MAX_LEVELS:
            free_at[level : level + 1] = [end]
        levels[row] = level
    return levels


def _calls(analysis: Analysis) -> Iterator[Lane]:
    api = analysis.timeline.api
    # Of an operator trace the calls are the operators again.
    if len(api) == 0 or analysis.trace.work_kind != "kernel":
        return
    several = (api["global_tid"] & ~_ID_BITS).nunique() > 1
    for tid, rows in api.groupby("global_tid", sort=True):
        yield from _by_level(rows, depths(*_times(rows)), f"{_thread(tid, several)} API", "api")


def _streams(analysis: Analysis) -> Iterator[Lane]:
    gpu = analysis.timeline.gpu
    of_operators = analysis.trace.work_kind == "operator"
    for stream, rows in gpu.groupby("stream", sort=False, observed=True):
        label = f"thread {str(stream).rpartition(' ')[2]}" if of_operators else str(stream)
        yield from _by_level(rows, depths(*_times(rows)), label, "work")


def _lane(rows: pd.DataFrame, label: str, kind: str, level: int) -> Lane:
    name, unique = pd.factorize(rows["name"])
    names = [str(text) for text in unique]
    short_names, categories = names, [kind] * len(names)
    if kind == "work":
        firsts = np.unique(name, return_index=True)[1]
        categories = [str(category) for category in rows["category"].iloc[firsts]]
        short_names = [str(text) for text in rows["short_name"].iloc[firsts]]
    start, end = _times(rows)
    label = clean(label, _MAX_LABEL)
    return Lane(label, kind, level, start, end, name.astype(np.int32), names, short_names, categories)


def _times(rows: pd.DataFrame) -> tuple[Int64s, Int64s]:
    return rows["start_ns"].to_numpy(dtype=np.int64), rows["end_ns"].to_numpy(dtype=np.int64)


def _process(global_pid: object, several: bool) -> str:
    return f"pid {(int(str(global_pid)) >> 24) & _ID_BITS} " if several else ""


def _thread(global_tid: object, several: bool) -> str:
    number = int(str(global_tid))
    return f"{_process(number, several)}thread {number & _ID_BITS}"
