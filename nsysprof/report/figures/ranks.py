"""Draw step.png (one step of all ranks), heatmap.png (ranks by ranges) and timeline.png (all ranks on one clock)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from nsysprof.report.figures.drawing_style import CATEGORY_COLORS, INK, NS_PER_S, RANGE, label_seconds, new_figure
from nsysprof.report.figures.occupancy import resample_shares
from nsysprof.report.formats.escape import clean, escape_mathtext
from nsysprof.report.wording import sentence_of
from nsysprof.results.rank_results import RanksAnalysis, StepLane, StepPicture
from nsysprof.units import format_ns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_RANGES = 24
_MOST_LABELS = 48
_SPAN_PCT = 30.0
# A range with less time than this share of the largest is too short for anybody to wait for it.
_LEAST_SHARE = 0.002
_SLICES = 1200
# At most so many ranks are drawn in the picture of one step. A line of it has room for so many letters.
_MOST_LANES, _LETTERS, _LEAST_LETTERS = 16, 110, 8
_LATE, _HATCH = "#B30000", "////"
_IDLE, _COMPUTE, _COMM = "#eef1f5", CATEGORY_COLORS["attention"], CATEGORY_COLORS["copy"]


def draw_step(job: RanksAnalysis) -> Figure | None:
    """Draw one step of the ranks: the host's ranges, computation, and communication with waiting hatched.

    Return None where no step of several ranks is known.
    """
    from matplotlib.patches import Patch

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
    handles = [Patch(color=RANGE, label="range"), Patch(color=_COMPUTE, label="computes"),
               Patch(color=_COMM, label="communicates"),
               Patch(facecolor="white", edgecolor=_COMM, hatch=_HATCH, label="waits for other ranks")]  # fmt: skip
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


def _draw_lane(axes: Axes, row: int, lane: StepLane, wall_ns: int) -> None:
    """Draw a rank from top to bottom: ranges, computation, communication."""
    from matplotlib.colors import LinearSegmentedColormap

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
    shades = LinearSegmentedColormap.from_list("computes", (_IDLE, _COMPUTE))
    extent = (lane.start_ns / NS_PER_S, lane.end_ns / NS_PER_S, row + 0.14, row - 0.16)
    share = np.array([lane.compute_pct], dtype=float)
    axes.imshow(share, aspect="auto", interpolation="nearest", cmap=shades, vmin=0, vmax=100, extent=extent)
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


def draw_heatmap(job: RanksAnalysis) -> Figure | None:
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


def draw_timeline(job: RanksAnalysis) -> Figure | None:
    """Draw when each rank computed and communicated, on the reference's clock. Return None without such ranks."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    offsets = {fit.rank: fit.offset_ns for fit in job.clocks if fit.offset_ns is not None}
    ranks = [rank for rank in sorted(offsets) if rank in job.lanes]
    if not ranks:
        return None
    begins = [job.lanes[rank].start_ns + offsets[rank] for rank in ranks]
    ends = [start + job.lanes[rank].slice_ns * len(job.lanes[rank].compute)
            for rank, start in zip(ranks, begins, strict=True)]  # fmt: skip
    edges = np.linspace(min(begins), max(ends), _SLICES + 1)
    colors = {name: np.array(to_rgb(color)) for name, color in
              (("idle", _IDLE), ("compute", _COMPUTE), ("comm", _COMM))}  # fmt: skip
    pixels = np.empty((len(ranks) * 2, _SLICES, 3))
    for row, rank in enumerate(ranks):
        lane = job.lanes[rank]
        for half, name in enumerate(("compute", "comm")):
            share = resample_shares(getattr(lane, name), lane.start_ns, lane.slice_ns, edges - offsets[rank])[:, None]
            pixels[2 * row + half] = share * colors[name] + (1 - share) * colors["idle"]
    figure = new_figure(1.6 + min(9.0, 0.3 * len(ranks)))
    axes = figure.subplots()
    span = max(ends) - min(begins)
    axes.imshow(pixels, aspect="auto", interpolation="nearest", extent=(0, span / NS_PER_S, len(ranks) - 0.5, -0.5))
    for line in range(1, len(ranks) if len(ranks) <= _MOST_LABELS else 0):
        axes.axhline(line - 0.5, color="white", linewidth=1.5)
    label_seconds(axes.xaxis)
    _label_ranks(axes, ranks, job)
    axes.set_ylabel("rank", fontsize=10)
    left_out = len(job.read) - len(ranks)
    more = f"; {left_out} ranks without a common clock left out" if left_out else ""
    axes.set_xlabel(
        f"time on the clock of rank {_reference(job)}; a slice is {format_ns(span / _SLICES)}{more}", fontsize=9
    )
    handles = [Patch(color=_COMPUTE, label="computes (upper half)"), Patch(color=_COMM, label="NCCL (lower half)"),
               Patch(color=_IDLE, label="neither")]  # fmt: skip
    figure.legend(handles=handles, loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    return figure


def _reference(job: RanksAnalysis) -> int:
    return next((fit.rank for fit in job.clocks if fit.how == "reference"), 0)


def _label_ranks(axes: Axes, ranks: list[int], job: RanksAnalysis) -> None:
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


def describe_ranks_timeline(job: RanksAnalysis) -> str:
    """Return how many ranks are shown, and which one delays the others."""
    slow = [f"rank {rank}" for rank in dict.fromkeys(job.stragglers["rank"].tolist())]
    text = f"Timeline of {len(job.lanes)} ranks on one clock, with computation and communication."
    return f"{text} {sentence_of(slow, 'The others wait for ')}".rstrip()
