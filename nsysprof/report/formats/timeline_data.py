"""Make the data of the interactive timeline of a trace, small enough for a page.

A trace of up to a million rows is included completely. For a larger one, the page has how busy each of a few thousand
slices of time was, lane by lane, and all rows of the parts that a reader looks at first.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.arrays import Int64s, merge_spans
from nsysprof.attention.range_name import parse_range
from nsysprof.report.document import clean, words_for
from nsysprof.report.figures.drawing import CATEGORY_COLORS, IDLE_COLORS
from nsysprof.report.formats.timeline_lanes import BusyShares, Lane, list_lanes, pack_column
from nsysprof.results.analysis import Analysis
from nsysprof.results.event_rows import KernelGrids, WorkRows

# The most rows: for a whole trace (some ten megabytes of text), and for parts of a larger one (half a megabyte).
MOST_ROWS = 1_000_000
MOST_CHOSEN_ROWS = 30_000
# The number of slices of all lanes together, and the least and the most for one lane.
_MOST_SLICES, _FEWEST_BINS, _MOST_BINS = 1 << 18, 1 << 12, 1 << 16
_MAX_PLACES = 60
COLORS = {**CATEGORY_COLORS, **IDLE_COLORS}
_PID_OF_TID = ~0xFFFFFF
_MAX_NAME = 400
_MEMORY_POINTS = 3000
# How many rows of a lane are added up at a time.
_AT_ONCE = 1 << 18


def timeline_data(analysis: Analysis) -> dict[str, Any] | None:
    """Return the timeline as JSON data, in ns since its `origin_ns`; None when there is nothing to draw."""
    lanes, left_out = list_lanes(analysis)
    if not lanes:
        return None
    origin = min(int(lane.start_ns[0]) for lane in lanes)
    span = max(1, max(lane.last_ns() for lane in lanes) - origin)
    places = _places(analysis, origin)
    whole = sum(map(len, lanes)) <= MOST_ROWS
    windows = [(0, span)] if whole else _windows(lanes, [(start, end) for _, _, start, end in places], origin, span)
    bins = min(_MOST_BINS, max(_FEWEST_BINS, 1 << ((_MOST_SLICES // len(lanes)).bit_length() - 1)))
    names = _Names(analysis)
    chosen = [_chosen(lane, origin, windows, whole=whole) for lane in lanes]
    lane_data = [
        _lane_json(lane, rows, origin, span, bins=0 if whole else bins)
        for lane, rows in zip(lanes, chosen, strict=True)
    ]
    return {
        "originNs": origin,
        "spanNs": span,
        "whole": whole,
        "rows": sum(len(lane) for lane in lanes if lane.kind != "idle"),
        "lanesLeftOut": left_out,
        "words": words_for(analysis.trace).works,
        "colors": COLORS,
        "bins": bins,
        "windows": [list(window) for window in windows],
        "lanes": lane_data,
        "columns": _pack(analysis, lanes, chosen, origin, names),
        "grids": [] if analysis.grids is None else list(analysis.grids.texts),
        "opensAt": _opening(analysis, origin, span),
        "names": names.texts,
        "shortNames": names.short,
        "nameCategories": names.categories,
        "nameCounts": names.counts,
        "places": [[clean(text, 90), names.of_places(members)] for text, members, _, _ in places[:_MAX_PLACES]],
        "memory": _memory(analysis, origin, span),
        "memoryWord": words_for(analysis.trace).memory,
    }


class _Names:
    """The texts that lanes share, each once, with how often it occurs in the trace."""

    def __init__(self, analysis: Analysis) -> None:
        self.texts: list[str] = []
        self.short: list[str] = []
        self.categories: list[str] = []
        self.counts: list[int] = []
        kernels = analysis.kernels
        self._label = dict(zip(kernels["name"].astype(str), kernels["label"].astype(str), strict=True))
        self._number: dict[tuple[str, str], int] = {}

    def numbers(self, lane: Lane) -> Int64s:
        """Return the number of each name of a lane, and count its rows."""
        number_of_variant = np.array(
            [
                self._number_of(*names_of_variant)
                for names_of_variant in zip(lane.names, lane.short_names, lane.categories, strict=True)
            ],
            dtype=np.int64,
        )  # fmt: skip
        counts = np.zeros(len(number_of_variant), dtype=np.int64)
        for low in range(0, len(lane), _AT_ONCE):
            counts += np.bincount(lane.name[low : low + _AT_ONCE], minlength=len(number_of_variant))
        for number, count in zip(number_of_variant.tolist(), counts.tolist(), strict=True):
            self.counts[number] += count
        return number_of_variant

    def of_places(self, members: list[str]) -> list[int]:
        """Return the numbers of the names of ranges."""
        keys = [(clean(name, _MAX_NAME), "range") for name in members]
        return sorted({self._number[key] for key in keys if key in self._number})

    def _number_of(self, text: str, short: str, category: str) -> int:
        key = (clean(text, _MAX_NAME), category)
        if key not in self._number:
            self._number[key] = len(self.texts)
            self.texts.append(key[0])
            self.short.append(clean(self._label.get(text, short) or text, 60))
            self.categories.append(category)
            self.counts.append(0)
        return self._number[key]


def _places(analysis: Analysis, origin: int) -> list[tuple[str, list[str], int, int]]:
    """Return ranges to jump to, with counters folded, our own first.

    Each has family, names, start and end of its first instance.
    """
    nvtx = analysis.timeline.nvtx
    if len(nvtx) == 0:
        return []
    families = dict(zip(analysis.ranges["range"].astype(str), analysis.ranges["family"].astype(str), strict=True))
    first = nvtx.sort_values(["style", "start_ns"], ascending=[False, True], kind="stable").drop_duplicates("name")
    ours = first["name"].map(lambda name: parse_range(str(name)) is not None).to_numpy(dtype=bool)
    first = pd.concat([first[ours].sort_values("start_ns"), first[~ours].sort_values("start_ns")])
    places: dict[str, tuple[str, list[str], int, int]] = {}
    for name, start, end in zip(first["name"].astype(str), first["start_ns"], first["end_ns"], strict=True):
        family = families.get(name, name)
        place = places.setdefault(family, (family, [], int(start) - origin, int(end) - origin))
        place[1].append(name)
    return list(places.values())


def _opening(analysis: Analysis, origin: int, span: int) -> list[int]:
    """Return which part is shown first: a typical step with some of its neighbours or, without steps, all work."""
    times, work = analysis.step_times, analysis.timeline.work
    if times is not None and times.are_steps and analysis.part is None:
        start, end = times.usual_window_ns()
    elif len(work):
        starts, ends = work.times()
        start, end = int(starts.min()), int(ends.max())
    else:
        return [0, span]
    margin = (end - start) // 20
    return [max(0, start - origin - margin), min(span, end - origin + margin)]


def _windows(lanes: list[Lane], places: list[tuple[int, int]], origin: int, span: int) -> list[tuple[int, int]]:
    """Return the parts whose rows the page contains completely: as many places as fit, cut if one is too large."""
    most = MOST_CHOSEN_ROWS // max(1, min(len(places), 12))
    windows: list[tuple[int, int]] = []
    rows = 0
    for start, finish in places or [(0, span)]:
        end = finish
        while (count := _rows_in(lanes, start + origin, end + origin)) > most and end - start > 1:
            end = start + max(1, min((end - start) // 2, int((end - start) * most / count)))
        if rows + count > MOST_CHOSEN_ROWS:
            break
        windows.append((start, end))
        rows += count
    return merge_spans(windows)


def _rows_in(lanes: list[Lane], start_ns: int, end_ns: int) -> int:
    """Return how many rows begin in the window. The few that began before do not matter for a budget."""
    return sum(int(np.diff(np.searchsorted(lane.start_ns, (start_ns, end_ns)))[0]) for lane in lanes)


def _chosen(lane: Lane, origin: int, windows: list[tuple[int, int]], *, whole: bool) -> Int64s:
    """Return the rows of a lane that the page contains."""
    chosen = np.full(len(lane), whole)
    for some, start_ns, end_ns in [] if whole else lane.pieces():
        for begin, end in windows:
            # The rows are in order of start.
            last = int(np.searchsorted(start_ns, end + origin))
            chosen[some][:last] |= end_ns[:last] > begin + origin
    return np.flatnonzero(chosen)


def _lane_json(lane: Lane, rows: Int64s, origin: int, span: int, *, bins: int) -> dict[str, Any]:
    """Return the description of a lane; its rows are in the packed columns.

    bins: into how many slices to divide the time, to add how busy each slice was; 0 adds none.
    """
    data: dict[str, Any] = {
        "label": lane.label,
        "kind": lane.kind,
        "level": lane.level,
        "rows": len(rows),
        # These are texts, because the numbers are too large for a script to represent exactly.
        "owner": str(lane.owner_id),
        "process": str(lane.owner_id & _PID_OF_TID),
    }
    if bins:
        data.update(_slices(lane, origin, span, bins))
    return data


def _pack(analysis: Analysis, lanes: list[Lane], chosen: list[Int64s], origin: int, names: _Names) -> dict[str, str]:
    """Return the columns of all lanes, one lane after another, as packed arrays.

    start: in ns since the origin, each as the difference from the one before in its lane.
    length: in ns (uint64, as start).
    name: the number of its name (uint32).
    bytes, memory: of copies and fills, the size (uint64), and of copies, the memory on the host's side: 1 pageable, 2
        pinned (uint8); 0 for neither.
    grid: of kernels, the place of its grid in `grids` (uint16); 0 where it is unknown.
    call, cause: for work, the position of the call that launched it, and of the innermost range that adopted or
        captured it, plus 1; 0 for none. Each is the difference from the one before (int32).
    """
    starts, lengths, numbers = [], [], []
    timeline = analysis.timeline
    place = {"api": _row_numbers(len(timeline.calls)), "range": _row_numbers(len(timeline.nvtx))}
    first = 0
    sizes, hosts = [], []
    for lane, rows in zip(lanes, chosen, strict=True):
        size, host = _transfers(timeline.work, lane, rows)
        sizes.append(size)
        hosts.append(host)
        starts.append(np.diff(lane.start_ns[rows] - origin, prepend=0))
        lengths.append(lane.length_ns[rows])
        numbers.append(names.numbers(lane)[lane.name[rows]] if len(lane) else rows)
        if lane.kind in place:
            place[lane.kind][lane.row[rows]] = first + 1 + np.arange(len(rows))
        first += len(rows)
    columns = {"start": np.concatenate(starts), "length": np.concatenate(lengths)}
    packed = {name: pack_column(column, "<u8") for name, column in columns.items()}
    packed["name"] = pack_column(np.concatenate(numbers), "<u4")
    packed["bytes"] = pack_column(np.concatenate(sizes), "<u8")
    packed["memory"] = pack_column(np.concatenate(hosts), "<u1")
    if analysis.grids is not None:
        packed["grid"] = pack_column(_grids(timeline.work, lanes, chosen, analysis.grids), "<u2")
    for name, kind in (("call", "api"), ("cause", "range")):
        linked = [
            place[kind][_links(timeline.work, name, lane.row[rows])] if lane.kind == "work" else np.zeros(len(rows))
            for lane, rows in zip(lanes, chosen, strict=True)
        ]
        packed[name] = pack_column(np.diff(np.concatenate(linked), prepend=0), "<i4")
    return packed


def _transfers(work: WorkRows, lane: Lane, rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return the sizes of some rows of a lane, and the memory on the host's side, as _pack explains them."""
    if lane.kind != "work":
        return np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    numbers = work.numbers()[lane.row[rows]]
    return work.bytes_of(numbers), 1 + work.host_of(numbers).astype(np.int64)


