"""Make the data of the interactive timeline of many traces: all ranks on one clock.

Each rank has two lanes: how much of each slice of time it computed, and NCCL's kernels. A collective has the same name
on every rank, so that the page can show which rank arrived first and which last.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysprof.arrays import Int64s
from nsysprof.report.figures.drawing_style import CATEGORY_COLORS
from nsysprof.report.figures.occupancy import resample_shares
from nsysprof.report.formats.escape import clean
from nsysprof.report.formats.timeline_lanes import pack_column
from nsysprof.results.rank_results import Lanes, RankCollectives, RanksAnalysis
from nsysprof.units import format_ns

ALT = (
    "Timeline of the ranks on one clock: for each rank when it computed and, below, NCCL's kernels. A collective has "
    "the same name on all ranks."
)
HINT = "A click on a collective lights it on all ranks, and says which came first and which last."
COLORS = {"computes": CATEGORY_COLORS["attention"], "NCCL": CATEGORY_COLORS["copy"]}
_COMPUTES, _NCCL = range(2)
_MOST_RANKS = 20
_MOST_PLACES = 30
_BINS = 2048
# The median difference between the ends of one collective on two ranks of one clock is no larger than this (ns).
_APART_NS = 1_000_000
# With more collectives than this on a rank, the page opens at a part of the timeline.
_OPEN_ALL, _OPEN_SOME = 60, 24
_OPERATION = re.compile(r"AllReduce|AllGather|ReduceScatter", re.IGNORECASE)
Key = tuple[str, int]


@dataclass(frozen=True)
class _RankLanes:
    """What is drawn for one rank, in ns since the first event of all ranks."""

    rank: int
    label: str
    lane: Lanes
    # The offset that turns a time of this rank's session into the common one.
    offset_ns: int
    # The keys of its collectives, and when they began and ended.
    keys: list[Key]
    start_ns: Int64s
    end_ns: Int64s


def ranks_timeline_data(job: RanksAnalysis) -> dict[str, Any] | None:
    """Return the timeline as JSON data, as timeline_data does; None without a rank on the common clock."""
    offsets = {fit.rank: fit.offset_ns for fit in job.clocks if fit.offset_ns is not None}
    known = [rank for rank in sorted(offsets) if rank in job.lanes]
    if not known:
        return None
    shown = _choose(known, job)
    origin = min(job.lanes[rank].start_ns + offsets[rank] for rank in shown)
    ranks = _match([_rank_lanes(job, rank, offsets[rank] - origin) for rank in shown])
    span = max(max(_end(lanes.lane) + lanes.offset_ns, int(lanes.end_ns.max(initial=0))) for lanes in ranks)
    names = {key: number for number, key in enumerate(dict.fromkeys(key for lanes in ranks for key in lanes.keys))}
    texts = [_text(*key) for key in names]
    return {
        "ofRanks": True,
        "originNs": 0,
        "spanNs": span,
        "whole": True,
        "rows": sum(len(lanes.keys) for lanes in ranks),
        "lanesLeftOut": 0,
        "detail": _detail(ranks, job, span),
        "words": "collectives",
        "colors": dict(COLORS),
        "bins": _BINS,
        "windows": [[0, span]],
        "lanes": [lane for lanes in ranks for lane in _lanes(lanes, span)],
        "columns": _columns(ranks, names),
        "opensAt": _opening(ranks, span),
        "names": ["computation", *(text for text, _ in texts)],
        "shortNames": ["computation", *(short for _, short in texts)],
        "nameCategories": ["computes", *["NCCL"] * len(texts)],
        "nameCounts": [0, *_counts(ranks, names)],
        "places": _places(ranks, names, texts),
        "memory": [],
        "memoryWord": "",
    }


def _choose(known: Sequence[int], job: RanksAnalysis) -> list[int]:
    """Return the ranks to draw: if there are too many, those that stand out and the first ones."""
    slow = {int(rank) for rank in job.stragglers["rank"].tolist()} if len(job.stragglers) else set()
    order = sorted(known, key=lambda rank: (rank not in slow, rank not in job.outliers, rank))
    return sorted(order[:_MOST_RANKS])


def _rank_lanes(job: RanksAnalysis, rank: int, offset_ns: int) -> _RankLanes:
    slow = set(job.stragglers["rank"].tolist()) if len(job.stragglers) else set()
    mark = " \N{BLACK UP-POINTING TRIANGLE} straggler" if rank in slow else " outlier" if rank in job.outliers else ""
    nothing = np.zeros(0, dtype=np.int64)
    mine = job.collectives.get(rank) or RankCollectives((), nothing, nothing, nothing, nothing)
    order = np.argsort(mine.start_ns, kind="stable")
    keys = [(mine.names[of], int(number)) for of, number in zip(mine.of[order], mine.ordinal[order], strict=True)]
    start, end = mine.start_ns[order] + offset_ns, mine.end_ns[order] + offset_ns
    return _RankLanes(rank, f"rank {rank}{mark}", job.lanes[rank], offset_ns, keys, start, end)


def _match(ranks: list[_RankLanes]) -> list[_RankLanes]:
    """Return the ranks with keys that identify each collective on all of them.

    Where ranks recorded different parts of a job, their numbers differ, and collectives with the same number end at
    different times. Such a rank's collectives get their own keys.
    """
    reference = max(ranks, key=lambda rank: len(rank.keys))
    ends = dict(zip(reference.keys, reference.end_ns.tolist(), strict=True))
    matched = []
    for rank in ranks:
        apart = [abs(end - ends[key]) for key, end in zip(rank.keys, rank.end_ns.tolist(), strict=True) if key in ends]
        is_same = not apart or float(np.median(apart)) <= _APART_NS
        keys = rank.keys if is_same else [(f"{name} of rank {rank.rank}", number) for name, number in rank.keys]
        matched.append(_RankLanes(rank.rank, rank.label, rank.lane, rank.offset_ns, keys, rank.start_ns, rank.end_ns))
    return matched


def _end(lane: Lanes) -> int:
    return int(lane.start_ns + lane.slice_ns * len(lane.compute))


def _text(sequence: str, number: int) -> tuple[str, str]:
    """Return the name of a collective, and a short one for its rectangle."""
    kernel, _, stream = sequence.partition("#")
    operation = _OPERATION.search(kernel)
    short = f"{operation[0] if operation else kernel} {number}"
    return clean(f"{short}: {kernel}, stream {stream} of NCCL", 200), clean(short, 60)


def _lanes(rank: _RankLanes, span: int) -> list[dict[str, Any]]:
    edges = np.linspace(0, span, _BINS + 1) - rank.offset_ns
    common = {"kind": "work", "owner": "0", "process": "0"}
    top = {**common, "label": rank.label, "level": 0, "rows": 0, **_slices(rank, edges, "compute", _COMPUTES)}
    below = {**common, "label": f"{rank.label}, NCCL", "level": 1, "rows": len(rank.keys)}
    if not _are_all(rank):
        below |= _slices(rank, edges, "comm", _NCCL)
    return [top, below]


def _are_all(rank: _RankLanes) -> bool:
    """Return whether the collectives of a rank are all that NCCL ran. Then slices would show nothing more."""
    whole = float(np.asarray(rank.lane.comm, dtype=float).sum()) * rank.lane.slice_ns
    return bool(len(rank.keys)) and float((rank.end_ns - rank.start_ns).sum()) >= 0.99 * whole


def _slices(rank: _RankLanes, edges: Any, name: str, leading: int) -> dict[str, str]:
    lane = rank.lane
    busy = resample_shares(getattr(lane, name), lane.start_ns, lane.slice_ns, edges)
    # A slice in which something happened is never shown as empty.
    level = np.where(busy > 0, np.maximum(1, np.round(busy * 255)), 0).astype(np.uint8)
    packed = {"busy": level, "leading": np.full(len(level), leading, dtype=np.uint8)}
    return {key: base64.b64encode(numbers.tobytes()).decode() for key, numbers in packed.items()}


def _columns(ranks: list[_RankLanes], names: Mapping[Key, int]) -> dict[str, str]:
    """Return the columns of all collectives, as timeline_data packs those of a trace."""
    nothing = np.zeros(sum(len(rank.keys) for rank in ranks), dtype=np.int64)
    starts = [np.diff(rank.start_ns, prepend=0) for rank in ranks]
    numbers = [np.array([1 + names[key] for key in rank.keys], dtype=np.int64) for rank in ranks]
    return {
        "start": pack_column(np.concatenate(starts), "<f8"),
        "length": pack_column(np.concatenate([rank.end_ns - rank.start_ns for rank in ranks]), "<f8"),
        "name": pack_column(np.concatenate(numbers), "<u4"),
        "call": pack_column(nothing, "<i4"),
        "cause": pack_column(nothing, "<i4"),
    }


def _counts(ranks: list[_RankLanes], names: Mapping[Key, int]) -> list[int]:
    counts = np.zeros(len(names), dtype=np.int64)
    for rank in ranks:
        np.add.at(counts, [names[key] for key in rank.keys], 1)
    return [int(count) for count in counts]


def _places(
    ranks: list[_RankLanes], names: Mapping[Key, int], texts: list[tuple[str, str]]
) -> list[tuple[str, list[int]]]:
    """Return the collectives at which one rank arrived much later than another, the longest wait first."""
    begins: dict[Key, list[tuple[int, int]]] = {}
    for rank in ranks:
        for key, start in zip(rank.keys, rank.start_ns.tolist(), strict=True):
            begins.setdefault(key, []).append((start, rank.rank))
    waits = [
        (max(starts)[0] - min(starts)[0], key, max(starts)[1]) for key, starts in begins.items() if len(starts) > 1
    ]
    longest = sorted(waits, key=lambda wait: (-wait[0], wait[1]))[:_MOST_PLACES]
    return [
        (f"{texts[names[key]][1]}: rank {last} comes last, {format_ns(wait)} after the first", [1 + names[key]])
        for wait, key, last in longest
        if wait > 0
    ]


def _opening(ranks: list[_RankLanes], span: int) -> list[int]:
    """Return which part is shown first: everything or, of many collectives, some from the middle of the job."""
    most = max(ranks, key=lambda rank: len(rank.keys))
    if len(most.keys) <= _OPEN_ALL:
        return [0, span]
    first = len(most.keys) // 2
    low, high = int(most.start_ns[first]), int(most.end_ns[first + _OPEN_SOME])
    margin = (high - low) // 20
    return [max(0, low - margin), min(span, high + margin)]


def _detail(ranks: list[_RankLanes], job: RanksAnalysis, span: int) -> str:
    rows = sum(len(rank.keys) for rank in ranks)
    text = f"{rows:,} collectives; computing is drawn in slices of {format_ns(max(span // _BINS, _slice(ranks)))}."
    without = len(job.read) - sum(fit.offset_ns is not None for fit in job.clocks)
    if without > 0:
        text += f" {without} rank{'s' * (without > 1)} without a common clock left out."
    hidden = len(job.read) - max(without, 0) - len(ranks)
    return text + (f" {hidden} more ranks left out; ranks.csv has all." if hidden > 0 else "")


def _slice(ranks: list[_RankLanes]) -> int:
    return max(int(rank.lane.slice_ns) for rank in ranks)
