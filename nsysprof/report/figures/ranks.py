"""Draw all ranks of a job: step.png and heatmap.png, and the data of the page's interactive timeline.

Each rank has two lanes: how much of each slice of time it computed, and NCCL's kernels. A collective has the same name
on every rank, so that the page can show which rank arrived first and which last.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nsysprof.arrays import Int64s
from nsysprof.report.document import clean, escape_mathtext, sentence_of
from nsysprof.report.figures import mpl
from nsysprof.report.figures.drawing import CATEGORY_COLORS, INK, NS_PER_S, RANGE, label_seconds, new_figure
from nsysprof.report.formats.timeline_lanes import pack_column, resample_shares
from nsysprof.results.rank_results import Lanes, RankCollectives, RanksAnalysis, StepLane, StepPicture
from nsysprof.units import format_ns

_MOST_RANGES = 24
_MOST_LABELS = 48
_SPAN_PCT = 30.0
# A range with less time than this share of the largest is too short for anybody to wait for it.
_LEAST_SHARE = 0.002
# At most so many ranks are drawn in the picture of one step. A line of it has room for so many letters.
_MOST_LANES, _LETTERS, _LEAST_LETTERS = 16, 110, 8
_LATE, _HATCH = "#B30000", "////"
_IDLE, _COMPUTE, _COMM = "#eef1f5", CATEGORY_COLORS["attention"], CATEGORY_COLORS["copy"]


def draw_step(job: RanksAnalysis) -> mpl.Figure | None:
    """Draw one step of the ranks: the host's ranges, computation, and communication with waiting hatched.

    Return None where no step of several ranks is known.
    """
    picture = job.picture
    if picture is None:
        return None
    slow = set(job.stragglers["rank"].tolist())
    lanes = _choose_lanes(picture.lanes, {picture.late, *slow})
    # Whoever is late in one step need not hold up the job.
    color = _LATE if picture.late in slow else INK
    figure = new_figure(1.7 + min(9.0, 0.75 * len(lanes)))
    axes = figure.subplots()
    for row, lane in enumerate(lanes):
        _draw_lane(axes, row, lane, picture.wall_ns)
        if lane.rank == picture.late:
            axes.axhspan(row - 0.47, row + 0.46, facecolor="none", edgecolor=color, linewidth=1.4)
    axes.set_xlim(0, picture.wall_ns / NS_PER_S)
    axes.set_ylim(len(lanes) - 0.5, -0.5)
    label_seconds(axes.xaxis)
    axes.set_yticks(range(len(lanes)), [f"rank {lane.rank}" for lane in lanes], fontsize=9)
    for label, lane in zip(axes.get_yticklabels(), lanes, strict=True):
        if lane.rank == picture.late:
            label.set(color=color, fontweight="bold")
    axes.tick_params(axis="y", length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(f"time in one step of {format_ns(picture.wall_ns)}, on one clock", fontsize=9)
    handles = [mpl.Patch(color=RANGE, label="range"), mpl.Patch(color=_COMPUTE, label="computes"),
               mpl.Patch(color=_COMM, label="communicates"),
               mpl.Patch(facecolor="white", edgecolor=_COMM, hatch=_HATCH, label="waits for other ranks")]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper center", ncols=4, fontsize=8, frameon=False)
    if picture.late is not None:
        axes.set_title(f"{_waiting(picture)}.", fontsize=10, color=color, loc="left")
    return figure


def _waiting(picture: StepPicture) -> str:
    """Return who waits how long for the late rank."""
    waited = format_ns(picture.waited_ns / max(1, len(picture.lanes) - 1))
    others = [lane.rank for lane in picture.lanes if lane.rank != picture.late]
    who = f"rank {others[0]} waits {waited}" if len(others) == 1 else f"the other ranks wait {waited} on average"
    return f"In this step {who} for rank {picture.late}"


def _choose_lanes(lanes: Sequence[StepLane], wanted: Collection[int | None]) -> list[StepLane]:
    """Return at most _MOST_LANES ranks: those that are wanted, and others at equal distances."""
    places = {place for place, lane in enumerate(lanes) if lane.rank in wanted}
    for place in np.linspace(0, len(lanes) - 1, min(_MOST_LANES, len(lanes))).round().astype(int).tolist():
        if len(places) < _MOST_LANES:
            places.add(place)
    return [lanes[place] for place in sorted(places)]


def _draw_lane(axes: mpl.Axes, row: int, lane: StepLane, wall_ns: int) -> None:
    """Draw a rank from top to bottom: ranges, computation, communication."""
    for name, start, end in lane.ranges:
        low, high = max(start, 0), min(end, wall_ns)
        if high <= low:
            continue
        box = ((low / NS_PER_S, (high - low) / NS_PER_S),)
        axes.broken_barh(box, (row - 0.42, 0.24), facecolor=RANGE, edgecolor="white", linewidth=0.8)
        letters = int(_LETTERS * (high - low) / wall_ns)
        if letters >= min(len(name), _LEAST_LETTERS):
            axes.text((low + high) / 2 / NS_PER_S, row - 0.3, escape_mathtext(clean(name, letters)), ha="center",
                      va="center", fontsize=7, color=INK)  # fmt: skip
    shades = mpl.LinearSegmentedColormap.from_list("computes", [_IDLE, _COMPUTE])
    extent = (lane.start_ns / NS_PER_S, lane.end_ns / NS_PER_S, row + 0.14, row - 0.16)
    pixels = shades(np.array([lane.compute_pct], dtype=float) / 100)
    axes.imshow(pixels, aspect="auto", interpolation="nearest", extent=extent)
    band = (row + 0.17, 0.24)
    of_step = ((lane.start_ns / NS_PER_S, (lane.end_ns - lane.start_ns) / NS_PER_S),)
    axes.broken_barh(of_step, band, facecolor=_IDLE)
    axes.broken_barh(_boxes(lane.moves), band, facecolor=_COMM)
    axes.broken_barh(_boxes(lane.waits), band, facecolor="white", edgecolor=_COMM, hatch=_HATCH, linewidth=0.4)


def _boxes(spans: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    return [(start / NS_PER_S, (end - start) / NS_PER_S) for start, end in spans]


def describe_step(job: RanksAnalysis) -> str:
    """Return what the picture of one step shows."""
    if job.picture is None:
        return ""
    text = f"One step of {len(job.picture.lanes)} ranks on one clock: ranges, computation, communication and waiting."
    return text if job.picture.late is None else f"{text} {_waiting(job.picture)}."


def draw_heatmap(job: RanksAnalysis) -> mpl.Figure | None:
    """Draw how each rank's own time in each range differs from the usual one.

    Return None where there are not at least two ranks and one range.
    """
    table, titles = _deviations(job.rank_ranges)
    if table is None or table.shape[0] < 2 or table.shape[1] == 0:
        return None
    ranks = [int(rank) for rank in table.index]
    figure = new_figure(2.2 + min(9.0, 0.22 * len(ranks)))
    axes = figure.subplots()
    limit = max(5.0, min(_SPAN_PCT, float(np.nanmax(np.abs(table.to_numpy())))))
    image = axes.imshow(table.to_numpy(), aspect="auto", cmap="PuOr_r", vmin=-limit, vmax=limit)
    axes.set_xticks(range(len(titles)), titles, rotation=40, ha="right", rotation_mode="anchor", fontsize=8)
    _label_ranks(axes, ranks, job)
    if len(ranks) * len(titles) <= 160:
        for (row, column), percent in np.ndenumerate(table.to_numpy()):
            if np.isfinite(percent):
                axes.text(column, row, f"{percent:+.0f}", ha="center", va="center", fontsize=7,
                          color="white" if abs(percent) > 0.7 * limit else INK)  # fmt: skip
    bar = figure.colorbar(image, ax=axes, shrink=0.8, pad=0.02, extend="both")
    bar.set_label("own time, % from usual", fontsize=8)
    bar.ax.tick_params(labelsize=8)
    axes.set_ylabel("rank", fontsize=10)
    return figure


def _deviations(rank_ranges: pd.DataFrame) -> tuple[pd.DataFrame | None, list[str]]:
    """Return deviations in percent by rank and range, and their labels.

    They compare GPU computation where a range has it, else the host's time without nested ranges. The ranges with the
    most time are chosen, and those in which ranks differ most come first.
    """
    if rank_ranges.empty:
        return None, []
    keys = ["range", "style", "domain"]
    on_gpu = rank_ranges.groupby(keys)["compute_ns"].transform("sum") > 0
    own = rank_ranges.assign(own_ns=rank_ranges["compute_ns"].where(on_gpu, rank_ranges["host_ns"]), on_gpu=on_gpu)
    wide = own.pivot_table(index="rank", columns=[*keys, "on_gpu"], values="own_ns", aggfunc="sum", sort=False)
    usual = np.sort(wide.fillna(0).to_numpy(dtype=float), axis=0)[(len(wide) - 1) // 2]
    wide = wide.loc[:, usual > 0]
    usual = usual[usual > 0]
    if wide.shape[1] == 0:
        return None, []
    percent = 100 * (wide / usual - 1)
    gpu = np.array([bool(column[-1]) for column in percent.columns])
    # A rank's difference counts by what it costs, not by its percentage of a tiny time.
    cost = (wide - usual).abs().max().to_numpy(dtype=float)
    largest = max(cost.max(), usual[gpu].max(initial=0))
    # A host range that takes equally long on all ranks shows nothing new; every GPU range that takes time matters.
    weighty = np.where(gpu, np.maximum(cost, usual), cost) >= _LEAST_SHARE * largest
    order = np.argsort(-cost, kind="stable")
    chosen = order[weighty[order]][:_MOST_RANGES]
    percent = percent.iloc[:, chosen]
    titles = [escape_mathtext(clean(str(name), 26)) + ("" if gpu else " (host)") for name, _, _, gpu in percent.columns]
    return percent, titles


def _label_ranks(axes: mpl.Axes, ranks: list[int], job: RanksAnalysis) -> None:
    """Label the ranks: all of them or, of many, some and all that stand out."""
    slow = set(job.stragglers["rank"].tolist())
    step = max(1, -(-len(ranks) // _MOST_LABELS))
    shown, labels = [], []
    for row, rank in enumerate(ranks):
        mark = " straggler ▸" if rank in slow else " outlier ▸" if rank in job.outliers else ""
        if mark or row % step == 0:
            shown.append(row)
            labels.append(f"{rank}{mark}")
    axes.set_yticks(shown, labels, fontsize=8 if step == 1 else 7)
    axes.tick_params(length=2)
    axes.spines[:].set_visible(False)


def describe_heatmap(job: RanksAnalysis) -> str:
    """Return whether ranks differ, and which one delays the others."""
    text = f"How far the time of each of {len(job.read)} ranks in each range lies from the usual rank's."
    if job.imbalance_pct is not None:
        text += f" The imbalance is {job.imbalance_pct:.1f} %."
    slow = [f"rank {rank}" for rank in dict.fromkeys(job.stragglers["rank"].tolist())]
    return f"{text} {sentence_of(slow, 'The others wait for ')}".rstrip()


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
        "start": pack_column(np.concatenate(starts), "<u8"),
        "length": pack_column(np.concatenate([rank.end_ns - rank.start_ns for rank in ranks]), "<u8"),
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