def _grids(work: WorkRows, lanes: list[Lane], chosen: list[Int64s], grids: KernelGrids) -> Int64s:
    """Return the places of the grids of all rows in their list; 0 for none."""
    places = [np.zeros(len(rows), dtype=np.int64) for rows in chosen]
    for lane, rows, place in zip(lanes, chosen, places, strict=True):
        if lane.kind == "work":
            numbers = work.numbers()[lane.row[rows]]
            kernels = np.flatnonzero(numbers < work.kernels)
            start = work.start_ns[numbers[kernels]]
            place[kernels] = grids.places(start, start + work.duration_ns[numbers[kernels]])
    return np.concatenate(places)


def _row_numbers(rows: int) -> npt.NDArray[np.int32]:
    """Return an array with a number for each row. The last entry, which -1 refers to, stays 0 for "none"."""
    return np.zeros(rows + 1, dtype=np.int32)


def _links(work: WorkRows, name: str, rows: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
    """Return the rows of Timeline.api that launched some work, or of Timeline.nvtx that caused it; -1 for none."""
    numbers = work.numbers()[rows]
    if name == "call":
        return work.calls.places(work.call[numbers])
    return np.full(len(rows), -1) if work.caused_by is None else work.caused_by[numbers]


def _slices(lane: Lane, origin: int, span: int, bins: int) -> dict[str, str]:
    """Return how busy each slice of the whole was (0 to 255) and its main category: one byte each, in base64."""
    of_name = np.array([list(COLORS).index(c) if c in COLORS else 0 for c in lane.categories])
    present = np.unique(of_name)
    occupancy = [BusyShares(span, bins) for _ in present]
    for some, start_ns, end_ns in lane.pieces():
        start, end, category = start_ns - origin, end_ns - origin, of_name[lane.name[some]]
        for code, busy_of in zip(present, occupancy, strict=True):
            mine = category == code
            busy_of.add(start[mine], end[mine])
    shares = np.array([busy_of.shares() for busy_of in occupancy])
    busy = np.clip(shares.sum(axis=0), 0, 1)
    # Something that happened is never nothing.
    level = np.where(busy > 0, np.maximum(1, np.round(busy * 255)), 0).astype(np.uint8)
    leading = present[shares.argmax(axis=0)].astype(np.uint8)
    return {"busy": base64.b64encode(level.tobytes()).decode(), "leading": base64.b64encode(leading.tobytes()).decode()}


def _memory(analysis: Analysis, origin: int, span: int) -> list[dict[str, Any]]:
    """Return bytes over time by device. Of many points, each slice keeps its highest and lowest, so that peaks stay."""
    series = []
    for device, events in analysis.timeline.memory.groupby("device_id", sort=True):
        time: Int64s = np.clip(events["time_ns"].to_numpy(dtype=np.int64) - origin, 0, span)
        used: Int64s = events["used_bytes"].to_numpy(dtype=np.int64)
        if len(time) > _MEMORY_POINTS:
            kept = _extremes(time, used, span)
            time, used = time[kept], used[kept]
        series.append({"device": str(device), "time": time.tolist(), "bytes": used.tolist()})
    return series


def _extremes(time: Int64s, used: Int64s, span: int) -> Int64s:
    """Return the rows with the first, lowest, highest and last value of each slice of time."""
    cell = (time / (span + 1) * (_MEMORY_POINTS // 4)).astype(np.int64)
    order = np.lexsort((used, cell))
    edges = np.flatnonzero(np.diff(cell, prepend=-1, append=cell[-1] + 1))
    lowest, highest = order[edges[:-1]], order[edges[1:] - 1]
    kept: Int64s = np.unique(np.concatenate((lowest, highest, edges[:-1], edges[1:] - 1)))
    return kept
