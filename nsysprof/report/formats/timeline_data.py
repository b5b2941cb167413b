"""Make the data of the page's timeline, in a size that a page can hold.

A small trace is there with every row. A large trace is there as how busy each of a few thousand slices of time was,
lane by lane, and as all rows of the stretches that a reader looks at first: one instance of each range.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nsysprof.attention.range_name import parse_range
from nsysprof.report.figures.occupancy import busy_shares
from nsysprof.report.figures.palette import CATEGORY_COLORS
from nsysprof.report.formats.escape import clean
from nsysprof.report.formats.timeline_lanes import Int64s, Lane, list_lanes
from nsysprof.report.sections.vocabulary import words_for
from nsysprof.results.analysis import Analysis

# Half a megabyte of text at most for the rows, and as much for the slices.
MOST_ROWS = 30_000
# Slices of all lanes together, and how many a lane has at the least and at the most.
_MOST_SLICES, _FEWEST_BINS, _MOST_BINS = 1 << 18, 1 << 12, 1 << 16
_MAX_PLACES = 60
_MAX_NAME = 400
_MEMORY_POINTS = 3000


def timeline_data(analysis: Analysis) -> dict[str, Any] | None:
    """Return the timeline as JSON data, in ns since its `origin_ns`; None when there is nothing to draw."""
    lanes, left_out = list_lanes(analysis)
    if not lanes:
        return None
    origin = min(int(lane.start_ns[0]) for lane in lanes)
    span = max(1, max(int(lane.end_ns.max()) for lane in lanes) - origin)
    places = _places(analysis, origin)
    whole = sum(map(len, lanes)) <= MOST_ROWS
    windows = [(0, span)] if whole else _windows(lanes, places, origin)
    bins = min(_MOST_BINS, max(_FEWEST_BINS, 1 << ((_MOST_SLICES // len(lanes)).bit_length() - 1)))
    names = _Names()
    return {
        "originNs": origin,
        "spanNs": span,
        "whole": whole,
        "rows": sum(map(len, lanes)),
        "lanesLeftOut": left_out,
        "words": words_for(analysis.trace).works,
        "colors": {**CATEGORY_COLORS},
        "bins": bins,
        "windows": [list(window) for window in windows],
        "lanes": [_lane_json(lane, origin, span, windows, names, bins=0 if whole else bins) for lane in lanes],
        "names": names.texts,
        "shortNames": names.short,
        "nameCategories": names.categories,
        "places": [[clean(text, 90), start, end] for text, start, end in places[:_MAX_PLACES]],
        "memory": _memory(analysis, origin, span),
        "memoryWord": words_for(analysis.trace).memory,
    }


class _Names:
    """The texts that lanes share, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.short: list[str] = []
        self.categories: list[str] = []
        self._number: dict[tuple[str, str], int] = {}

    def number(self, text: str, short: str, category: str) -> int:
        key = (clean(text, _MAX_NAME), category)
        if key not in self._number:
            self._number[key] = len(self.texts)
            self.texts.append(key[0])
            self.short.append(clean(short or text, 60))
            self.categories.append(category)
        return self._number[key]


def _places(analysis: Analysis, origin: int) -> list[tuple[str, int, int]]:
    """Name, start and end of the first instance of each range, ours first: where a reader wants to jump to."""
    nvtx = analysis.timeline.nvtx
    if len(nvtx) == 0:
        return []
    first = nvtx.sort_values(["style", "start_ns"], ascending=[False, True], kind="stable").drop_duplicates("name")
    ours = first["name"].map(lambda name: parse_range(str(name)) is not None).to_numpy(dtype=bool)
    first = pd.concat([first[ours].sort_values("start_ns"), first[~ours].sort_values("start_ns")])
    return [
        (str(name), int(start) - origin, int(end) - origin)
        for name, start, end in zip(first["name"], first["start_ns"], first["end_ns"], strict=True)
    ]


def _windows(lanes: list[Lane], places: list[tuple[str, int, int]], origin: int) -> list[tuple[int, int]]:
    """Return stretches of time whose rows the page holds completely: as many places as fit, cut if one is too large."""
    most = MOST_ROWS // max(1, min(len(places), 12))
    windows: list[tuple[int, int]] = []
    rows = 0
    span = max(int(lane.end_ns.max()) for lane in lanes) - origin
    for _, start, finish in places or [("", 0, span)]:
        end = finish
        while (count := _rows_in(lanes, start + origin, end + origin)) > most and end - start > 1:
            end = start + max(1, min((end - start) // 2, int((end - start) * most / count)))
        if rows + count > MOST_ROWS:
            break
        windows.append((start, end))
        rows += count
    return _merged(windows)


def _rows_in(lanes: list[Lane], start_ns: int, end_ns: int) -> int:
    """Return how many rows begin in the window. The few that began before do not matter for a budget."""
    return sum(int(np.diff(np.searchsorted(lane.start_ns, (start_ns, end_ns)))[0]) for lane in lanes)


def _inside(lane: Lane, start_ns: int, end_ns: int) -> npt.NDArray[np.bool_]:
    inside: npt.NDArray[np.bool_] = (lane.start_ns < end_ns) & (lane.end_ns > start_ns)
    return inside


def _merged(windows: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _lane_json(
    lane: Lane, origin: int, span: int, windows: list[tuple[int, int]], names: _Names, *, bins: int
) -> dict[str, Any]:
    """Return a lane with the rows of the windows; without bins with all rows, with bins also how busy they were."""
    chosen = np.ones(len(lane), dtype=bool)
    if bins:
        chosen[:] = False
        for begin, end in windows:
            chosen |= _inside(lane, begin + origin, end + origin)
    rows = np.flatnonzero(chosen)
    start = lane.start_ns[rows] - origin
    keys = np.unique(lane.name[rows]).tolist()
    numbers = {key: names.number(lane.names[key], lane.short_names[key], lane.categories[key]) for key in keys}
    data: dict[str, Any] = {
        "label": lane.label,
        "kind": lane.kind,
        "level": lane.level,
        "start": np.diff(start, prepend=0).tolist(),  # each since the one before: shorter to write
        "length": (lane.end_ns[rows] - lane.start_ns[rows]).tolist(),
        "name": [numbers[key] for key in lane.name[rows].tolist()],
    }
    if bins:
        data.update(_slices(lane, origin, span, bins))
    return data


def _slices(lane: Lane, origin: int, span: int, bins: int) -> dict[str, str]:
    """Return how busy each slice of the whole was (0 to 255) and its main category; one byte each, in base64."""
    start, end = lane.start_ns - origin, lane.end_ns - origin
    of_name = np.array([list(CATEGORY_COLORS).index(c) if c in CATEGORY_COLORS else 0 for c in lane.categories])
    category = of_name[lane.name]
    present = np.unique(category)
    shares = np.array([busy_shares(start[category == c], end[category == c], span, bins) for c in present])
    busy = np.clip(shares.sum(axis=0), 0, 1)
    # Something that happened is never nothing.
    level = np.where(busy > 0, np.maximum(1, np.round(busy * 255)), 0).astype(np.uint8)
    leading = present[shares.argmax(axis=0)].astype(np.uint8)
    return {"busy": base64.b64encode(level.tobytes()).decode(), "leading": base64.b64encode(leading.tobytes()).decode()}


def _memory(analysis: Analysis, origin: int, span: int) -> list[dict[str, Any]]:
    """Return bytes over time by device. Of many points, each slice keeps the highest and lowest, so peaks stay."""
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
